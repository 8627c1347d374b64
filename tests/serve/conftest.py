"""One small model and one server for all tests of the API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from serving import Server, domain_specific_model, serving, trained_model

from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.model.model import Model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_model(tmp_path_factory)


@pytest.fixture(scope="session")
def domain_specific_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return domain_specific_model(tmp_path_factory)


@pytest.fixture(scope="session")
def offline(model_folder: Path) -> Model:
    """The model that the server serves, in this process."""
    return Model.load(model_folder)


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    return load_corpus("demo")


@pytest.fixture(scope="session")
def server(model_folder: Path) -> Iterator[Server]:
    with serving(model_folder) as server:
        yield server


@pytest.fixture(scope="session")
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client
