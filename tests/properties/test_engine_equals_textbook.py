"""The engine against Algorithm 1 as printed: fifty steps on the same mini-batches lead to the same weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from multidomain.bench.textbook import DenseStream, TextbookMAN
from multidomain.methods.adversarial.man import MAN, MANSettings
from multidomain.methods.task import Task
from multidomain.nn.sparse import SparseMatrix
from multidomain.training.sampling import DomainStream

STEPS, N_INPUTS, ROWS = 50, 300, 40
# The float64 cases are the proof that both do the same; what is left there is the closed form for missed steps. In
# float32 two orders of summing differ by 1e-7 in a gradient, and Adam turns a gradient near zero of unsure sign into a
# full step: 1e-4 holds for this data, not for any (decision 10).
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-7}

VARIANTS = [
    ("shared-private", "nll", (0, 1, 2)),
    ("shared-private", "nll", (0, 2)),
    ("shared-private", "l2", (0, 2)),
    ("shared-private", None, (0, 1, 2)),
    ("shared", "nll", (0, 2)),
    ("shared", "l2", (0, 1, 2)),
    ("shared", None, (0, 2)),
    ("domain-specific", None, (0, 1, 2)),
]


def counts(seed: int) -> sparse.csr_matrix:
    """Rows of counts in which most columns are rare, so that a weight row waits long for its next gradient."""
    random = np.random.default_rng(seed)
    often = np.minimum(0.5, 5 / np.arange(1, N_INPUTS + 1))
    # Large counts: with small ones some features are active for every row, and a norm takes away what their bias adds.
    return sparse.csr_matrix((random.random((3 * ROWS, N_INPUTS)) < often) * random.integers(10, 40, N_INPUTS))


@pytest.mark.parametrize(
    ("norm", "dtype"),
    [
        ("all-domains", torch.float32),
        ("all-domains", torch.float64),
        ("none", torch.float32),
        ("none", torch.float64),
        # In float64 only: this norm takes away what the last bias of F_d adds, so that its gradient is noise.
        ("per-domain", torch.float64),
    ],
    ids=str,
)
@pytest.mark.parametrize(("category", "adversary", "labelled"), VARIANTS)
def test_fifty_steps(category: str, adversary: str | None, labelled: tuple[int, ...], norm: str, dtype: torch.dtype):
    settings = MANSettings(
        category=category, adversary=adversary, norm=norm, hidden=(20, 12), shared_size=8, private_size=6, dropout=0,
        lam=0.5, k=3,
    )  # fmt: skip
    torch.manual_seed(0)
    man = MAN(Task(N_INPUTS, 3, ("a", "b", "c"), labelled), settings).to(dtype)
    book = TextbookMAN(man)
    start = {name: value.clone() for name, value in man.state_dict().items()}
    man.start_training()
    man.train()

    matrix, y = counts(1), np.random.default_rng(2).integers(3, size=3 * ROWS)
    rows = SparseMatrix(matrix, dtype=dtype)
    pools = [[np.arange(d * ROWS, (d + 1) * ROWS)] for d in range(3)]

    def streams() -> tuple[DomainStream, DomainStream]:
        X = DomainStream(rows, [pools[d] for d in labelled], y, 8, (0, 0))
        return X, DomainStream(rows, pools, None, 8, (0, 1))

    (X, U), (book_X, book_U) = streams(), streams()
    dense_X, dense_U = DenseStream(book_X, matrix, y, dtype), DenseStream(book_U, matrix, None, dtype)
    for i in range(STEPS):
        man.step(X, U, 0, i)
        book.step(dense_X, dense_U)
    man.flush()

    ours, theirs = man.state_dict(), book.state_like(man)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        distance = (value - theirs[name]).norm() / value.norm().clamp_min(1e-12)
        assert distance < TOLERANCE[dtype], (name, distance.item())
    moved = [(ours[name] - start[name]).norm() / start[name].norm() for name in start if name.endswith("first_weight")]
    assert min(moved) > 0.005, "equal because nothing was learnt"
