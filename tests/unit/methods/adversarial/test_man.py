"""What MAN is made of, what a step changes, and what it predicts where it has no private features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from multidomain.errors import ConfigError, DataError
from multidomain.methods.adversarial.man import MAN, MANSettings
from multidomain.methods.task import Task
from multidomain.nn.heads import Head
from multidomain.nn.sparse import SparseBatch

Make = Callable[..., Any]


def gradients_of(method: MAN) -> dict[str, torch.Tensor]:
    """Gradients of the last main step; those of first layers, which are kept by row, made dense."""
    gradients = {}
    for name, p in method.named_parameters():
        if getattr(p, "row_gradient", None) is not None:
            gradient = p.row_gradient
            dense = torch.zeros_like(p).flatten(0, -2).index_copy(0, gradient.rows, gradient.values)
            gradients[name] = dense.view_as(p)
        elif p.grad is not None:
            gradients[name] = p.grad
    return gradients


def features_of(method: MAN, x: SparseBatch) -> torch.Tensor:
    """What C reads of mini-batches of all labelled domains."""
    f_s = None if method.F_s is None else method._f_s(x, len(method.task.labelled))
    return method._with_private(f_s, x)


def state(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def optimiser_state(method: MAN, name: str) -> list[Tensor]:
    return [v.clone() for s in method.optimisers[name].state.values() for v in s.values()]


class Recorder:
    """Notes D's state before and after every update of its optimiser, and how often the main one is used."""

    def __init__(self, method: MAN, monkeypatch: pytest.MonkeyPatch):
        self.D_updates: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = []
        self.main_updates = 0
        update_D, update_main = method.optimisers["D"].step, method.optimisers["main"].step

        def counted_D(*args: Any) -> None:
            before = state(method.D)
            update_D(*args)
            self.D_updates.append((before, state(method.D)))

        def counted_main(*args: Any) -> None:
            self.main_updates += 1
            update_main(*args)

        monkeypatch.setattr(method.optimisers["D"], "step", counted_D)
        monkeypatch.setattr(method.optimisers["main"], "step", counted_main)


@pytest.mark.parametrize("adversary", ["nll", "l2"])
@pytest.mark.parametrize("k", [1, 5])
def test_a_step_updates_D_exactly_k_times_and_then_the_rest_once(
    k: int, adversary: str, make_task: Make, make_man: Make, make_data: Make, monkeypatch: pytest.MonkeyPatch
):
    task = make_task()
    method, data = make_man(task, k=k, adversary=adversary), make_data(task)
    recorder = Recorder(method, monkeypatch)
    X, U = data.X, data.U
    start = {name: state(getattr(method, name)) for name in ("F_s", "F_d", "C", "D")}
    for step in (1, 2):
        method.step(X, U, 0, step - 1)
        assert (len(recorder.D_updates), recorder.main_updates) == (k * step, step)
        assert (X.drawn, U.drawn) == (step, (k + 1) * step)
    for before, after in recorder.D_updates:
        assert not same(before, after)
    for name, before in start.items():
        assert not same(before, state(getattr(method, name))), f"{name} was never updated"


@pytest.mark.parametrize("norm", ["all-domains", "per-domain", "none"])
def test_the_main_step_does_not_touch_D(
    norm: str, make_task: Make, make_man: Make, make_data: Make, monkeypatch: pytest.MonkeyPatch
):
    """Neither parameters nor running statistics nor its optimiser, and no gradient is left behind."""
    task = make_task(labelled=(0, 2))
    method, data = make_man(task, norm=norm, lam=1.0), make_data(task)
    X, U = data.X, data.U
    method.step(X, U, 0, 0)  # so that D has an optimiser state
    before, before_optimiser = state(method.D), optimiser_state(method, "D")
    assert before_optimiser
    monkeypatch.setattr(method, "_update_D", lambda *_: {})  # what is left is the main step
    F_s = state(method.F_s)
    method.zero_grad(set_to_none=True)
    method.step(X, U, 0, 1)
    assert same(before, state(method.D))
    after_optimiser = optimiser_state(method, "D")
    assert all(torch.equal(a, b) for a, b in zip(before_optimiser, after_optimiser, strict=True))
    assert all(p.grad is None and p.requires_grad for p in method.D.parameters())
    assert not same(F_s, state(method.F_s))


