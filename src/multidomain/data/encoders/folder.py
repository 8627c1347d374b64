"""The folder of a pretrained encoder, in the layout of Hugging Face: config.json, tokenizer.json and safetensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from multidomain.data.encoders.config import EncoderConfig
from multidomain.data.encoders.hub import fetch_from_hub
from multidomain.data.encoders.named import ENCODERS, fetch_encoder
from multidomain.errors import ConfigError, did_you_mean, quoted
from multidomain.files import sha256_of
from multidomain.saved import read_json

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_DAMAGED = "Get the encoder again."


@dataclass(frozen=True)
class EncoderFolder:
    """A pretrained encoder on disk.

    Parameters
    ----------
    source
        What the user called it.
    path
        Its folder, which holds all that is needed.
    """

    source: str
    path: Path

    def __post_init__(self) -> None:
        missing = [name for name in (CONFIG, TOKENIZER) if not (self.path / name).is_file()]
        if missing:
            raise ConfigError(
                f"The encoder in {self.path} lacks {quoted(missing)}.",
                "A tokenizer of another form is saved as tokenizer.json by save_pretrained() of a fast tokenizer."
                if missing == [TOKENIZER]
                else "Give the folder that holds config.json, tokenizer.json and model.safetensors.",
            )
        if not (self.path / WEIGHTS).is_file() and not (self.path / _INDEX).is_file():
            pickles = sorted(path.name for pattern in _PICKLES for path in self.path.glob(pattern))
            what = f"but pickled ones ({quoted(pickles, 2)}), which can run code when they are read" if pickles else ""
            raise ConfigError(
                f"The encoder in {self.path} has no weights as safetensors{', ' if what else ''}{what}.",
                "Get it with a model.safetensors, or convert it where you trust it: "
                "save_pretrained(FOLDER, safe_serialization=True).",
            )

    @cached_property
    def config(self) -> EncoderConfig:
        """Return its shape."""
        return EncoderConfig.of(read_json(self.path / CONFIG, dict[str, Any], _DAMAGED), str(self.path / CONFIG))

    @cached_property
    def tokenizer(self) -> dict[str, Any]:
        """Return the description of its tokenizer."""
        return read_json(self.path / TOKENIZER, dict[str, Any], _DAMAGED)

    @property
    def weights(self) -> list[Path]:
        """Return the files of its weights."""
        if (self.path / WEIGHTS).is_file():
            return [self.path / WEIGHTS]
        places = read_json(self.path / _INDEX, dict[str, Any], _DAMAGED).get("weight_map")
        if not isinstance(places, dict):
            raise ConfigError(f"{self.path / _INDEX} does not say which file holds which weights.", _DAMAGED)
        names = sorted({str(name) for name in places.values()})
        lost = [name for name in names if Path(name).name != name or not (self.path / name).is_file()]
        if not names:
            raise ConfigError(f"{self.path / _INDEX} names no files.", _DAMAGED)
        if lost:
            raise ConfigError(f"{self.path / _INDEX} names {quoted(lost)}, which the folder does not hold.", _DAMAGED)
        return [self.path / name for name in names]

    def digest(self) -> str:
        """Return a digest of its files."""
        files = [self.path / CONFIG, self.path / TOKENIZER, *self.weights]
        return _digest({file.name: sha256_of(file) for file in files})


def open_encoder(source: str, *, allow_download: bool = False) -> EncoderFolder:
    """Return a pretrained encoder by its name, or that in a folder.

    Parameters
    ----------
    source
        A name of `ENCODERS`, which is fetched on first use; a folder; or, if downloads are allowed, a name on the
        Hugging Face Hub, with or without ``@revision``.

    Raises
    ------
    ConfigError
        There is no such encoder, or its folder lacks something.
    FetchError
        It cannot be fetched.
    """
    if not source.strip():
        raise ConfigError("The encoder has no name.", f"Name one ({quoted(ENCODERS)}), or a folder.")
    if source in ENCODERS:
        return EncoderFolder(source, fetch_encoder(source))
    if Path(source).is_dir():
        return EncoderFolder(source, Path(source))
    if allow_download:
        return EncoderFolder(source, fetch_from_hub(source))
    raise ConfigError(
        f"There is no encoder '{source}': it is neither a known name nor a folder.{did_you_mean(source, ENCODERS)}",
        "A name on the Hugging Face Hub is downloaded with {settings.encoder.allow_download=true}.",
    )


def digest_of(source: str, *, allow_download: bool = False) -> str:
    """Return a digest of the files of an encoder; for the parameters see `open_encoder`."""
    if source in ENCODERS:  # whose files are checked whenever they are opened
        return _digest(ENCODERS[source].files)
    return open_encoder(source, allow_download=allow_download).digest()


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(files), sort_keys=True).encode()).hexdigest()
