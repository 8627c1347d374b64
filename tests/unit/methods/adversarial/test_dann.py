"""DANN and MDAN: the gradients of a step against those of the losses, taken one by one and put together here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from reports import Reports
from torch import Tensor

from multidomain.methods.adversarial.dann import DANN, SourcesAndTarget
from multidomain.methods.adversarial.mdan import MDAN
from multidomain.methods.base import Method
from multidomain.methods.history import History
from multidomain.methods.task import Task
from multidomain.nn.reversal import reverse_gradient

Make = Callable[..., Any]
BATCH_SIZE, GAMMA = 4, 3.0  # the batch size of conftest.py; a gamma that leaves every source some weight

VARIANTS: dict[str, tuple[type[SourcesAndTarget], dict[str, Any]]] = {
    "dann": (DANN, {}),
    "mdan-hmax": (MDAN, {"combine": "max"}),
    "mdan-smax": (MDAN, {"combine": "softmax", "gamma": GAMMA}),
}


def make_method(name: str, task: Task, **settings: Any) -> SourcesAndTarget:
    """A network in float64, ready to train, without dropout."""
    method, of_variant = VARIANTS[name]
    chosen = {"hidden": (6,), "shared_size": 5, "dropout": 0.0, "lam": 0.7, "lr": 0.01, **of_variant, **settings}
    torch.manual_seed(0)
    made = method(task, method.settings_type.parse(chosen)).double()
    made.start_training()
    made.train()
    return made


class Naive:
    """The same weights in plain tensors, and each loss by itself."""

    def __init__(self, method: SourcesAndTarget, data: Any, X: Any, U: Any):
        self.w = {name: p.detach().clone().requires_grad_() for name, p in method.named_parameters()}
        matrix, task = torch.from_numpy(data.matrix), data.task
        rows, text = torch.from_numpy(X.next_rows()[0]), torch.from_numpy(U.next_rows()[0])
        f_source = [self.features(matrix[of_domain]) for of_domain in rows]
        y = torch.from_numpy(data.y)[rows]
        self.epsilon = [self._class_loss(f_source[s], y[s]) for s in range(len(f_source))]
        self.delta: list[Tensor] = []
        targets = [d for d in range(len(task.domains)) if d not in task.labelled]
        if targets:
            f_target = torch.cat([self.features(matrix[text[d]]) for d in targets])
            groups = [torch.cat(f_source)] if isinstance(method, DANN) else f_source
            self.delta = [self._domain_loss(f, f_target, column) for column, f in enumerate(groups)]

    def features(self, x: Tensor) -> Tensor:
        w = self.w
        h = torch.clamp(x @ w["F_s.first_weight"] + w["F_s.first_bias"][0], min=0)
        return torch.clamp(h @ w["F_s.weights.0"][0] + w["F_s.biases.0"][0], min=0)

    def _class_loss(self, f: Tensor, y: Tensor) -> Tensor:
        p = torch.softmax(f @ self.w["C.weight"].T + self.w["C.bias"], dim=1)
        return sum(-p[b, y[b]].log() for b in range(BATCH_SIZE)) / BATCH_SIZE

    def _domain_loss(self, f_source: Tensor, f_target: Tensor, column: int) -> Tensor:
        """Mean over the source's documents plus mean over the target's; 1 / (1 + exp(-s)) says 'source'."""
        of_source, of_target = (
            1 / (1 + torch.exp(-(f @ self.w["D.weight"][column] + self.w["D.bias"][column])))
            for f in (f_source, f_target)
        )
        return -of_source.log().mean() - (1 - of_target).log().mean()

    def gradient(self, loss: Tensor) -> dict[str, Tensor]:
        found = torch.autograd.grad(loss, list(self.w.values()), retain_graph=True, allow_unused=True)
        return {
            name: torch.zeros_like(p) if g is None else g for (name, p), g in zip(self.w.items(), found, strict=True)
        }

    def of_objective(self, name: str, lam: float) -> dict[str, Tensor]:
        """Gradient that each part should get: F minimises the class loss less lam times D's, D minimises its own."""
        n = len(self.epsilon)
        of_epsilon, of_delta = [1.0] * n, [1.0] * len(self.delta)
        if name == "mdan-hmax":
            worst = max(range(n), key=lambda s: self.epsilon[s].item())
            of_epsilon = [float(s == worst) for s in range(n)]
            if self.delta:
                easiest = min(range(n), key=lambda s: self.delta[s].item())
                of_delta = [float(s == easiest) for s in range(n)]
        if name == "mdan-smax":
            deltas = [lam * delta.item() for delta in self.delta] or [0.0] * n
            share = np.exp([GAMMA * (self.epsilon[s].item() + deltas[s]) for s in range(n)])
            of_epsilon = list(share / share.sum())
            of_delta = of_epsilon[: len(self.delta)]
        total = {parameter: torch.zeros_like(p) for parameter, p in self.w.items()}
        for weight, loss in zip(of_epsilon, self.epsilon, strict=True):
            for parameter, g in self.gradient(loss).items():
                total[parameter] += weight * g
        for weight, loss in zip(of_delta, self.delta, strict=True):
            for parameter, g in self.gradient(loss).items():
                total[parameter] += weight * g * (-lam if parameter.startswith("F_s.") else 1)
        return total


