"""Where named corpora are stored, and the checksums of their files."""

from __future__ import annotations

import json
import logging
import os
from functools import cache
from importlib import resources
from pathlib import Path

from multidomain.data.named.download import Progress, RemoteFile, download
from multidomain.errors import DataError, quoted
from multidomain.files import sha256_of

# Logging is not configured here; by default Python prints warnings to stderr, which is where a download
# notice belongs.
logger = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return the folder of downloaded corpora: MULTIDOMAIN_CACHE, or the user's cache folder."""
    if folder := os.environ.get("MULTIDOMAIN_CACHE"):
        return Path(folder)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "multidomain"


def given_folder(name: str) -> Path | None:
    """Return the folder of a corpus under MULTIDOMAIN_DATA, if there is one."""
    data = os.environ.get("MULTIDOMAIN_DATA")
    folder = Path(data) / name if data else None
    return folder if folder is not None and folder.is_dir() else None


@cache
def checksums(name: str) -> dict[str, str]:
    """Return the SHA-256 of each file of a named corpus, by file name."""
    text = resources.files("multidomain.data.named").joinpath("checksums.json").read_text("utf-8")
    return json.loads(text)[name]


def check_files(name: str, folder: Path, files: list[str]) -> None:
    """Check that all files of a named corpus are present and match the published checksums.

    Raises
    ------
    DataError
        A file is missing or altered.
    """
    missing = [file for file in files if not (folder / file).is_file()]
    if missing:
        raise DataError(
            f"The corpus '{name}' in '{folder}' lacks {quoted(missing)}. Add them, or unset MULTIDOMAIN_DATA "
            "to have the corpus downloaded."
        )
    expected = checksums(name)
    altered = [file for file in files if sha256_of(folder / file) != expected[file]]
    if altered:
        raise DataError(
            f"The corpus '{name}' in '{folder}' is not the published one: {quoted(altered)} differ from what "
            "their SHA-256 says. Remove them to have them downloaded anew, or read your own "
            "version by its path."
        )


def fetch_files(name: str, files: list[RemoteFile], progress: Progress | None) -> Path:
    """Return the folder of a named corpus, after downloading the missing files."""
    folder = cache_folder() / name
    absent = [file for file in files if not (folder / file.path).is_file()]
    if absent:
        logger.warning("Downloading the corpus '%s' (%d files) to %s", name, len(absent), folder)
    download(files, folder, corpus=name, progress=progress)
    return folder
