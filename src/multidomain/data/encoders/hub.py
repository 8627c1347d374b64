"""Encoders from the Hugging Face Hub, only where the user has said so."""

from __future__ import annotations

from pathlib import Path

from multidomain.data.named.cache import cache_folder
from multidomain.errors import FetchError, missing_package

# Repositories hold copies in other precisions and for other libraries, in subfolders that these patterns leave out.
_FILES = (
    "config.json",
    "tokenizer.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-[0-9]*-of-[0-9]*.safetensors",
)


def fetch_from_hub(source: str) -> Path:
    """Return the folder with the files of a repository, downloaded if necessary; no code of it is fetched.

    Parameters
    ----------
    source
        ``owner/name``, or ``owner/name@revision`` for a commit.
    """
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError:
        raise missing_package(f"The encoder '{source}'", "huggingface_hub") from None
    name, _, revision = source.partition("@")
    try:
        folder = snapshot_download(
            name, revision=revision or None, allow_patterns=[*_FILES], cache_dir=cache_folder() / "encoders" / "hub"
        )
    except Exception as error:  # of the network, of the hub, or of the name; each is of a type of its own
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise FetchError(
            f"The encoder '{source}' could not be downloaded from the Hugging Face Hub ({why[:300]}). By hand: save "
            "its config.json, tokenizer.json and model.safetensors in a folder, and name the folder."
        ) from None
    return Path(folder)
