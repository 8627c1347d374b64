"""How many threads numerical libraries use, with torch and without."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from multidomain.threads import threads_in_use, use_threads


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    yield
    use_threads(1)


def test_torch_and_other_libraries_use_so_many():
    from threadpoolctl import threadpool_info

    for n in (2, 1):
        use_threads(n)
        assert torch.get_num_threads() == threads_in_use() == n
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == str(n)
        pools = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
        assert pools and max(pools) <= n


def output_of(program: str, **environment: str) -> list[str]:
    given = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**given, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


LATER = """
import sys
from multidomain.threads import threads_in_use, use_threads
print(threads_in_use())
use_threads(1)
print(threads_in_use(), "torch" in sys.modules)
import torch
print(torch.get_num_threads(), threads_in_use())
"""


def test_torch_that_is_imported_later_uses_so_many():
    """And is not imported for it."""
    assert output_of(LATER, OMP_NUM_THREADS="2") == ["2", "1", "False", "1", "1"]


@pytest.mark.parametrize("given", [{}, {"OMP_NUM_THREADS": ""}], ids=["unset", "empty"])
def test_without_torch_and_limit_all_cores_are_used(given: dict[str, str]):
    program = "from multidomain.threads import threads_in_use; print(threads_in_use())"
    assert output_of(program, **given) == [str(os.cpu_count())]