def test_updates_of_D_do_not_touch_the_rest(make_task: Make, make_man: Make, make_data: Make):
    task = make_task()
    method, data = make_man(task), make_data(task)
    before = {name: state(getattr(method, name)) for name in ("F_s", "F_d", "C")}
    method._update_D(data.U, 5)
    assert all(same(before[name], state(getattr(method, name))) for name in before)
    assert all(p.grad is None for name in before for p in getattr(method, name).parameters())


@pytest.mark.parametrize("adversary", ["nll", "l2"])
@pytest.mark.parametrize("category", ["shared-private", "shared"])
def test_lam_0_is_no_adversary(category: str, adversary: str, make_task: Make, make_man: Make, make_data: Make):
    """Decision 4: the same gradients as without D, step after step."""
    task = make_task(labelled=(0, 1))
    data = make_data(task)
    with_D = make_man(task, category=category, adversary=adversary, lam=0.0)
    without = make_man(task, category=category, adversary=None)
    without.load_state_dict({n: v for n, v in with_D.state_dict().items() if not n.startswith("D.")})
    X, U, other_X, other_U = data.X, data.U, data.X, data.U
    for i in range(3):
        log, other_log = with_D.step(X, U, 0, i), without.step(other_X, other_U, 0, i)
        assert log["J_C"].item() == pytest.approx(other_log["J_C"].item(), rel=1e-9)
        ours = {n: g for n, g in gradients_of(with_D).items() if not n.startswith("D.")}
        theirs = gradients_of(without)
        assert ours.keys() == theirs.keys()
        for name, gradient in theirs.items():
            torch.testing.assert_close(gradient, ours[name], rtol=1e-9, atol=1e-13, msg=name)


def test_lam_weighs_the_gradient_of_the_shared_extractor_only(
    make_task: Make, make_man: Make, make_data: Make, monkeypatch: pytest.MonkeyPatch
):
    task = make_task()
    gradients = {}
    for lam in (0.0, 1.0, 3.0):
        method, data = make_man(task, lam=lam), make_data(task)
        monkeypatch.setattr(method, "_update_D", lambda *_: {})
        method.step(data.X, data.U, 0, 0)
        gradients[lam] = gradients_of(method)
    for name, gradient in gradients[0.0].items():
        once, thrice = gradients[1.0][name] - gradient, gradients[3.0][name] - gradient
        torch.testing.assert_close(thrice, 3 * once, rtol=1e-9, atol=1e-14)
        if name.startswith("F_s."):
            assert once.abs().max() > 1e-6, name
        else:
            assert not once.any(), name


@pytest.mark.parametrize("adversary", ["nll", "l2"])
@pytest.mark.parametrize("norm", ["all-domains", "none"])
def test_the_order_of_domains_does_not_change_the_losses(
    norm: str, adversary: str, make_task: Make, make_man: Make, make_data: Make
):
    """The same network and mini-batches with the domains numbered in another order."""
    task = make_task(3, n_classes=3)
    data = make_data(task)
    order = [2, 0, 1]  # new place -> old code
    renamed = Task(task.n_inputs, task.n_classes, tuple(task.domains[d] for d in order), (0, 1, 2))
    method = make_man(task, norm=norm, adversary=adversary, k=1)
    other = make_man(renamed, norm=norm, adversary=adversary, k=1)
    weights = state(method)
    for name, value in weights.items():
        if name == "F_d.first_weight":
            weights[name] = value.unflatten(0, (3, -1))[order].flatten(0, 1)
        elif name.startswith("F_d.") or name.startswith("D.out."):
            weights[name] = value[order]
    other.load_state_dict(weights)

    def reordered(stream: Any) -> Any:
        """Give the same rows, the domains in the other order."""
        rows = stream.next_rows
        stream.next_rows = lambda times=1: rows(times)[:, order]
        return stream

    log = method.step(data.X, data.U, 0, 0)
    other_log = other.step(reordered(data.X), reordered(data.U), 0, 0)
    assert log.keys() == other_log.keys() == {"J_D", "D_accuracy", "J_C", "J_Fs"}
    for name in log:
        torch.testing.assert_close(log[name], other_log[name], rtol=1e-9, atol=1e-12, msg=name)


