"""MAN's step against Algorithm 1 of the paper, written as a textbook would: one domain at a time, dense.

Only the batch norm over all domains cannot be computed one domain at a time; there the hidden layers of the
domains are gathered first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from multidomain.methods.man import MAN

Make = Callable[..., Any]
STEPS, BATCH_SIZE = 5, 4


class TextbookHead(nn.Module):
    def __init__(self, n_inputs: int, n_outputs: int, norm: str):
        super().__init__()
        self.hidden, self.out = nn.Linear(n_inputs, n_inputs), nn.Linear(n_inputs, n_outputs)
        self.bn = None if norm == "none" else nn.BatchNorm1d(n_inputs)
        self.per_domain = norm == "per-domain"

    def forward(self, features: list[Tensor]) -> list[Tensor]:
        """From the features of each domain's mini-batch to probabilities for each."""
        hidden = [self.hidden(f) for f in features]
        if self.bn is not None and self.per_domain:
            hidden = [self.bn(h) for h in hidden]
        elif self.bn is not None:
            hidden = list(self.bn(torch.cat(hidden)).split([len(h) for h in hidden]))
        return [self.out(torch.relu(h)).softmax(dim=1) for h in hidden]


class Textbook:
    """The weights of a MAN in separate dense networks, two optimisers, and the losses as loops."""

    def __init__(self, man: MAN):
        s, task = man.settings, man.task
        self.s, self.labelled, self.N = s, task.labelled, len(task.domains)
        self.F_s = None if man.F_s is None else perceptron(man.F_s, 0)
        self.F_d = {} if man.F_d is None else {d: perceptron(man.F_d, i) for i, d in enumerate(task.labelled)}
        width = s.shared_size * (man.F_s is not None) + s.private_size * (man.F_d is not None)
        self.C = TextbookHead(width, task.n_classes, s.norm).double()
        copy_head(man.C, self.C)
        main = [*self.C.parameters(), *(p for f in self.F_d.values() for p in f.parameters())]
        main += [] if self.F_s is None else self.F_s.parameters()
        self.optimiser = torch.optim.Adam(main, lr=s.lr)
        if s.adversary:
            self.D = TextbookHead(s.shared_size, self.N, s.norm).double()
            copy_head(man.D, self.D)
            self.optimiser_D = torch.optim.Adam(self.D.parameters(), lr=s.lr)

    def J_D(self, p: Tensor, d: int) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for row in p:
            if self.s.adversary == "nll":
                total = total - torch.log(row[d])
            else:
                for j in range(self.N):
                    total = total + (row[j] - (1 if j == d else 0)) ** 2
        return total / len(p)

    def J_Fs(self, p: Tensor, d: int) -> Tensor:
        if self.s.adversary == "nll":
            return -self.J_D(p, d)
        total = torch.zeros((), dtype=torch.float64)
        for row in p:
            for j in range(self.N):
                total = total + (row[j] - 1 / self.N) ** 2
        return total / len(p)

    def step(self, X: Any, U: Any) -> None:
        if self.s.adversary:
            for _ in range(self.s.k):  # lines 2-9
                f_s = [self.F_s(x).detach() for x in U()]
                l_D = sum(self.J_D(p, d) for d, p in enumerate(self.D(f_s)))
                self.optimiser_D.zero_grad()
                l_D.backward()
                self.optimiser_D.step()
        features, labels = [], []
        for d, x, y in zip(self.labelled, *X(), strict=True):  # lines 11-16
            parts = [self.F_s(x)] if self.F_s else []
            parts += [self.F_d[d](x)] if self.F_d else []
            features.append(torch.cat(parts, dim=1))
            labels.append(y)
        loss = torch.zeros((), dtype=torch.float64)
        for p, y in zip(self.C(features), labels, strict=True):
            loss = loss - sum(torch.log(p[b, y[b]]) for b in range(len(y))) / len(y)
        if self.s.adversary:  # lines 17-20; D's running statistics are none of the main iteration's business
            D = copy.deepcopy(self.D)
            for d, p in enumerate(D([self.F_s(x) for x in U()])):
                loss = loss + self.s.lam * self.J_Fs(p, d)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()  # line 21


