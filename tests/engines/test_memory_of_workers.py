"""How many workers fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from partitions import write_parts

from multidomain.engines import base, memory
from multidomain.engines.base import ENGINES

Run = Callable[..., tuple[int, str, str]]

GB = 2**30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files in which Linux says how much memory there is: 8 GB are free, and there is no limit."""
    (tmp_path / "meminfo").write_text(f"MemTotal: {16 * 2**20} kB\nMemAvailable: {8 * 2**20} kB\n")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    return tmp_path


def test_a_container_may_have_less_than_the_machine(machine: Path) -> None:
    assert memory.available_bytes() == 8 * GB
    (machine / "memory.max").write_text("max\n")
    (machine / "memory.current").write_text(f"{3 * GB}\n")
    (machine / "memory.stat").write_text(f"anon 5\ninactive_file {GB}\n")
    assert memory.available_bytes() == 8 * GB
    (machine / "memory.max").write_text(f"{4 * GB}\n")
    assert memory.available_bytes() == 2 * GB, "files in the cache make way"
    (machine / "meminfo").unlink()
    assert memory.available_bytes() == 2 * GB
    (machine / "memory.max").unlink()
    assert memory.available_bytes() is None


@pytest.mark.parametrize(
    ("asked", "each", "left", "said"),
    [
        (4, 2 * GB, 4, None),
        (5, 2 * GB, 4, "4 workers instead of 5: each needs about 2.0 GB, and 8.0 GB are free"),
        (2, 5 * GB, 1, "1 worker instead of 2: each needs about 5.0 GB, and 8.0 GB are free"),
        (1, 9 * GB, 1, None),
    ],
)
def test_workers_are_as_many_as_fit(asked: int, each: int, left: int, said: str | None, machine: Path) -> None:
    engine = ENGINES.find("local")(None, asked)
    note = engine.bound_by_memory(each)
    assert engine.workers == left
    assert note is None if said is None else note is not None and said in str(note)


def test_a_cluster_is_not_bounded_by_the_memory_of_this_machine(machine: Path) -> None:
    engine = ENGINES.find("dask")("127.0.0.1:1", 9)
    assert engine.bound_by_memory(2 * GB) is None and engine.workers == 9


def test_a_process_with_more_in_it_has_larger_workers() -> None:
    before = memory.bytes_like_here()
    held = np.ones(25_000_000)
    assert memory.bytes_like_here() - before > 0.9 * held.nbytes


def test_the_command_says_that_there_are_fewer_workers(
    model: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parts(tmp_path / "data", 40, 4)
    monkeypatch.setattr(base, "available_bytes", lambda: int(1.5 * memory.bytes_like_here()))
    code, _, err = run("predict", model, tmp_path / "data", "-o", tmp_path / "out", "--workers", "3")
    assert code == 0 and "1 worker instead of 3: each needs about" in err and "4/4  40 rows" in err
