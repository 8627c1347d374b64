"""Runs of every kind, killed before operations on their files, end with the same bits."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from killing import KINDS, check_kill, moments, references

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(
        "forkserver" not in multiprocessing.get_all_start_methods() or not hasattr(signal, "SIGKILL"),
        reason="needs processes that fork, and SIGKILL",
    ),
]
WANTED = 60 if os.environ.get("MULTIDOMAIN_FAULTS") == "long" else 2  # kills of a kind in a folder


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_goes_on_to_the_same_bits_and_leaves_the_old_one_whole(kind: str, tmp_path: Path):
    whole, old, *operations = references(kind, tmp_path)
    for over_old_run, of_run in zip((False, True), operations, strict=True):
        for kill_at in moments(of_run, WANTED):
            check_kill(kind, over_old_run, kill_at, whole, old, tmp_path)
