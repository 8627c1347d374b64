"""The loop: when it stops, which weights it keeps, what it tells its listeners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from multidomain.errors import ConfigError, TrainingError
from multidomain.methods.data import TrainingData
from multidomain.methods.history import Epoch, History
from multidomain.training.callbacks import Callback
from multidomain.training.loop import Trainer
from multidomain.training.settings import TrainingSettings

Make = Callable[..., Any]


class Ear(Callback):
    """Writes down all it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def on_train_begin(self, max_epochs: int, iterations: int, past: list[Epoch]) -> None:
        self.heard.append(("started", max_epochs, iterations, len(past)))

    def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        self.heard.append(("stepped", epoch, iteration, dict(log)))

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        self.heard.append(("epoch_ended", epoch.epoch, is_best))

    def on_train_end(self) -> None:
        self.heard.append(("ended",))


def run(
    method: Any, data: TrainingData, *callbacks: Callback, epochs: int = 30, patience: int = 5, batch: int = 4
) -> History:
    settings = TrainingSettings(batch_size=batch, max_epochs=epochs, patience=patience)
    return Trainer(method, data, settings, callbacks=callbacks).run()


@pytest.mark.parametrize(
    ("script", "patience", "epochs_run", "best"),
    [
        pytest.param([0.25, 0.5, 0.75, 1], 5, 4, 4, id="rises to the end"),
        pytest.param([0.5, 1, 0.5, 0.75, 0.25, 0], 2, 4, 2, id="stops 2 epochs after the best"),
        pytest.param([0.5, 1, 0.5, 0.75, 0.25, 0], 1, 3, 2, id="stops at once"),
        pytest.param([0.5, 0.25, 0.75, 0.5, 1, 0.5], 2, 6, 5, id="waits long enough"),
        pytest.param([1, 0, 0, 0, 0, 0], 3, 4, 1, id="best at the start"),
        pytest.param([0, 0, 0, 0, 0, 0], 4, 5, 1, id="nothing right is a score too"),
        pytest.param([0.25, 0.75, 0.75, 0.5, 0.75, 0.75], 5, 6, 2, id="the first of equals"),
        pytest.param([0.75, 0.75, 0.75, 1, 0, 0], 2, 3, 1, id="an equal is no better"),
    ],
)
def test_early_stop_and_best_weights(
    script: list[float],
    patience: int,
    epochs_run: int,
    best: int,
    scripted: Make,
    training_data_of: Make,
):
    data = training_data_of()  # 12 labelled rows in the largest domain: 3 iterations of 4
    method = scripted(data.task, script)
    history = run(method, data, epochs=len(script), patience=patience)
    assert history.iterations_per_epoch == 3
    assert [epoch.epoch for epoch in history.epochs] == list(range(1, epochs_run + 1))
    assert history.best_epoch == best
    assert method.weight.item() == 3 * best, "not the weights of the best epoch"
    assert not method.training
    for epoch, share in zip(history.epochs, script, strict=False):
        assert epoch.dev_accuracy == pytest.approx(share)


def test_dev_accuracy_is_the_mean_over_domains(scripted: Make, training_data_of: Make):
    """A domain counts the same whatever its size; domains without dev rows do not count."""
    data = training_data_of(dev=(4, 0, 40))
    method = scripted(data.task, [1.0])
    right = {0: 0.5, 2: 1.0}
    original = method.logits

    def logits(x: Any, d: int) -> Any:
        method.script = [right[d]]
        return original(x, d)

    method.logits = logits
    (epoch,) = run(method, data, epochs=1).epochs
    assert epoch.dev_accuracy_by_domain == {"a": 0.5, "c": 1.0}
    assert epoch.dev_accuracy == 0.75


@pytest.mark.parametrize(("metric", "best"), [("accuracy", 1), ("worst-domain", 2), ("macro-f1", 3)])
def test_the_metric_selects_the_epoch(
    metric: Any, best: int, scripted: Make, training_data_of: Make, monkeypatch: pytest.MonkeyPatch
):
    data = training_data_of(labelled=(9, 6), text=(9, 6), dev=(4, 8))
    x, y = 0, 1
    assert data.dev.y.tolist() == [x, y] * 6
    right, wrong = [x, y], [y, x]
    predictions = [
        right * 2 + [x] * 8,
        [*right, x, x, *right, *[x] * 6],
        right * 2 + right * 2 + wrong * 2,
    ]
    scores = {  # of the first domain and the second
        "accuracy": [(1 + 4 / 8) / 2, (3 / 4 + 5 / 8) / 2, (1 + 4 / 8) / 2],
        "worst-domain": [4 / 8, 5 / 8, 4 / 8],
        "macro-f1": [
            (1 + (2 * 4 / 12 + 0) / 2) / 2,
            ((2 * 2 / 5 + 2 * 1 / 3) / 2 + (2 * 4 / 11 + 2 * 1 / 5) / 2) / 2,
            (1 + 1 / 2) / 2,
        ],
    }
    answers = iter(np.eye(2)[epoch] for epoch in predictions)
    monkeypatch.setattr("multidomain.training.loop.predicted_probabilities", lambda *_: next(answers))
    settings = TrainingSettings(batch_size=4, max_epochs=3)
    history = Trainer(scripted(data.task, [0.0]), data, settings, metric=metric).run()
    assert [epoch.dev_accuracy for epoch in history.epochs] == pytest.approx(scores["accuracy"])
    assert [epoch.dev_score for epoch in history.epochs] == pytest.approx(scores[metric])
    assert history.best_epoch == best == 1 + int(np.argmax(scores[metric]))


