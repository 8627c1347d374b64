"""Small training data made by hand, and a method that shows what the loop does to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.gradient import GradientMethod, Stream
from multidomain.methods.registry import method_entry
from multidomain.methods.task import Task
from multidomain.nn.sparse import SparseBatch
from multidomain.settings import Settings

N_INPUTS = 10


def make_examples(sizes: list[int], n_classes: int, seed: int, labels: bool = True) -> Examples:
    """`sizes[d]` rows of each domain; column 0 is the row's number from 1, so that rows can be recognised."""
    random = np.random.default_rng(seed)
    n_rows = sum(sizes)
    matrix = random.integers(0, 3, size=(n_rows, N_INPUTS)).astype(np.float32)
    matrix[:, 0] = np.arange(1, n_rows + 1)
    d = np.repeat(np.arange(len(sizes)), sizes)
    y = np.arange(n_rows) % n_classes
    matrix[np.arange(n_rows), 1 + y] += 4  # the class can be learnt
    return Examples(csr_matrix(matrix), d, y if labels else None)


def make_training_data(
    labelled: tuple[int, ...] = (9, 6, 12),
    text: tuple[int, ...] = (9, 6, 12),
    dev: tuple[int, ...] = (4, 4, 4),
    n_classes: int = 2,
) -> TrainingData:
    """Data of len(text) domains; a 0 in `labelled` is a domain without labels."""
    task = Task(N_INPUTS, n_classes, tuple("abcdef"[: len(text)]), tuple(d for d, size in enumerate(labelled) if size))
    return TrainingData(
        task=task,
        classes=tuple("xyz"[:n_classes]),
        labelled=make_examples(list(labelled), n_classes, seed=1),
        text=make_examples(list(text), n_classes, seed=2, labels=False),
        dev=make_examples(list(dev), n_classes, seed=3),
        text_has_label=np.zeros(sum(text), dtype=bool),
    )


class NoSettings(Settings):
    pass


class Scripted(GradientMethod):
    """Gets dev rows right as a script says: `script[e]` of them at the end of epoch e (from 0).

    Its one weight counts steps, so a weight tells at which step it was copied. It logs that count.
    """

    settings_type = NoSettings

    def __init__(self, task: Task, script: list[float]):
        super().__init__(task, NoSettings())
        self.script = script
        self.weight = nn.Parameter(torch.zeros(()))
        self.epoch = 0
        self.was_training: list[bool] = []
        self.calls: list[tuple[int, int]] = []

    def start_training(self) -> None:
        self.optimisers = {"main": torch.optim.SGD([self.weight], lr=1.0)}

    def step(self, X: Stream, U: Stream, epoch: int, i: int) -> dict[str, Tensor]:
        self.was_training.append(self.training)
        self.calls.append((epoch, i))
        self.epoch = epoch
        X.sample()
        with torch.no_grad():
            self.weight += 1
        return {"steps": self.weight.detach().clone(), "constant": torch.tensor(2.5)}

    def batch_logits(self, x: SparseBatch, d: int | None) -> Tensor:
        assert not self.training and d is not None
        logits = torch.zeros(len(x), self.task.n_classes)
        right = round(self.script[self.epoch] * len(x))
        # Rows are numbered from 1 in column 0 and their classes alternate (see make_examples).
        number = x.value[x.offset[:-1]].long() - 1
        y = number % self.task.n_classes
        logits[torch.arange(right), y[:right]] = 1
        logits[torch.arange(right, len(x)), (y[right:] + 1) % self.task.n_classes] = 1
        return logits


def make_small_man(task: Task, name: str = "man-nll", seed: int = 0, **settings: Any) -> GradientMethod:
    """A small real method with dropout on; the random state is left as the initialisation left it."""
    entry = method_entry(name)
    torch.manual_seed(seed)
    chosen = {"hidden": (6,), "shared_size": 5, "private_size": 4, "lr": 0.01, **settings}
    return entry.build(task, entry.settings(chosen))


@pytest.fixture
def training_data_of() -> Callable[..., TrainingData]:
    return make_training_data


@pytest.fixture
def scripted() -> Callable[..., Scripted]:
    return Scripted


@pytest.fixture
def small_method() -> Callable[..., GradientMethod]:
    return make_small_man
