"""Atomic writes of files and folders, locks and checksums."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from multidomain.errors import ConfigError, StorageError

_HERE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
"""Tells temporary files of this machine from those of others, whose processes it cannot see."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` if the block ends without an error.

    If the process is killed inside the block, or the disk is full, `path` is unchanged. A symlink stays one: the
    temporary path is next to the file that it points to, which is replaced.

    Raises
    ------
    StorageError
        The disk is full, the file too large, or the folder cannot be written to.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{_HERE}.{secrets.token_hex(4)}.{os.getpid()}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left_behind in target.parent.glob(f".{glob.escape(target.name)}.{_HERE}.*.partial"):
            if not _is_running(left_behind.suffixes[-2]):
                left_behind.unlink(missing_ok=True)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # safetensors makes files readable only by their owner
        temporary.replace(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if failure := out_of_space(error, f"{path}. What was there before is unchanged"):
            raise failure from error
        if isinstance(error, OSError) and error.filename in map(str, (temporary, *temporary.parents)):
            raise StorageError(f"Cannot write {path}: {error.strerror}.", "Choose another file or folder.") from error
        raise


_STAGED, _COMMITTED = ".staged", ".committed"
_REMOVED = ".removed"


@contextmanager
def all_or_none(folder: Path) -> Iterator[Path]:
    """Yield an empty folder; if the block ends without an error, its files replace those of `folder` in one step.

    The step is the renaming of that folder. If the process is killed before it, `folder` is unchanged; if after it,
    `complete` moves the rest of the files, which everything that reads or writes the folder calls first.
    """
    complete(folder)
    staged = folder / _STAGED
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    try:
        yield staged
        _sync_folder(staged)
        staged.rename(folder / _COMMITTED)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    complete(folder)


def mark_removed(path: Path) -> None:
    """Say, in a folder of `all_or_none`, that the file of this name is to be removed."""
    path.with_name(path.name + _REMOVED).touch()


def complete(folder: Path) -> None:
    """Finish a step of `all_or_none` whose process was killed; several processes may do so at once."""
    committed = folder / _COMMITTED
    if committed.is_symlink() or not committed.is_dir():  # a link, in a folder from anyone, may lead to other files
        return

    def order(path: Path) -> tuple[bool, bool, int]:
        """New names first and removals last: what refers to a file must never be there without it."""
        return path.name.endswith(_REMOVED), (folder / path.name).exists(), path.stat().st_mtime_ns

    try:
        for path in sorted(committed.iterdir(), key=order):
            name = path.name.removesuffix(_REMOVED)
            if name == path.name:
                path.replace(folder / name)
            elif path.exists():  # else another process was quicker, and a new run may have a file of that name by now
                if name:  # an empty one would be the folder itself, which may be a link
                    (folder / name).unlink(missing_ok=True)
                path.unlink(missing_ok=True)
        committed.rmdir()
        _sync_folder(folder)
    except FileNotFoundError:  # another process was quicker
        complete(folder)
    except OSError as error:
        raise StorageError(
            f"A run in {folder} was killed while its files were put in place, which cannot be completed: "
            f"{error.strerror}.",
            "Make the folder writable, and try again.",
        ) from error


def _sync_folder(folder: Path) -> None:
    """Make sure that renamings in a folder survive a power failure, where the system can."""
    if sys.platform == "win32":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _is_running(pid: str) -> bool:
    """Tell whether a process, written ``.123``, may be running."""
    if sys.platform == "win32" or not pid[1:].isdecimal():
        return False
    try:
        os.kill(int(pid[1:]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _umask() -> int:
    """Return the umask; reading it requires setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def out_of_space(error: BaseException, what: str) -> StorageError | None:
    """Return the error to raise for a full disk or a file-size limit; None for any other error.

    Parameters
    ----------
    what
        What was being written.
    """
    # safetensors reports the system's error as text, not as an OSError.
    in_text = re.search(r"\bos error (\d+)", str(error))
    code = int(in_text[1]) if in_text else getattr(error, "errno", None)
    if code in (errno.ENOSPC, errno.EDQUOT):
        hint = "Free some space or choose another folder, and try again."
        return StorageError(f"No space left on the disk while writing {what}.", hint)
    if code == errno.EFBIG:
        hint = "Raise the limit or choose another folder, and try again."
        return StorageError(f"The file-size limit (ulimit -f) was reached while writing {what}.", hint)
    return None


def lock(file: IO[Any], *, wait: bool) -> bool:
    """Lock a file until it is closed or the process ends; return False if another process holds the lock.

    Where there are no such locks, on Windows and on some network file systems, the user must run one process at a time.
    """
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
    return True


@contextmanager
def alone(path: Path, message: str, hint: str) -> Iterator[None]:
    """Hold a lock file; raise a `ConfigError` with this message and hint if another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:  # not "w": in a folder from anyone it may be a link to another file
        if not lock(file, wait=False):
            raise ConfigError(message, hint)
        yield


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