def test_an_epoch_of_the_time_before_metrics_was_selected_by_accuracy():
    old = {"epoch": 1, "log": {}, "dev_accuracy": 0.8, "dev_accuracy_by_domain": {"a": 0.8}, "seconds": 1.0}
    assert Epoch(**old).dev_score == 0.8
    assert Epoch(**old, dev_score=0.5).dev_score == 0.5


def test_dev_accuracy_is_counted_within_each_domain(
    scripted: Make, training_data_of: Make, monkeypatch: pytest.MonkeyPatch
):
    data = training_data_of(n_classes=3)
    answers = np.zeros((12, 3))
    answers[np.arange(12), data.dev.y] = 1
    answers[[0, 1, 2, 8]] = np.roll(answers[[0, 1, 2, 8]], 1, axis=1)  # three wrong in a, one in c
    monkeypatch.setattr("multidomain.training.loop.predicted_probabilities", lambda *_: answers)
    (epoch,) = run(scripted(data.task, [1.0]), data, epochs=1).epochs
    assert epoch.dev_accuracy_by_domain == {"a": 0.25, "b": 1.0, "c": 0.75}


def test_without_dev_rows_it_runs_to_the_end_and_keeps_the_last(scripted: Make, training_data_of: Make):
    data = training_data_of(dev=(0, 0, 0))
    method, ear = scripted(data.task, []), Ear()
    history = run(method, data, ear, epochs=7, patience=2)
    assert len(history.epochs) == history.best_epoch == 7
    assert method.weight.item() == 21
    assert all(epoch.dev_accuracy is None and epoch.dev_accuracy_by_domain == {} for epoch in history.epochs)
    assert [e[2] for e in ear.heard if e[0] == "epoch_ended"] == [True] * 7


@pytest.mark.parametrize(
    ("labelled", "batch", "iterations"),
    [((9, 6, 12), 4, 3), ((9, 6, 13), 4, 4), ((1, 2, 3), 8, 1), ((9, 0, 8), 8, 2)],
)
def test_an_epoch_goes_through_the_largest_labelled_domain(
    labelled: tuple[int, ...], batch: int, iterations: int, scripted: Make, training_data_of: Make
):
    """Text without labels does not lengthen it."""
    data = training_data_of(labelled=labelled, text=(50, 50, 50))
    method = scripted(data.task, [1.0, 1.0])
    assert run(method, data, epochs=2, batch=batch).iterations_per_epoch == iterations
    assert method.calls == [(epoch, i) for epoch in (0, 1) for i in range(iterations)]


def test_steps_are_made_in_training_mode(scripted: Make, training_data_of: Make):
    data = training_data_of()
    method = scripted(data.task, [1.0, 0.5, 0.5])
    run(method, data, epochs=3)
    assert method.was_training == [True] * 9


def test_listeners_hear_everything_in_order(scripted: Make, training_data_of: Make):
    data = training_data_of()
    ears = Ear(), Ear()
    method = scripted(data.task, [0.5, 1.0, 0.5])
    run(method, data, *ears, epochs=3)
    heard = ears[0].heard
    assert heard == ears[1].heard
    assert heard[0] == ("started", 3, 3, 0)
    assert heard[-1] == ("ended",)
    order = [(e[0], e[1], e[2]) for e in heard[1:-1]]
    expected = []
    for epoch, is_best in ((1, True), (2, True), (3, False)):
        expected += [("stepped", epoch, i) for i in (1, 2, 3)] + [("epoch_ended", epoch, is_best)]
    assert order == expected


