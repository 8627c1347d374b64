"""Download files: resumable, verified by SHA-256, atomic."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from multidomain.errors import FetchError
from multidomain.files import sha256_of

_BLOCK = 1 << 16
_PARTIAL_CONTENT = 206
_RANGE_NOT_SATISFIABLE = 416

Progress = Callable[["RemoteFile", int], None]


@dataclass(frozen=True)
class RemoteFile:
    """A file with a known digest.

    Parameters
    ----------
    url
        Its address.
    sha256
        Its digest, in hexadecimal.
    path
        Its path relative to the folder of the corpus.
    """

    url: str
    sha256: str
    path: str


def download(
    files: Sequence[RemoteFile],
    folder: Path,
    *,
    corpus: str,
    progress: Progress | None = None,
    timeout: float = 30.0,
) -> None:
    """Download the files that are not in the folder yet.

    An interrupted download is resumed. A complete file with the wrong digest is downloaded again once, since
    the earlier part may have been at fault.

    Parameters
    ----------
    files
        Files to download.
    folder
        Target folder; created if missing.
    corpus
        Name of the corpus, for messages.
    progress
        Called after every block with the file and the number of bytes downloaded.
    timeout
        Seconds to wait for the server.

    Raises
    ------
    FetchError
        The server cannot be reached or serves something else; the message says how to download by hand.
    """
    for file in files:
        target = folder / file.path
        if target.is_file() and sha256_of(target) == file.sha256:
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _fetch(file, target, progress, timeout)
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            raise FetchError(_by_hand(file, target, corpus, _reason(error))) from error
        except _WrongDigest as error:
            raise FetchError(_by_hand(file, target, corpus, str(error))) from None


class _WrongDigest(Exception):
    """The download has the wrong digest."""


def _fetch(file: RemoteFile, target: Path, progress: Progress | None, timeout: float) -> None:
    part = target.with_name(target.name + ".part")
    resumed = part.is_file() and part.stat().st_size > 0
    _transfer(file, part, progress, timeout)
    if resumed and sha256_of(part) != file.sha256:
        part.unlink()
        _transfer(file, part, progress, timeout)
    digest = sha256_of(part)
    if digest != file.sha256:
        part.unlink()
        raise _WrongDigest(f"the file has another content than expected (SHA-256 {digest}, expected {file.sha256})")
    part.replace(target)


def _transfer(file: RemoteFile, part: Path, progress: Progress | None, timeout: float) -> None:
    """Append the rest of the file, or start again if the server does not support ranges."""
    start = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(file.url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == _RANGE_NOT_SATISFIABLE and start:
            return  # already complete; the digest will tell whether it is right
        raise
    with response, part.open("ab" if response.status == _PARTIAL_CONTENT else "wb") as out:
        expected = response.length
        done = received = 0
        done = out.tell()
        while block := response.read(_BLOCK):
            out.write(block)
            received += len(block)
            if progress is not None:
                progress(file, done + received)
    if expected is not None and received < expected:
        raise http.client.IncompleteRead(b"", expected - received)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection broke off; what came is kept, and the next try goes on from there"
    return str(getattr(error, "reason", error)) or type(error).__name__


def _by_hand(file: RemoteFile, target: Path, corpus: str, reason: str) -> str:
    return (
        f"Could not download {file.url}: {reason}. By hand: fetch it with a browser and save it as "
        f"'{target}', then try again; or put all files of the corpus in a folder <folder>/{corpus} and set "
        "MULTIDOMAIN_DATA=<folder>."
    )
