"""Every reader, with damaged and forged inputs: it succeeds or says what is wrong, and nothing else happens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fuzzing import CASES, fuzzed
from readers import TARGETS

pytestmark = pytest.mark.faults

IS_LONG = os.environ.get("MULTIDOMAIN_FAULTS") == "long"
SEEDS = ("1", "2", "3", "4") if IS_LONG else ("1",)
COUNT = 250 if IS_LONG else 25


def test_cases_that_were_found_before(tmp_path: Path):
    """What once ended in a traceback, took too much memory or reached outside its folder."""
    (results,) = fuzzed(tmp_path / "replay", "0", f"replay={CASES}")
    assert len(results) == len(list(CASES.glob("*/*"))) > 5
    assert {result["case"]: result["what"] for result in results if result["what"] not in ("read", "refused")} == {}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_readers_succeed_or_say_what_is_wrong(seed: str, tmp_path: Path):
    results = fuzzed(tmp_path / "fuzzed", seed, *(f"{name}={COUNT}" for name in TARGETS))
    assert [fault for result in results for fault in result["found"]] == []
    assert {result["target"] for result in results} == set(TARGETS)
    assert all(result.get("refused", 0) + result.get("read", 0) == COUNT for result in results)
    # Most damage is noticed, and some is none: a target that always refuses, or never, tests nothing.
    assert all(result.get("refused", 0) and result.get("read", 0) for result in results if COUNT > 100)