def perceptron(extractor: Any, i: int) -> nn.Sequential:
    n = extractor.n_inputs
    layers = [(extractor.first_weight[i * n : (i + 1) * n], extractor.first_bias[i, 0])]
    layers += [(w[i], b[i, 0]) for w, b in zip(extractor.weights, extractor.biases, strict=True)]
    modules: list[nn.Module] = []
    for weight, bias in layers:
        linear = nn.Linear(*weight.shape).double()
        linear.load_state_dict({"weight": weight.detach().T.clone(), "bias": bias.detach().clone()})
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules)


def copy_head(ours: Any, theirs: TextbookHead) -> None:
    theirs.hidden.load_state_dict(ours.hidden.state_dict())
    theirs.out.load_state_dict(ours.out.state_dict())


def assert_equal_heads(ours: Any, theirs: TextbookHead) -> None:
    pairs = [(ours.hidden.weight, theirs.hidden.weight), (ours.hidden.bias, theirs.hidden.bias)]
    pairs += [(ours.out.weight, theirs.out.weight), (ours.out.bias, theirs.out.bias)]
    if theirs.bn is not None:
        names = ("weight", "bias", "running_mean", "running_var")
        pairs += [(getattr(ours.norm, name), getattr(theirs.bn, name)) for name in names]
    for a, b in pairs:
        close(a, b)


def assert_equal_extractors(ours: Any, i: int, theirs: nn.Sequential) -> None:
    for a, b in zip(perceptron(ours, i).parameters(), theirs.parameters(), strict=True):
        close(a, b)


def close(a: Tensor, b: Tensor) -> None:
    # Five steps of Adam move a weight by up to 0.05. A bias whose effect a batch norm takes away has the
    # gradient 0, of which Adam sees rounding errors, divided by their own size plus 1e-8.
    torch.testing.assert_close(a, b, rtol=0, atol=1e-7 if a.ndim > 1 else 1e-5)


@pytest.mark.parametrize("norm", ["all-domains", "per-domain", "none"])
@pytest.mark.parametrize(
    ("category", "adversary", "labelled"),
    [
        ("shared-private", "nll", (0, 2)),
        ("shared-private", "l2", (0, 2)),
        ("shared-private", "nll", (0, 1, 2)),
        ("shared-private", None, (1, 2)),
        ("shared", "nll", (0, 2)),
        ("shared", "l2", (0, 2)),
        ("shared", None, (0, 2)),
        ("domain-specific", None, (0, 1, 2)),
    ],
)
def test_five_steps(
    category: str,
    adversary: str | None,
    labelled: tuple[int, ...],
    norm: str,
    make_task: Make,
    make_man: Make,
    make_data: Make,
):
    task = make_task(3, labelled, n_classes=3)
    data = make_data(task)
    man = make_man(task, category=category, adversary=adversary, norm=norm, k=2, lam=0.7, hidden=(6, 5))
    book = Textbook(man)
    start = {name: value.clone() for name, value in man.state_dict().items()}
    X, U, rows_X, rows_U = data.X, data.U, data.X, data.U  # the textbook gets the same rows, but dense
    dense, y = torch.from_numpy(data.matrix), torch.from_numpy(data.y)

    def book_X() -> tuple[list[Tensor], list[Tensor]]:
        rows = rows_X._rows(1)[0]
        return [dense[r] for r in rows], [y[r] for r in rows]

    def book_U() -> list[Tensor]:
        return [dense[r] for r in rows_U._rows(1)[0]]

    for i in range(STEPS):
        man.step(X, U, 0, i)
        book.step(book_X, book_U)

    assert_equal_heads(man.C, book.C)
    if book.F_s is not None:
        assert_equal_extractors(man.F_s, 0, book.F_s)
    for i, d in enumerate(book.F_d):
        assert_equal_extractors(man.F_d, i, book.F_d[d])
    if adversary:
        assert_equal_heads(man.D, book.D)
    moved = {n: (p - start[n]).abs().max().item() for n, p in man.named_parameters() if "weight" in n}
    assert min(moved.values()) > 0.01, "equal because nothing was learnt"