def test_log_is_right(make_task: Make, make_man: Make, make_data: Make):
    """The losses of the first step, written out from the networks' outputs."""
    task = make_task(labelled=(0, 2), n_classes=3)
    method, data = make_man(task, k=1, lr=1e-12), make_data(task)  # so that updates change next to nothing
    log = method.step(data.X, data.U, 0, 0)
    method.train()
    batch, U = data.X.sample(), data.U
    p = method.C(features_of(method, batch.x)).softmax(-1)
    J_C = sum(-p[d, b, batch.y[d, b]].log() / 4 for d in range(2) for b in range(4))
    torch.testing.assert_close(log["J_C"], J_C, rtol=1e-9, atol=0)
    p = method.D(method.F_s(U.sample().x).view(3, 4, -1)).softmax(-1)
    J_D = sum(-p[d, b, d].log() / 4 for d in range(3) for b in range(4))
    torch.testing.assert_close(log["J_D"], J_D, rtol=1e-9, atol=0)
    correct = [int(p[d, b].argmax()) == d for d in range(3) for b in range(4)]
    assert log["D_accuracy"].item() == pytest.approx(np.mean(correct))
    p = method.D(method.F_s(U.sample().x).view(3, 4, -1)).softmax(-1)
    J_Fs = sum(p[d, b, d].log() / 4 for d in range(3) for b in range(4))
    torch.testing.assert_close(log["J_Fs"], J_Fs, rtol=1e-9, atol=0)
    assert not any(value.requires_grad for value in log.values())


@pytest.mark.parametrize(
    ("epoch", "i", "updates"),
    [(0, 0, 100), (0, 24, 100), (0, 25, 3), (0, 40, 3), (1, 0, 100), (1, 1, 3), (1, 24, 3), (7, 0, 100)],
)
def test_warm_up(
    epoch: int,
    i: int,
    updates: int,
    make_task: Make,
    make_man: Make,
    make_data: Make,
    monkeypatch: pytest.MonkeyPatch,
):
    """Decision 9: 100 updates of D in the first 25 iterations and at each epoch's start; k otherwise."""
    task = make_task(2)
    for warm_up, expected in ((True, updates), (False, 3)):
        method, data = make_man(task, k=3, warm_up=warm_up), make_data(task)
        recorder = Recorder(method, monkeypatch)
        U = data.U
        method.step(data.X, U, epoch, i)
        assert len(recorder.D_updates) == expected
        assert U.drawn == expected + 1


def test_warm_up_is_off_unless_asked_for():
    assert MANSettings().warm_up is False


def test_defaults_are_the_paper_s():
    """Appendix of the paper."""
    s = MANSettings()
    assert (s.hidden, s.shared_size, s.private_size) == ((1000, 500), 128, 64)
    assert (s.dropout, s.lam, s.k, s.lr) == (0.4, 0.05, 5, 1e-4)
    assert (s.category, s.adversary, s.norm) == ("shared-private", "nll", "all-domains")


@pytest.mark.parametrize(
    ("category", "adversary", "parts", "width"),
    [
        ("shared-private", "nll", "F_s F_d C D", 9),
        ("shared-private", "l2", "F_s F_d C D", 9),
        ("shared-private", None, "F_s F_d C", 9),
        ("shared", "nll", "F_s C D", 5),
        ("shared", None, "F_s C", 5),
        ("domain-specific", None, "F_d C", 4),
    ],
)
def test_variants_are_one_method_with_parts_switched_off(
    category: str,
    adversary: str | None,
    parts: str,
    width: int,
    make_task: Make,
    make_man: Make,
    make_data: Make,
):
    task = make_task(3)
    method, data = make_man(task, category=category, adversary=adversary), make_data(task)
    assert {name for name, module in method.named_children() if module is not None} == set(parts.split())
    assert method.C.hidden.in_features == method.C.hidden.out_features == width
    if "D" in parts.split():
        assert (method.D.hidden.in_features, method.D.out.out_features) == (5, 3)
    assert method.optimisers.keys() == ({"main", "rows", "D"} if adversary else {"main", "rows"})
    before = state(method)
    log = method.step(data.X, data.U, 0, 0)
    assert log.keys() == ({"J_C", "J_D", "J_Fs", "D_accuracy"} if adversary else {"J_C"})
    assert all(not torch.equal(before[n], p) for n, p in method.named_parameters())
    method.eval()
    rows = data.batch().x
    assert method.batch_logits(rows, 1).shape == (len(rows), 2)
    asks_for = method.requirements(method.settings)
    assert asks_for.shared_features == ("F_s" in parts.split())
    assert asks_for.private_features == ("F_d" in parts.split())
    assert asks_for.unseen_domains == (category != "domain-specific")
    if asks_for.shared_features:
        torch.testing.assert_close(method.batch_shared_features(rows), method.F_s(rows)[0], rtol=0, atol=0)