def gradients_of(method: SourcesAndTarget) -> dict[str, Tensor]:
    """Gradients of the last step; those of the first layer, which are kept by row, made dense."""
    gradients = {}
    for name, p in method.named_parameters():
        if getattr(p, "row_gradient", None) is not None:
            gradient = p.row_gradient
            dense = torch.zeros_like(p).flatten(0, -2).index_copy(0, gradient.rows, gradient.values)
            gradients[name] = dense.view_as(p)
        else:
            gradients[name] = p.grad
    return gradients


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-8, atol=1e-12, msg=name)


def test_reversed_gradient():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    factor = torch.randn(3, 4, dtype=torch.float64)
    assert torch.equal(reverse_gradient(x, 0.3), x)
    (gradient,) = torch.autograd.grad((factor * reverse_gradient(x, 0.3)).sum(), x)
    torch.testing.assert_close(gradient, -0.3 * factor)
    (gradient,) = torch.autograd.grad((factor * reverse_gradient(x, 0.0)).sum(), x)
    assert not gradient.any()


@pytest.mark.parametrize(
    ("n_domains", "labelled", "n_classes"),
    [
        pytest.param(3, (0, 2), 2, id="two sources, one target"),
        pytest.param(5, (1, 2, 4), 3, id="three sources, two targets, three classes"),
        pytest.param(3, (1,), 2, id="one source, two targets"),
        pytest.param(3, (0, 1, 2), 2, id="no target"),
    ],
)
@pytest.mark.parametrize("lam", [0.7, 0.0])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_step_has_the_gradients_of_the_objective(
    name: str, lam: float, n_domains: int, labelled: tuple[int, ...], n_classes: int, make_task: Make, make_data: Make
):
    task = make_task(n_domains, labelled, n_classes)
    method, data = make_method(name, task, lam=lam), make_data(task)
    naive = Naive(method, data, data.X, data.U)
    log = method.step(data.X, data.U, 0, 0)
    assert_same(gradients_of(method), naive.of_objective(name, lam))
    assert log["J_C"].item() == pytest.approx(sum(loss.item() for loss in naive.epsilon), rel=1e-10)
    if naive.delta:
        assert log["J_D"].item() == pytest.approx(np.mean([loss.item() for loss in naive.delta]), rel=1e-10)
    assert log.keys() == ({"J_C", "J_D"} if naive.delta else {"J_C"})


@pytest.mark.parametrize("name", VARIANTS)
def test_lam_0_leaves_F_and_C_to_the_classes(name: str, make_task: Make, make_data: Make):
    """The weights after three steps are those of a network without D, whose losses are the classes' alone."""
    task = make_task(4, (0, 3))
    data, lone = make_data(task), Task(task.n_inputs, task.n_classes, ("a", "d"), (0, 1))
    method, other = make_method(name, task, lam=0.0), make_method(name, lone)
    assert other.D is None
    other.load_state_dict({n: p for n, p in method.state_dict().items() if not n.startswith("D.")})
    start = method.D.weight.clone()
    X, U, other_X, other_U = data.X, data.U, data.X, data.U
    for i in range(3):
        method.step(X, U, 0, i)
        other.step(other_X, other_U, 0, i)
    for settled in (method, other):
        settled.flush()
    for parameter, value in other.state_dict().items():
        torch.testing.assert_close(method.state_dict()[parameter], value, rtol=1e-9, atol=1e-12, msg=parameter)
    assert (method.D.weight - start).abs().max() > 0.01  # D learns all the same


