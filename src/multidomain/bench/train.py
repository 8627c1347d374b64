"""Iterations per second of the engine and the textbook version, in one process on the same data."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeAlias

import numpy as np
import torch
from scipy import sparse

from multidomain.bench.memory import peak_memory_mb
from multidomain.bench.textbook import DenseStream, TextbookMAN
from multidomain.bench.textbook_cnn import PaddedStream
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import given_split
from multidomain.features.base import Documents
from multidomain.features.sequences import SequenceFeaturizer
from multidomain.methods.adversarial.man import MAN, MANSettings
from multidomain.methods.data import TrainingData
from multidomain.methods.task import Task
from multidomain.nn.sparse import SparseMatrix
from multidomain.training.data import EncodedRows, training_data
from multidomain.training.sampling import DomainStream, labelled_stream, text_stream

N_INPUTS = 5000
_ROWS_OF_EACH = 200  # enough for batches to differ; the textbook version stores them dense
_NON_ZEROS = 80  # mean per row, as in the Amazon reviews
_BATCH_SIZE = 8


_Lap: TypeAlias = tuple[float, float]
"""Seconds per iteration, on the wall clock and of CPU time."""


@dataclass(frozen=True)
class TrainingSpeed:
    """Seconds per iteration in each repeat, and the peak memory of the process before the textbook version was loaded.

    Without the textbook version its seconds are empty.
    """

    n_domains: int
    engine_seconds: list[float]
    textbook_seconds: list[float]
    engine_cpu_seconds: list[float]
    textbook_cpu_seconds: list[float]
    peak_mb: float

    @classmethod
    def of(cls, n_domains: int, engine: list[_Lap], textbook: list[_Lap], peak_mb: float) -> Self:
        """Return the speed of given laps."""
        return cls(
            n_domains,
            engine_seconds=[wall for wall, _ in engine],
            textbook_seconds=[wall for wall, _ in textbook],
            engine_cpu_seconds=[cpu for _, cpu in engine],
            textbook_cpu_seconds=[cpu for _, cpu in textbook],
            peak_mb=peak_mb,
        )

    @property
    def ratios(self) -> list[float]:
        """Return the ratios of CPU seconds, textbook to engine, in all repeats, ascending."""
        return sorted(t / e for t, e in zip(self.textbook_cpu_seconds, self.engine_cpu_seconds, strict=False))

    @property
    def ratio(self) -> float | None:
        """Return the median speed-up."""
        return float(np.median(self.ratios)) if self.ratios else None


def measure_training(n_domains: int, repeats: int, settings: MANSettings, with_textbook: bool = True) -> TrainingSpeed:
    """Measure in a separate process, with one thread, so that sizes do not affect each other."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (n_domains, repeats, settings, with_textbook))


def _measure(n_domains: int, repeats: int, settings: MANSettings, with_textbook: bool) -> TrainingSpeed:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    matrix, y = _reviews(n_domains)
    domains = tuple(f"domain {d}" for d in range(n_domains))
    man = MAN(Task(N_INPUTS, 2, domains, tuple(range(n_domains))), settings)
    man.start_training()
    man.train()
    X, U = _streams(matrix, y, n_domains)
    engine = _timed(lambda: man.step(X, U, 0, 0))
    engine(3)  # compiles, and touches the optimiser's memory
    peak_mb = peak_memory_mb()
    if not with_textbook:
        return TrainingSpeed.of(n_domains, [engine(5) for _ in range(repeats)], [], peak_mb)
    book = TextbookMAN(man)
    other_X, other_U = _streams(matrix, y, n_domains)
    dense_X, dense_U = (
        DenseStream(stream, matrix, labels, torch.float32) for stream, labels in ((other_X, y), (other_U, None))
    )
    textbook = _timed(lambda: book.step(dense_X, dense_U))
    textbook(1)
    # About half a second of each in turn, so that load on the machine affects both.
    some = max(1, round(0.5 / engine(3)[1])), max(1, round(0.5 / textbook(1)[1]))
    laps = [(engine(some[0]), textbook(some[1])) for _ in range(repeats)]
    return TrainingSpeed.of(n_domains, [lap[0] for lap in laps], [lap[1] for lap in laps], peak_mb)


def measure_text_training(repeats: int, settings: MANSettings, with_textbook: bool = True) -> TrainingSpeed:
    """Measure a network that reads token sequences, on the texts of FDU-MTL."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_texts, (repeats, settings, with_textbook))


def _measure_texts(repeats: int, settings: MANSettings, with_textbook: bool) -> TrainingSpeed:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    corpus = load_corpus("fdu-mtl")
    split = given_split(corpus)
    documents = Documents(corpus.documents)
    text = np.concatenate([split.train, split.unlabelled])
    sequences = SequenceFeaturizer().fit(documents[text].analysed_for(SequenceFeaturizer))
    encoded = EncodedRows(sequences, documents, np.concatenate([text, split.dev]), len(corpus))
    data = training_data(corpus, split, sequences, encoded)
    man = MAN(data.task, settings)
    man.start_training()
    man.train()
    engine = _timed(partial(man.step, *_text_streams(data), 0, 0))
    engine(8)  # compiles, and touches the optimiser's memory
    peak_mb, n_domains = peak_memory_mb(), len(data.task.domains)
    if not with_textbook:
        return TrainingSpeed.of(n_domains, [engine(5) for _ in range(repeats)], [], peak_mb)
    book = TextbookMAN(man)
    X, U = _text_streams(data)
    padded = PaddedStream(X, data.labelled.x, data.labelled.y), PaddedStream(U, data.text.x, None)
    textbook = _timed(partial(book.step, *padded))
    textbook(1)
    laps = [(engine(5), textbook(1)) for _ in range(repeats)]
    return TrainingSpeed.of(n_domains, [lap[0] for lap in laps], [lap[1] for lap in laps], peak_mb)


def _text_streams(data: TrainingData) -> tuple[DomainStream, DomainStream]:
    return labelled_stream(data, _BATCH_SIZE, 0, balanced=False), text_stream(data, _BATCH_SIZE, 0)


def _timed(step: Callable[[], object]) -> Callable[[int], _Lap]:
    def run(iterations: int) -> _Lap:
        began, began_cpu = time.perf_counter(), time.process_time()
        for _ in range(iterations):
            step()
        return (time.perf_counter() - began) / iterations, (time.process_time() - began_cpu) / iterations

    return run


def _streams(matrix: sparse.csr_matrix, y: np.ndarray, n_domains: int) -> tuple[DomainStream, DomainStream]:
    rows = SparseMatrix(matrix)
    pools = [[np.arange(d * _ROWS_OF_EACH, (d + 1) * _ROWS_OF_EACH)] for d in range(n_domains)]
    return DomainStream(rows, pools, y, _BATCH_SIZE, (0, 0)), DomainStream(rows, pools, None, _BATCH_SIZE, (0, 1))


def _reviews(n_domains: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return counts with a word-like column distribution."""
    random = np.random.default_rng(0)
    often = 1 / np.arange(1, N_INPUTS + 1) ** 0.8
    for _ in range(20):  # probabilities of at most 1 that sum to the desired number of non-zeros
        often = np.minimum(1, often * _NON_ZEROS / np.minimum(1, often).sum())
    n_rows = n_domains * _ROWS_OF_EACH
    blocks = [sparse.csr_matrix(random.random((_ROWS_OF_EACH, N_INPUTS)) < often) for _ in range(n_domains)]
    matrix = sparse.vstack(blocks, format="csr").astype(np.float32)
    matrix.data[:] = random.geometric(0.7, len(matrix.data))
    return matrix, random.integers(2, size=n_rows)
