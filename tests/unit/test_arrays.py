"""Arrays in memory and in temporary files."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from multidomain import arrays
from multidomain.arrays import ArrayWriter, joined, looked_up, ranges, take_ranges
from multidomain.errors import StorageError


@pytest.fixture(params=["memory", "disk"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "disk":
        monkeypatch.setattr(arrays, "LARGE", 16)
        monkeypatch.setattr(arrays, "_ROWS_AT_A_TIME", 2)
    return str(request.param)


def is_on_disk(array: np.ndarray) -> bool:
    return isinstance(array, np.ndarray) and (isinstance(array, np.memmap) or is_on_disk(array.base))


def test_an_array_is_where_there_is_room(place: str):
    array = arrays.empty(100, np.float64)
    array[:] = np.arange(100)
    assert is_on_disk(array) == (place == "disk") and type(array) is np.ndarray  # which numba takes
    np.testing.assert_array_equal(array, np.arange(100))


def test_parts_become_one_array(place: str):
    writer = ArrayWriter(np.int32)
    for part in ([], [1, 2, 3], np.arange(4, 8), [8.0], np.arange(20)[9::2]):
        writer.append(part)
    array = writer.finish()
    assert is_on_disk(array) == (place == "disk") and array.dtype == np.int32
    assert array.tolist() == [*range(1, 9), 9, 11, 13, 15, 17, 19]
    assert ArrayWriter(np.int32).finish().tolist() == []


def test_ranges_are_taken_in_any_order(place: str):
    values, starts, lengths = np.arange(50) * 10, np.array([40, 3, 7, 7, 0]), np.array([3, 4, 0, 2, 10])
    expected = values[ranges(starts, lengths)]
    np.testing.assert_array_equal(take_ranges(values, starts, lengths), expected)
    assert take_ranges(values, starts[:0], lengths[:0]).tolist() == []
    in_order = take_ranges(values, np.array([5, 7]), np.array([2, 3]))
    assert in_order.tolist() == [50, 60, 70, 80, 90] and np.shares_memory(in_order, values)


def test_lookups_and_copies(place: str):
    table, numbers = np.array([5.0, 7.0, 9.0]), np.arange(300) % 3
    np.testing.assert_array_equal(looked_up(table, numbers), table[numbers])
    copy = joined([table, table[:1]])
    copy[0] = 0
    assert copy.tolist() == [0, 7, 9, 5] and table[0] == 5


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Not even by a process that is killed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(arrays, "LARGE", 16)
    array = arrays.empty(100, np.float64)
    assert is_on_disk(array) and list(tmp_path.iterdir()) == []
    program = (
        "import os, signal; import numpy as np; from multidomain import arrays; arrays.LARGE = 16\n"
        "writer = arrays.ArrayWriter(np.int64); writer.append(range(1000)); array = writer.finish()\n"
        "assert isinstance(array.base, np.memmap); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    assert done.returncode == -signal.SIGKILL and list(tmp_path.iterdir()) == []


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrays, "LARGE", 16)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_no_room_is_an_error_that_says_what_to_do(little_room: None):
    with pytest.raises(StorageError, match=r"reached while writing .* temporary files to") as error:
        arrays.empty(1000, np.float64)
    assert "TMPDIR" in error.value.hint
    writer = ArrayWriter(np.int64)
    with pytest.raises(StorageError, match="temporary files"):
        writer.append(np.arange(1000))


def test_a_folder_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    monkeypatch.setattr(arrays, "LARGE", 16)
    with pytest.raises(StorageError, match=r"Cannot write temporary files to .*gone: No such file"):
        arrays.empty(100, np.float64)
