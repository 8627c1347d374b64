"""The engine with a CNN against Algorithm 1 with torch's own modules: the same mini-batches, the same weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from multidomain.bench.textbook import TextbookMAN
from multidomain.bench.textbook_cnn import PaddedStream
from multidomain.methods.adversarial.man import MAN, MANSettings
from multidomain.methods.task import Task
from multidomain.nn.sparse import SparseMatrix
from multidomain.training.sampling import DomainStream

STEPS, WORDS, ROWS = 25, 60, 24


def documents() -> csr_matrix:
    """Texts of 1 to 40 words, most words rare, in an order that matters."""
    random = np.random.default_rng(1)
    lengths = random.integers(1, 40, size=3 * ROWS)
    often = 1 / np.arange(1, WORDS + 1)
    words = random.choice(WORDS, size=lengths.sum(), p=often / often.sum())
    return csr_matrix((np.ones(len(words)), words, np.r_[0, np.cumsum(lengths)]), shape=(3 * ROWS, WORDS))


@pytest.mark.parametrize(
    ("category", "adversary", "labelled"),
    [("shared-private", "nll", (0, 2)), ("shared", "l2", (0, 1, 2)), ("domain-specific", None, (0, 1, 2))],
)
def test_steps(category: str, adversary: str | None, labelled: tuple[int, ...]):
    settings = MANSettings(
        category=category, adversary=adversary, extractor="cnn", filters=7, dimension=6, kernel_sizes=(2, 5),
        shared_size=8, private_size=6, dropout=0, lam=0.5, k=2, lr=1e-3,
    )  # fmt: skip
    torch.manual_seed(0)
    man = MAN(Task(WORDS, 3, ("a", "b", "c"), labelled), settings).double()
    book = TextbookMAN(man)
    start = {name: value.clone() for name, value in man.state_dict().items()}
    man.start_training()
    man.train()
    y = np.random.default_rng(2).integers(3, size=3 * ROWS)
    matrix = documents()
    rows = SparseMatrix(matrix, dtype=torch.float64)
    pools = [[np.arange(d * ROWS, (d + 1) * ROWS)] for d in range(3)]

    def streams() -> tuple[DomainStream, DomainStream]:
        X = DomainStream(rows, [pools[d] for d in labelled], y, 4, (0, 0))
        return X, DomainStream(rows, pools, None, 4, (0, 1))

    (X, U), (book_X, book_U) = streams(), streams()
    padded_X, padded_U = PaddedStream(book_X, matrix, y), PaddedStream(book_U, matrix, None)
    for i in range(STEPS):
        man.step(X, U, 0, i)
        book.step(padded_X, padded_U)
    man.flush()
    expected = book.state_like(man)
    for name, value in man.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-7, msg=name)
        if value.is_floating_point() and "running" not in name:
            assert not torch.equal(value, start[name]), name
