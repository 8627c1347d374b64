"""The service under load, attack and many requests. Short by default; see `attacks`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from attacks import Models, Size, load, memory, slow

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]
Record: TypeAlias = Callable[[str, dict[str, Any]], None]
MOST_GROWTH_MB = 16
MOST_LOG_BYTES = 20_000


@pytest.mark.parametrize("workers", [1, 2])
def test_no_answer_is_lost_or_wrong_while_models_are_replaced_and_the_server_stops(
    models: Models, size: Size, record: Record, tmp_path: Path, workers: int
) -> None:
    figures = load(models, size, tmp_path, workers)
    record("service-load", figures)
    assert (figures["lost"], figures["wrong"]) == (0, 0), str(figures)
    assert figures["reloads"] == size.reloads
    assert figures["requests"] > 20 * size.load_seconds


@pytest.mark.parametrize(("workers", "own_address"), [(1, False), (1, True), (2, False)])
def test_whoever_holds_connections_and_bodies_keeps_nobody_out(
    models: Models, size: Size, record: Record, workers: int, own_address: bool
) -> None:
    figures = slow(models, size, workers, own_address=own_address)
    record("service-slow-clients", figures)
    assert (figures["lost"], figures["wrong"]) == (0, 0), str(figures)
    assert figures["p99_ms"] < 1000, figures
    assert figures["log_bytes"] < MOST_LOG_BYTES


def test_memory_stays_flat(models: Models, size: Size, record: Record) -> None:
    figures = memory(models, size)
    record("service-memory", figures)
    warm, *later = figures["memory_mb"]
    assert max(later) - warm < MOST_GROWTH_MB, figures
