"""Algorithm 1 line by line: one domain at a time but for the norm, dense, plain torch. Baseline and test oracle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from multidomain.bench.textbook_cnn import PaddedStream, TextbookCNN
from multidomain.methods.adversarial.man import MAN
from multidomain.nn.extractors.base import Extractor
from multidomain.nn.extractors.cnn import CNNExtractor
from multidomain.nn.extractors.mlp import MLPExtractor
from multidomain.nn.heads import Head
from multidomain.training.sampling import DomainStream


class DenseStream:
    """The mini-batches of a `DomainStream`, one dense matrix per domain."""

    def __init__(self, stream: DomainStream, matrix: csr_matrix, y: np.ndarray | None, dtype: torch.dtype):
        self._stream = stream
        self._x = torch.from_numpy(matrix.toarray()).to(dtype)  # in advance: conversion is not part of the comparison
        self._y = None if y is None else torch.from_numpy(y)

    def sample(self) -> list[tuple[Tensor, Tensor | None]]:
        rows = torch.from_numpy(self._stream.next_rows()[0])
        return [(self._x[of_domain], None if self._y is None else self._y[of_domain]) for of_domain in rows]


class TextbookMAN:
    """A network with the weights of a `MAN` in separate modules, and Algorithm 1 line by line."""

    def __init__(self, man: MAN):
        s, task = man.settings, man.task
        self.settings, self.N = s, len(task.domains)
        self.F_s = None if man.F_s is None else _textbook(man.F_s, 0)
        self.F_d = [] if man.F_d is None else [_textbook(man.F_d, i) for i in range(man.F_d.copies)]
        self.C = TextbookHead(man.C, s.norm)
        self.D = None if man.D is None else TextbookHead(man.D, s.D_norm or s.norm)
        main = nn.ModuleList([module for module in (self.F_s, *self.F_d, self.C) if module is not None])
        self.optimiser = torch.optim.Adam(main.parameters(), lr=s.lr, fused=True)
        if self.D is not None:
            self.optimiser_D = torch.optim.Adam(self.D.parameters(), lr=s.lr, fused=True)

    def state_like(self, man: MAN) -> dict[str, Tensor]:
        """Return the weights under the names and in the shapes of a `MAN`."""
        state: dict[str, Tensor] = {}
        for name, networks in (("F_s", [self.F_s] if self.F_s else []), ("F_d", self.F_d)):
            cnns = [network for network in networks if isinstance(network, TextbookCNN)]
            perceptrons = [network for network in networks if isinstance(network, nn.Sequential)]
            of_extractor = TextbookCNN.stacked(cnns) if cnns else _stacked(perceptrons)
            state |= {f"{name}.{key}": value for key, value in of_extractor.items()}
        for name, head in (("C", self.C), ("D", self.D)):
            for part, module in (
                (("hidden", head.before[1]), ("norm", head.norm), ("out", head.after[1])) if head else ()
            ):
                state |= {f"{name}.{part}.{key}": value for key, value in module.state_dict().items()}
        return {key: state[key] for key in man.state_dict()}

    def step(self, X: DenseStream | PaddedStream, U: DenseStream | PaddedStream) -> None:
        """Do one iteration."""
        if self.D is not None and self.F_s is not None:
            for _ in range(self.settings.k):  # lines 2-9
                with torch.no_grad():
                    features = [self.F_s(x) for x, _ in U.sample()]
                l_D = sum(self._J_D(logits, d) for d, logits in enumerate(self.D(features)))
                _descend(self.optimiser_D, l_D)
        features = []
        labels: list[Tensor] = []
        for i, (x, y) in enumerate(X.sample()):  # lines 11-16
            f_s = [] if self.F_s is None else [self.F_s(x)]
            f_d = [self.F_d[i](x)] if self.F_d else []
            features.append(torch.cat(f_s + f_d, dim=1))
            assert y is not None
            labels.append(y)
        losses = [nn.functional.cross_entropy(*pair) for pair in zip(self.C(features), labels, strict=True)]
        loss = torch.stack(losses).sum()
        if self.D is not None and self.F_s is not None:  # lines 17-20
            with self.D.keeping_statistics():
                outputs = self.D([self.F_s(x) for x, _ in U.sample()])
            loss = loss + self.settings.lam * sum(self._J_Fs(logits, d) for d, logits in enumerate(outputs))
        _descend(self.optimiser, loss)  # line 21

    def _J_D(self, logits: Tensor, d: int) -> Tensor:
        if self.settings.adversary == "nll":
            return nn.functional.cross_entropy(logits, torch.full((len(logits),), d))
        target = torch.eye(self.N, dtype=logits.dtype)[d]
        return (logits.softmax(dim=1) - target).square().sum(dim=1).mean()

    def _J_Fs(self, logits: Tensor, d: int) -> Tensor:
        if self.settings.adversary == "nll":
            return -self._J_D(logits, d)
        return (logits.softmax(dim=1) - 1 / self.N).square().sum(dim=1).mean()


class TextbookHead(nn.Module):
    """C or D; takes and returns a list with one matrix per domain."""

    def __init__(self, head: Head, norm: str):
        super().__init__()
        n_inputs, n_outputs = head.hidden.in_features, head.out.out_features
        self.per_domain = norm == "per-domain"
        self.before = nn.Sequential(nn.Dropout(head.dropout), nn.Linear(n_inputs, n_inputs, bias=norm == "none"))
        self.norm = nn.Identity() if norm == "none" else nn.BatchNorm1d(n_inputs)
        self.after = nn.Sequential(nn.ReLU(), nn.Linear(n_inputs, n_outputs))
        self.to(head.out.weight.dtype)
        self.before[1].load_state_dict(head.hidden.state_dict())
        self.norm.load_state_dict(head.norm.state_dict(), strict=False)
        self.after[1].load_state_dict(head.out.state_dict())

    def forward(self, features: list[Tensor]) -> list[Tensor]:
        if self.per_domain:
            return [self.after(self.norm(self.before(f))) for f in features]
        together = self.after(self.norm(self.before(torch.cat(features))))
        return list(together.split([len(f) for f in features]))

    @contextmanager
    def keeping_statistics(self) -> Iterator[None]:
        """Keep D's running statistics fixed in the main step (decision 3)."""
        if isinstance(self.norm, nn.BatchNorm1d):
            self.norm.track_running_stats = False
            mean, var = self.norm.running_mean, self.norm.running_var
            self.norm.running_mean = self.norm.running_var = None
        try:
            yield
        finally:
            if isinstance(self.norm, nn.BatchNorm1d):
                self.norm.track_running_stats = True
                self.norm.running_mean, self.norm.running_var = mean, var


