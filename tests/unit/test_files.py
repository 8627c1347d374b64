"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from multidomain.errors import ConfigError, StorageError
from multidomain.files import _HERE, all_or_none, alone, complete, mark_removed, sha256_of, whole_file, write_json


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_there_only_when_the_block_has_ended(tmp_path: Path):
    path = tmp_path / "new" / "folder" / "a.txt"
    with whole_file(path) as temporary:
        assert temporary.parent == path.parent, "a rename between file systems is a copy"
        temporary.write_text("text")
        assert not path.exists()
    assert path.read_text() == "text"
    assert names(path.parent) == ["a.txt"]


def test_an_error_leaves_what_was_there(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="in the middle"), whole_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("in the middle")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_an_interrupt_leaves_what_was_there(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_an_error_before_anything_was_written(tmp_path: Path):
    with pytest.raises(RuntimeError, match="at once"), whole_file(tmp_path / "a.txt"):
        raise RuntimeError("at once")
    assert names(tmp_path) == []


def test_killed_in_the_middle_it_leaves_what_was_there(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    script = """
        import os, signal, sys
        from pathlib import Path
        from multidomain.files import whole_file
        with whole_file(Path(sys.argv[1])) as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert path.read_text() == "old"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_disk_full(code: int, tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with (
        pytest.raises(
            StorageError,
            match=r"No space left on the disk while writing .*a\.txt\. What was there before is unchanged\. "
            r"Free some space or choose another folder, and try again\.",
        ),
        whole_file(path) as temporary,
    ):
        temporary.write_text("half")
        raise OSError(code, os.strerror(code))
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_disk_full_when_the_data_is_forced_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Some file systems report it only then."""
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("multidomain.files.os.fsync", full)
    with pytest.raises(StorageError, match="No space left on the disk"), whole_file(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    "error", [OSError(errno.EFBIG, "File too large"), ValueError("I/O error: File too large (os error 27)")]
)
def test_file_too_large(error: Exception, tmp_path: Path):
    """As an error of Python's, and of safetensors."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    said = (
        r"The file-size limit \(ulimit -f\) was reached while writing .*a\.txt\. What was there before is unchanged\."
    )
    with pytest.raises(StorageError, match=said), whole_file(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_symlink_stays_and_the_file_it_points_to_is_replaced(tmp_path: Path):
    target, link = tmp_path / "there" / "target.txt", tmp_path / "here" / "link.txt"
    for path in (target, link):
        path.parent.mkdir()
    target.write_text("old")
    (tmp_path / "here" / "other.txt").symlink_to(Path("..", "there", "target.txt"))
    link.symlink_to("other.txt")
    before = target.stat().st_ino
    with whole_file(link) as temporary:
        assert temporary.parent == target.parent.resolve(), "a rename between file systems is a copy"
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new" and target.stat().st_ino != before, "replaced as a whole"
    assert link.is_symlink() and (tmp_path / "here" / "other.txt").is_symlink()
    with pytest.raises(RuntimeError), whole_file(link) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert link.read_text() == "new"
    assert names(tmp_path / "there") == ["target.txt"] and names(tmp_path / "here") == ["link.txt", "other.txt"]


def test_a_symlink_to_nothing_yet(tmp_path: Path):
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "new" / "target.txt")
    with whole_file(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink() and (tmp_path / "new" / "target.txt").read_text() == "new"


def test_only_what_was_left_behind_of_the_same_file_is_removed(tmp_path: Path):
    end = f"{_HERE}.0123abcd.4000000.partial"
    elsewhere = ".a[12].txt.76543210.0123abcd.4000000.partial"  # there a process of this number may be running
    for name in (f".a[12].txt.{end}", f".a1.txt.{end}", elsewhere):
        (tmp_path / name).touch()
    with whole_file(tmp_path / "a[12].txt") as temporary:
        temporary.touch()
    assert names(tmp_path) == sorted([f".a1.txt.{end}", elsewhere, "a[12].txt"])


def test_two_machines_that_write_a_file_have_a_temporary_one_each(tmp_path: Path):
    """The numbers of their processes may be the same."""
    with whole_file(tmp_path / "a.txt") as one, whole_file(tmp_path / "a.txt") as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert names(tmp_path) == ["a.txt"] and (tmp_path / "a.txt").read_text() == "one"


def test_a_place_that_cannot_be_written_to(tmp_path: Path):
    (tmp_path / "file").write_text("old")
    said = r"Cannot write .*file/a\.txt: .+\. Choose another file or folder\."
    with pytest.raises(StorageError, match=said), whole_file(tmp_path / "file" / "a.txt"):
        pytest.fail("there is no such folder")
    assert (tmp_path / "file").read_text() == "old"
    (tmp_path / "folder").mkdir()
    said = r"Cannot write .*folder: Is a directory\."
    with pytest.raises(StorageError, match=said), whole_file(tmp_path / "folder") as temporary:
        temporary.write_text("new")

    said = r"Cannot write .*a\.txt: Permission denied\."
    with pytest.raises(StorageError, match=said), whole_file(tmp_path / "a.txt") as temporary:
        raise PermissionError(errno.EACCES, "Permission denied", str(temporary))
    assert names(tmp_path) == ["file", "folder"]


def test_other_errors_are_passed_on(tmp_path: Path):
    with pytest.raises(PermissionError), whole_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("half")
        raise PermissionError(errno.EACCES, "Permission denied")
    assert names(tmp_path) == []


def test_json(tmp_path: Path):
    value = {"name": "Bücher – 書", "numbers": [1, 0.1, None]}
    write_json(tmp_path / "a.json", value)
    content = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(content) == value
    assert "Bücher – 書" in content and content.endswith("}\n")


def test_json_that_cannot_be_written_leaves_what_was_there(tmp_path: Path):
    write_json(tmp_path / "a.json", [1])
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"a": object()})
    assert json.loads((tmp_path / "a.json").read_text()) == [1]
    assert names(tmp_path) == ["a.json"]


def test_sha256(tmp_path: Path):
    content = bytes(range(256)) * 5000
    (tmp_path / "a").write_bytes(content)
    assert sha256_of(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_files_are_readable_as_any_other_file_of_the_user(tmp_path: Path):
    """Some writers make files that only their owner can read."""
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "a") as temporary:
            temporary.touch(mode=0o600)
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
        assert os.umask(0o027) == 0o027, "the mask of the process was changed"
    finally:
        os.umask(before)


def test_what_a_running_process_writes_is_left_to_it(tmp_path: Path):
    other = tmp_path / f".a.txt.{_HERE}.0123abcd.{os.getppid()}.partial"
    other.write_text("half")
    with whole_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
    assert other.read_text() == "half" and (tmp_path / "a.txt").read_text() == "new"


# --- several files in one step ----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("model.json", "old.bin", "report.html"):
        (tmp_path / name).write_text("old")
    return tmp_path


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


NEW = {"model.json": "new", "new.bin": "new", "report.html": "old"}


def stage(staged: Path) -> None:
    for name in ("new.bin", "model.json"):
        (staged / name).write_text("new")
    mark_removed(staged / "old.bin")


def test_files_replace_others_together(folder: Path):
    with all_or_none(folder) as staged:
        stage(staged)
        assert (folder / "model.json").read_text() == (folder / "old.bin").read_text() == "old"
    assert texts(folder) == NEW


def test_after_an_error_everything_is_as_before(folder: Path):
    before = texts(folder)
    with pytest.raises(RuntimeError), all_or_none(folder) as staged:
        stage(staged)
        raise RuntimeError
    assert texts(folder) == before


@pytest.mark.parametrize(
    "moved", [(), ("new.bin",), ("new.bin", "model.json"), ("model.json", "new.bin", "old.bin.removed")]
)
def test_a_step_that_was_interrupted_is_completed(moved: tuple[str, ...], folder: Path):
    with all_or_none(folder) as staged:
        stage(staged)
        shutil.copytree(staged, folder / "copy")
    (folder / "copy").rename(folder / ".committed")
    for name in ("model.json", "old.bin"):
        (folder / name).write_text("old")
    (folder / "new.bin").unlink()
    for name in moved:
        path = folder / ".committed" / name
        if name.endswith(".removed"):
            (folder / "old.bin").unlink()
            path.unlink()
        else:
            path.rename(folder / name)
    complete(folder)
    assert texts(folder) == NEW
    complete(folder)
    assert texts(folder) == NEW


def test_what_refers_to_a_file_is_never_there_without_it(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """The old file goes after its manifest, and the new one comes before."""
    done: list[str] = []
    with monkeypatch.context() as watched:
        for name, argument in (("replace", 1), ("unlink", 0)):
            operation = getattr(os, name)
            watched.setattr(
                os, name, lambda *a, do=operation, i=argument, **k: (done.append(Path(a[i]).name), do(*a, **k))[1]
            )
        with all_or_none(folder) as staged:
            mark_removed(staged / "old.bin")
            for name in ("model.json", "new.bin"):
                (staged / name).write_text("new")
    assert [name for name in done if name in ("new.bin", "model.json", "old.bin")] == [
        "new.bin",
        "model.json",
        "old.bin",
    ]


def test_a_forged_step_leads_to_no_other_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    """It comes with a model from anyone, and whoever reads that would move or remove his own files."""
    others = tmp_path_factory.mktemp("others")
    (others / "letter.txt").write_text("mine")
    (folder / ".committed").symlink_to(others)
    complete(folder)
    assert names(others) == ["letter.txt"] and "letter.txt" not in names(folder)
    (folder / ".committed").unlink()
    (folder / ".committed").mkdir()
    (folder / ".committed" / ".removed").touch()
    link = others / "current"
    link.symlink_to(folder)
    complete(link)
    assert link.is_symlink()


def test_what_was_staged_by_a_killed_process_is_dropped(folder: Path):
    (folder / ".staged").mkdir()
    (folder / ".staged" / "half.json").write_text("half")
    with all_or_none(folder) as staged:
        stage(staged)
    assert texts(folder) == NEW


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
def test_a_lock_is_held_once_at_a_time(tmp_path: Path):
    path = tmp_path / "new" / ".lock"
    with (
        alone(path, "Held.", "Wait."),
        pytest.raises(ConfigError, match=r"^Held\. Wait\.$"),
        alone(path, "Held.", "Wait."),
    ):
        pytest.fail("two hold it")
    with alone(path, "Held.", "Wait."):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
def test_a_lock_file_that_is_a_link_leaves_the_other_file_alone(tmp_path: Path):
    (tmp_path / "letter.txt").write_text("mine")
    (tmp_path / ".lock").symlink_to("letter.txt")
    with alone(tmp_path / ".lock", "Held.", "Wait."):
        pass
    assert (tmp_path / "letter.txt").read_text() == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_a_file_system_without_locks(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def no_locks(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with alone(tmp_path / ".lock", "Held.", "Wait."):
        pass
