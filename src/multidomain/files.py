"""Atomic file writes, locks and checksums."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from multidomain.errors import ModelError, StorageError
from multidomain.version import __version__

COPY_AGAIN = "Copy the model again, or train it again."

Tensor = TypeVar("Tensor")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path` that replaces it if the block ends without an error.

    If the process is killed inside the block, or the disk is full, `path` is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left_behind in path.parent.glob(f".{path.name}.*.partial"):  # by a killed process
        left_behind.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # safetensors makes files readable only by their owner
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if _is_disk_full(error):
            raise StorageError(
                f"No space left on the disk while writing {path}. What was there before is unchanged.",
                "Free some space or choose another folder, and try again.",
            ) from error
        raise


def _umask() -> int:
    """Return the umask; reading it requires setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _is_disk_full(error: BaseException) -> bool:
    # safetensors reports the system's error as text, not as an OSError.
    codes = (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "errno", None) in codes or any(f"os error {code}" in str(error) for code in codes)


def lock(file: IO[Any], *, wait: bool) -> bool:
    """Lock a file until it is closed or the process ends; return whether that was possible."""
    if sys.platform == "win32":  # has no such locks: the user must run one process at a time
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_sealed(path: Path, content: dict[str, Any], format_version: int) -> None:
    """Write JSON with a format version and a checksum over all of it, which `read_sealed` checks."""
    content = {"format_version": format_version, "multidomain": __version__, **content}
    write_json(path, {**content, "sha256": _checksum(content)})


def read_sealed(path: Path, format_version: int) -> dict[str, Any]:
    """Read a file written by `write_sealed`; reject it if damaged, altered or newer than `format_version`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        checksum, is_newer = content.pop("sha256"), content["format_version"] > format_version
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ModelError(f"{path} is cut short or damaged.", COPY_AGAIN) from None
    if is_newer:
        raise ModelError(
            f"{path} has format version {content['format_version']}, written by multidomain "
            f"{content.get('multidomain')}; this is multidomain {__version__}, which reads up to {format_version}.",
            "Upgrade multidomain.",
        )
    if checksum != _checksum(content):
        raise ModelError(f"{path} was altered after it was saved.", COPY_AGAIN)
    return content


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tensors_under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names start with a prefix, with the prefix removed."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
