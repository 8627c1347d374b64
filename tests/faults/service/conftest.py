"""Two small models that differ, the size of the attacks on the service, and a record of their figures if wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "serve"))  # the servers of the tests of the API

from attacks import LONG, SHORT, Models, Size, trained_models


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return trained_models(tmp_path_factory.getbasetemp() / "attacked")


@pytest.fixture(scope="session")
def size() -> Size:
    return LONG if os.environ.get("MULTIDOMAIN_FAULTS") == "long" else SHORT


@pytest.fixture(scope="session")
def record() -> Callable[[str, dict[str, Any]], None]:
    """Append figures to the file that MULTIDOMAIN_FAULTS_RECORDS names, if it does; whether they are good or not."""
    from multidomain.code import code_hash
    from multidomain.experiments.records import append_record
    from multidomain.runs.machine import machine

    path = os.environ.get("MULTIDOMAIN_FAULTS_RECORDS")

    def append(what: str, figures: dict[str, Any]) -> None:
        if path:
            append_record(Path(path), {"what": what, **figures, "code": code_hash(), "machine": machine()})

    return append
