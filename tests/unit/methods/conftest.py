"""Small tasks for methods, in float64 so that two ways of computing one thing can be told from two things."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from multidomain.methods.adversarial.man import MAN, MANSettings
from multidomain.methods.gradient import Batch
from multidomain.methods.task import Task
from multidomain.nn.sparse import SparseMatrix
from multidomain.training.sampling import DomainStream

N_INPUTS, ROWS_OF_EACH, BATCH_SIZE = 12, 10, 4


class Data:
    """Rows of every domain; `X` and `U` are new streams from the start, whenever asked for."""

    def __init__(self, task: Task, seed: int = 0):
        random = np.random.default_rng(seed)
        n_rows = ROWS_OF_EACH * len(task.domains)
        self.task = task
        self.matrix = random.normal(size=(n_rows, N_INPUTS)) * (random.random((n_rows, N_INPUTS)) < 0.5)
        self.d = np.repeat(np.arange(len(task.domains)), ROWS_OF_EACH)
        self.matrix += 0.5 * self.d[:, None]  # so that there is something for D to see
        self.y = random.integers(task.n_classes, size=n_rows)
        self.rows = SparseMatrix(csr_matrix(self.matrix), dtype=torch.float64)

    def _pools(self, domains: tuple[int, ...]) -> list[list[np.ndarray]]:
        return [[np.flatnonzero(self.d == code)] for code in domains]

    @property
    def X(self) -> DomainStream:
        return DomainStream(self.rows, self._pools(self.task.labelled), self.y, BATCH_SIZE, (0, 0))

    @property
    def U(self) -> DomainStream:
        everything = tuple(range(len(self.task.domains)))
        return DomainStream(self.rows, self._pools(everything), None, BATCH_SIZE, (0, 1))

    def batch(self) -> Batch:
        return self.U.sample()


def small_task(n_domains: int = 3, labelled: tuple[int, ...] | None = None, n_classes: int = 2) -> Task:
    names = tuple("abcdefgh"[:n_domains])
    return Task(N_INPUTS, n_classes, names, tuple(range(n_domains)) if labelled is None else labelled)


def small_man(task: Task, seed: int = 0, **settings: Any) -> MAN:
    """A network in float64, ready to train, dropout off unless asked for."""
    chosen = {"hidden": (6,), "shared_size": 5, "private_size": 4, "dropout": 0.0, "lr": 0.01, **settings}
    torch.manual_seed(seed)
    method = MAN(task, MANSettings.parse(chosen)).double()
    method.start_training()
    method.train()
    return method


@pytest.fixture
def make_task() -> Callable[..., Task]:
    return small_task


@pytest.fixture
def make_man() -> Callable[..., MAN]:
    return small_man


@pytest.fixture
def make_data() -> Callable[..., Data]:
    return Data
