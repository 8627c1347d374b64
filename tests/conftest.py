"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)  # the same bits on every machine, and no threads that wait for each other


@pytest.fixture(scope="session")
def benchmark_data() -> Iterator[Path]:
    """The folder with the benchmark corpora, which MULTIDOMAIN_DATA points to from then on."""
    given = os.environ.get("MULTIDOMAIN_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    missing = [name for name in ("amazon", "fdu-mtl") if not (folder / name).is_dir()]
    if missing:
        pytest.skip(f"needs the benchmark corpora {missing}: set MULTIDOMAIN_DATA to the folder that holds them")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULTIDOMAIN_DATA", str(folder))
        yield folder
