"""ASP-MTL and FS-MTL against their objective, written out domain by domain."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from multidomain.methods.adversarial.asp_mtl import ASPMTL, ASPMTLSettings
from multidomain.methods.gradient import Batch
from multidomain.methods.task import Task
from multidomain.nn.sparse import SparseBatch, SparseMatrix

B, WORDS, CLASSES = 4, 13, 3
TASK = Task(WORDS, CLASSES, ("a", "b", "c"), (0, 2))  # b has no labels


class OneBatch:
    """A stream that gives the same mini-batches again and again."""

    def __init__(self, domains: int, labels: bool, seed: int):
        random = np.random.default_rng(seed)
        self.rows = SparseMatrix(
            csr_matrix(random.poisson(0.7, (domains * B, WORDS)).astype(float)), dtype=torch.float64
        )
        self.y = torch.from_numpy(random.integers(CLASSES, size=(domains, B))) if labels else None

    def sample(self, times: int = 1) -> Batch:
        return Batch(self.rows.take(np.arange(len(self.rows))), self.y)


X, U = OneBatch(2, True, 1), OneBatch(3, False, 2)


def network(**settings: Any) -> ASPMTL:
    torch.manual_seed(0)
    values = {"extractor": "mlp", "hidden": (6,), "shared_size": 5, "private_size": 4, "dropout": 0.0, **settings}
    return ASPMTL(TASK, ASPMTLSettings(**values)).double().train()


def rows_of(stream: OneBatch, domain: int) -> SparseBatch:
    return stream.sample().x.blocks([domain], B)


def losses(method: ASPMTL) -> tuple[Tensor, Tensor, Tensor]:
    """Class loss, orthogonality and domain loss, one domain at a time."""
    j_C, apart, j_D = torch.zeros(()), torch.zeros(()), torch.zeros(())
    for place in range(2):
        f_s = method.F_s(rows_of(X, place))[0]
        f = f_s
        if method.F_d is not None:
            f_d = method.F_d(rows_of(X, place), copy=place)[0]
            apart = apart + sum((f_s[:, i] @ f_d[:, j]) ** 2 for i in range(5) for j in range(4))
            f = torch.cat([f_s, f_d], dim=1)
        logits = f @ method.C.weight[place] + method.C.bias[place]
        j_C = j_C + torch.nn.functional.cross_entropy(logits, X.y[place])
    if method.D is not None:
        for d in range(3):
            logits = method.D(method.F_s(rows_of(U, d))[0])
            j_D = j_D + torch.nn.functional.cross_entropy(logits, torch.full((B,), d))
    return j_C, apart, j_D


@pytest.mark.parametrize("category", ["shared", "shared-private"])
def test_a_step_follows_the_gradient_of_the_objective(category: str):
    method = network(category=category, lam=0.7, gamma=0.3)
    expected: dict[str, Tensor] = {}
    for name, parameter in method.named_parameters():
        j_C, apart, j_D = losses(method)
        # F_s gets the domain loss reversed and weighted, D as it is.
        of_domain = j_D if name.startswith("D.") else -0.7 * j_D
        total = j_C + 0.3 * apart + of_domain
        (gradient,) = torch.autograd.grad(total, parameter, allow_unused=True)
        expected[name] = torch.zeros_like(parameter) if gradient is None else gradient
    taken: dict[str, Tensor] = {}
    method.descend = lambda loss: loss.backward()  # type: ignore[method-assign]
    log = method.step(X, U, 0, 0)
    for name, parameter in method.named_parameters():
        taken[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(taken[name], expected[name], rtol=1e-9, atol=1e-11)
    j_C, apart, j_D = losses(method)
    assert log["J_C"].item() == pytest.approx(j_C.item())
    if category == "shared-private":
        assert (log["orthogonality"].item(), log["J_D"].item()) == pytest.approx((apart.item(), j_D.item()))
    else:
        assert set(log) == {"J_C"} and method.F_d is None and method.D is None


def test_a_domain_without_a_layer_of_its_own_is_answered_by_the_mean_of_all():
    method = network().eval()
    x = rows_of(U, 1)
    f = torch.cat([method.F_s(x)[0], torch.zeros(B, 4, dtype=torch.float64)], dim=1)
    mean = sum(f @ method.C.weight[i] + method.C.bias[i] for i in range(2)) / 2
    torch.testing.assert_close(method.batch_logits(x, 1), mean)
    torch.testing.assert_close(method.batch_logits(x, None), mean)
    own = torch.cat([method.F_s(x)[0], method.F_d(x, copy=1)[0]], dim=1) @ method.C.weight[1] + method.C.bias[1]
    torch.testing.assert_close(method.batch_logits(x, 2), own)


def test_without_weight_the_adversary_leaves_the_features_alone():
    with_D, without = network(lam=0.0, gamma=0.0), network(lam=0.0, gamma=0.0)
    without.D = None
    for method in (with_D, without):
        method.start_training()
        method.step(X, U, 0, 0)
        method.flush()
    state = copy.deepcopy(without.state_dict())
    for name, value in with_D.state_dict().items():
        if not name.startswith("D."):
            torch.testing.assert_close(value, state[name], rtol=1e-7, atol=1e-9)