def _textbook(extractor: Extractor, copy: int) -> nn.Module:
    """Return one copy of an extractor as torch's own modules."""
    if isinstance(extractor, CNNExtractor):
        return TextbookCNN(extractor, copy)
    assert isinstance(extractor, MLPExtractor)
    return _perceptron(extractor, copy)


def _perceptron(extractor: MLPExtractor, copy: int) -> nn.Sequential:
    n = extractor.n_inputs
    weights = [extractor.first_weight[copy * n : (copy + 1) * n], *(w[copy] for w in extractor.weights)]
    biases = [extractor.first_bias[copy, 0], *(b[copy, 0] for b in extractor.biases)]
    layers: list[nn.Module] = []
    sizes = [n, *(w.shape[1] for w in weights)]
    for (n_in, n_out), weight, bias in zip(pairwise(sizes), weights, biases, strict=True):
        linear = nn.Linear(n_in, n_out).to(weight.dtype)
        linear.load_state_dict({"weight": weight.detach().T, "bias": bias.detach()})
        layers += [nn.Dropout(extractor.dropout), linear, nn.ReLU()]
    return nn.Sequential(*layers)


def _stacked(copies: list[nn.Sequential]) -> dict[str, Tensor]:
    """Return the weights of all copies under the names and in the shapes of an `MLPExtractor`."""
    state: dict[str, Tensor] = {}
    layers = [[module for module in network if isinstance(module, nn.Linear)] for network in copies]
    for depth, of_copies in enumerate(zip(*layers, strict=True)):
        weight = torch.stack([linear.weight.detach().T for linear in of_copies])
        bias = torch.stack([linear.bias.detach()[None] for linear in of_copies])
        if depth == 0:
            state |= {"first_weight": weight.flatten(0, 1), "first_bias": bias}
        else:
            state |= {f"weights.{depth - 1}": weight, f"biases.{depth - 1}": bias}
    return state


def _descend(optimiser: torch.optim.Optimizer, loss: Tensor | int) -> None:
    assert isinstance(loss, Tensor)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