def test_without_an_adversary_no_text_is_drawn(make_task: Make, make_man: Make, make_data: Make):
    task = make_task()
    method, data = make_man(task, adversary=None), make_data(task)
    U = data.U
    method.step(data.X, U, 0, 0)
    assert U.drawn == 0


def test_one_domain_has_no_adversary(make_task: Make, make_man: Make, make_data: Make):
    task = make_task(1)
    method, data = make_man(task), make_data(task)
    assert method.D is None
    assert method.step(data.X, data.U, 0, 0).keys() == {"J_C"}


@pytest.mark.parametrize("d", [1, None])
def test_private_features_of_an_unlabelled_or_unseen_domain_are_the_zero_vector(
    d: int | None, make_task: Make, make_man: Make, make_data: Make
):
    task = make_task(labelled=(0, 2))
    method, data = make_man(task, dropout=0.4), make_data(task)
    X, U = data.X, data.U
    for i in range(5):
        method.step(X, U, 0, i)
    method.eval()
    x = data.rows.take(np.flatnonzero(data.d == 1))
    f_s = method.F_s(x)[0]
    expected = method.C(torch.cat([f_s, torch.zeros(len(x), 4, dtype=torch.float64)], dim=1)[None])[0]
    torch.testing.assert_close(method.batch_logits(x, d), expected, rtol=0, atol=0)
    assert not torch.allclose(method.batch_logits(x, 0), expected)


@pytest.mark.parametrize(("d", "copy"), [(0, 0), (2, 1)])
def test_a_labelled_domain_is_read_by_its_own_copy(d: int, copy: int, make_task: Make, make_man: Make, make_data: Make):
    task = make_task(labelled=(0, 2))
    method, data = make_man(task), make_data(task)
    method.eval()
    x = data.batch().x
    expected = method.C(torch.cat([method.F_s(x), method.F_d(x, copy=copy)], dim=-1))[0]
    torch.testing.assert_close(method.batch_logits(x, d), expected, rtol=0, atol=0)


def test_training_and_prediction_use_the_same_copy(make_task: Make, make_man: Make, make_data: Make):
    """What C reads of a labelled domain in training is what it reads when predicting."""
    task = make_task(labelled=(0, 2))
    method, data = make_man(task), make_data(task)
    method.eval()
    stream = data.X
    rows = data.X.next_rows(1)[0]  # (labelled domains, batch)
    in_training = method.C(features_of(method, stream.sample().x))
    for place, d in enumerate(task.labelled):
        logits = method.batch_logits(data.rows.take(rows[place]), d)
        torch.testing.assert_close(in_training[place], logits, rtol=1e-12, atol=1e-12)


def test_domain_specific_needs_labels_in_every_domain(make_task: Make, make_man: Make):
    with pytest.raises(
        ConfigError,
        match=r"A domain-specific model learns each domain from its own labels, and 'b' has none\. "
        r"Drop the domain, or use another category, such as category='shared'\.",
    ):
        make_man(make_task(labelled=(0, 2)), category="domain-specific", adversary=None)


def test_domain_specific_knows_no_other_domain(make_task: Make, make_man: Make, make_data: Make):
    task = make_task(2)
    method, data = make_man(task, category="domain-specific", adversary=None), make_data(task)
    with pytest.raises(DataError, match=r"knows nothing about a domain .* only about 'a', 'b'\. Name one"):
        method.batch_logits(data.batch().x, None)


def test_three_classes_are_learnt(make_task: Make, make_man: Make, make_data: Make):
    """A few rows are learnt by heart: all of them are named rightly, each class among them."""
    task = make_task(2, n_classes=3)
    method, data = make_man(task, k=1, hidden=(16,)), make_data(task)
    X, U = data.X, data.U
    for i in range(150):
        method.step(X, U, 0, i)
    method.eval()
    assert set(data.y) == {0, 1, 2}
    for d in (0, 1):
        here = np.flatnonzero(data.d == d)
        logits = method.batch_logits(data.rows.take(here), d)
        assert logits.shape == (len(here), 3)
        np.testing.assert_array_equal(logits.argmax(-1).numpy(), data.y[here])


def test_a_model_that_only_predicts_has_no_optimisers(make_task: Make):
    method = MAN(make_task(), MANSettings(hidden=(4,)))
    assert not method.optimisers


def test_heads_take_the_norm_of_the_settings(make_task: Make, make_man: Make):
    method = make_man(make_task(), norm="per-domain")
    for head in (method.C, method.D):
        assert isinstance(head, Head) and head.norm.over == "per-domain"