@pytest.mark.parametrize("name", VARIANTS)
def test_without_a_target_training_is_that_of_a_plain_network(name: str, make_task: Make, make_data: Make):
    """Three steps of Adam on the class losses alone, in plain tensors."""
    task = make_task(2)
    method, data = make_method(name, task), make_data(task)
    assert method.D is None
    weights = {n: p.detach().clone().requires_grad_() for n, p in method.named_parameters()}
    optimiser = torch.optim.Adam(weights.values(), lr=0.01)
    X, U, plain_X, plain_U = data.X, data.U, data.X, data.U
    for i in range(3):
        method.flush()
        naive = Naive(method, data, plain_X, plain_U)
        assert_same(naive.w, weights)
        for parameter, gradient in naive.of_objective(name, 0.7).items():
            weights[parameter].grad = gradient
        optimiser.step()
        method.step(X, U, 0, i)
    method.flush()
    assert_same(dict(method.named_parameters()), weights)


class Loop(Reports):
    """A training loop that does nothing."""

    def run_epochs(self, method: Method, data: Any) -> History:
        return History(best_epoch=7)


@pytest.mark.parametrize("name", VARIANTS)
def test_that_there_is_no_target_is_noted(name: str, make_task: Make):
    for labelled, kinds in ((None, ["no-target"]), ((0,), [])):
        context = Loop()
        history = make_method(name, make_task(2, labelled)).fit(data=None, context=context)
        assert history.best_epoch == 7
        assert [note.kind for note in context.notes] == kinds


def test_hmax_touches_the_worst_source_and_the_easiest_discriminator_alone(make_task: Make, make_data: Make):
    task = make_task(4, (0, 1, 2))
    method, data = make_method("mdan-hmax", task), make_data(task)
    naive = Naive(method, data, data.X, data.U)
    worst = int(np.argmax([loss.item() for loss in naive.epsilon]))
    easiest = int(np.argmin([loss.item() for loss in naive.delta]))
    method.step(data.X, data.U, 0, 0)
    found = gradients_of(method)
    for s in range(3):
        of_source = naive.gradient(naive.epsilon[s])["C.weight"]
        assert torch.allclose(found["C.weight"], of_source, rtol=1e-8) == (s == worst)
        assert found["D.weight"][s].any() == (s == easiest)


def test_smax_is_near_the_mean_for_a_small_gamma_and_near_the_worst_for_a_large_one(make_task: Make, make_data: Make):
    task = make_task(3)
    found = {}
    for gamma in (1e-9, 1e9):
        method, data = make_method("mdan-smax", task, gamma=gamma), make_data(task)
        naive = Naive(method, data, data.X, data.U)
        method.step(data.X, data.U, 0, 0)
        found[gamma] = gradients_of(method)
    assert_same(found[1e-9], naive.gradient(sum(naive.epsilon) / 3))
    assert_same(found[1e9], naive.of_objective("mdan-hmax", 0.7))


@pytest.mark.parametrize("name", VARIANTS)
def test_every_domain_is_answered_by_the_same_network(name: str, make_task: Make, make_data: Make):
    task = make_task(3, (0, 2), 3)
    method, data = make_method(name, task), make_data(task)
    method.eval()
    naive = Naive(method, data, data.X, data.U)
    features = naive.features(torch.from_numpy(data.matrix))
    expected = features @ naive.w["C.weight"].T + naive.w["C.bias"]
    x = data.rows.take(np.arange(len(data.d)))
    torch.testing.assert_close(method.batch_shared_features(x), features)
    for d in (0, 1, 2, None):
        torch.testing.assert_close(method.batch_logits(x, d), expected)