def test_listeners_hear_of_the_end_when_training_fails(scripted: Make, training_data_of: Make):
    """Or a progress bar would leave the terminal without a cursor."""
    data, ear = training_data_of(), Ear()

    class Fails(Callback):
        def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(scripted(data.task, [0.5, 1.0]), data, ear, Fails(), epochs=2)
    assert ear.heard[-1] == ("ended",)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_training(bad: float, scripted: Make, training_data_of: Make):
    """With what to do about it; listeners hear of the end, and no epoch of it is counted."""
    data, ear = training_data_of(), Ear()
    method = scripted(data.task, [0.5, 1.0])
    original = method.step

    def step(X: Any, U: Any, epoch: int, i: int) -> dict[str, torch.Tensor]:
        log = original(X, U, epoch, i)
        return {**log, "J_C": torch.tensor(bad if (epoch, i) == (1, 1) else 0.5)}

    method.step = step
    message = r"diverged: J_C is not finite in iteration 2 of epoch 2\. Lower the learning rate \(lr=\.\.\.\), or clip"
    with pytest.raises(TrainingError, match=message):
        run(method, data, ear, epochs=2)
    assert ear.heard[-1] == ("ended",)
    assert [e[1:] for e in ear.heard if e[0] == "epoch_ended"] == [(1, True)]


def test_logs_are_means_over_the_epoch(scripted: Make, training_data_of: Make):
    """The scripted method logs 1, 2, 3 in the first epoch and 4, 5, 6 in the second."""
    data = training_data_of()
    ear = Ear()
    history = run(scripted(data.task, [0.5, 1.0]), data, ear, epochs=2)
    means = [e[3] for e in ear.heard if e[0] == "stepped"]
    assert [m["steps"] for m in means] == [1, 1.5, 2, 4, 4.5, 5]
    assert all(m["constant"] == 2.5 for m in means)
    assert [epoch.log for epoch in history.epochs] == [
        {"steps": 2.0, "constant": 2.5},
        {"steps": 5.0, "constant": 2.5},
    ]


def test_seconds_are_those_of_the_epoch(scripted: Make, training_data_of: Make, monkeypatch: pytest.MonkeyPatch):
    data = training_data_of()
    clock = [100.0]
    monkeypatch.setattr("multidomain.training.loop.time.monotonic", lambda: clock[0])

    class Tick(Callback):
        def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
            clock[0] += epoch  # a step takes 1 s in the first epoch, 2 s in the second

    history = run(scripted(data.task, [0.5, 1.0]), data, Tick(), epochs=2)
    assert [epoch.seconds for epoch in history.epochs] == pytest.approx([3, 6])


@pytest.mark.parametrize("name", ["man-nll", "man-l2", "sp", "mlp"])
def test_one_seed_makes_a_run_repeatable(name: str, small_method: Make, training_data_of: Make):
    data = training_data_of(labelled=(9, 0, 12))
    results = []
    for seed in (1, 1, 2):
        method = small_method(data.task, name, seed=seed)
        history = run(method, data, epochs=3)
        results.append((method.state_dict(), [epoch.log for epoch in history.epochs]))
    (a, log_a), (b, log_b), (other, _) = results
    assert log_a == log_b
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert any(not torch.equal(a[key], other[key]) for key in a)


def test_domains_smaller_than_a_mini_batch_can_be_learnt(small_method: Make, training_data_of: Make):
    data = training_data_of(labelled=(3, 2, 20), text=(3, 2, 20), dev=(2, 2, 2))
    history = run(small_method(data.task), data, epochs=2, batch=8)
    assert all(np.isfinite(list(epoch.log.values())).all() for epoch in history.epochs)


def test_what_is_learnt_by_a_real_method(small_method: Make, training_data_of: Make):
    """The class is written in the features (see conftest), so it must be found."""
    data = training_data_of(labelled=(40, 40, 0), text=(40, 40, 40), dev=(20, 20, 20), n_classes=3)
    method = small_method(data.task, dropout=0.1, hidden=(16,))
    history = run(method, data, epochs=15, patience=15)
    best = history.epochs[history.best_epoch - 1]
    assert best.dev_accuracy == max(epoch.dev_accuracy for epoch in history.epochs)
    assert best.dev_accuracy > 0.75  # chance is 1/3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 1}, r"'batch_size': .*greater than or equal to 2, got 1\."),
        ({"max_epochs": 0}, r"'max_epochs': .*greater than or equal to 1, got 0\."),
        ({"patience": 0}, r"'patience': .*greater than or equal to 1, got 0\."),
        ({"seed": -1}, r"'seed': .*greater than or equal to 0, got -1\."),
        ({"checkpoint_seconds": -1}, r"'checkpoint_seconds': .*greater than or equal to 0, got -1\."),
        ({"epochs": 3}, r"'epochs' is not a setting\. Did you mean 'max_epochs'\?"),
    ],
)
def test_bad_settings(values: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        TrainingSettings.parse(values)
