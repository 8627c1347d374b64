"""Training that diverges stops and says where, or recovers; nothing that is not finite is ever kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from multidomain.errors import ConfigError, Note, TrainingError
from multidomain.methods.data import TrainingData
from multidomain.methods.divergence import LARGEST_LOSS, LARGEST_WEIGHT, Divergence, check_losses, check_weights
from multidomain.methods.history import History
from multidomain.training.callbacks import Callback
from multidomain.training.checkpoint import Checkpoint
from multidomain.training.loop import Trainer
from multidomain.training.settings import TrainingSettings

Make = Callable[..., Any]
Run = Callable[..., tuple[int, str, str]]
SMALL = ("--set", "hidden=8", "--set", "shared_size=4", "--set", "private_size=4", "--max-features", 100)
ONE_STEP = ("--batch-size", 512, "--max-epochs", 1)
EPOCHS, STEPS = 3, 3  # 12 labelled rows in the largest domain, mini-batches of 4


@pytest.fixture
def data(training_data_of: Make) -> TrainingData:
    return training_data_of(labelled=(9, 0, 12), text=(9, 6, 12))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "log.new.jsonl"}


@pytest.mark.parametrize(
    ("given", "what"),
    [
        pytest.param(
            ("mlp", "--set", "category=domain-specific", "--set", "lr=1e38", *ONE_STEP),
            "weights 'F_d.first_weight', 'F_d.first_bias', 'F_d.weights.0', 'F_d.biases.0' and ",
            id="the last step makes the weights NaN",
        ),
        pytest.param(
            ("sp", "--set", "lr=1e12", *ONE_STEP),
            "weight 'F_s.first_weight' is as large as 1e+12, beyond 1.68e+07, in iteration 1 of epoch 1",
            id="the last step makes them huge",
        ),
        pytest.param(
            ("man-nll", "--set", "lr=1e6", "--max-epochs", 2), "J_C is ", id="the loss explodes and stays finite"
        ),
        pytest.param(("mlp", "--set", "lr=1e38"), "J_C is not finite, for weights 'F_s.", id="the loss is NaN"),
    ],
)
def test_a_diverged_network_is_not_saved(given: tuple[Any, ...], what: str, run: Run, tmp_path: Path):
    method, *others = given
    code, _, err = run("train", "demo", "-o", tmp_path / "run", "--method", method, *SMALL[:2], *SMALL[6:], *others)
    assert code == 2 and "Traceback" not in err
    assert f"error: Training has diverged: {what}" in err, err
    assert " of epoch 1. Lower the learning rate (--set lr=RATE), or clip gradients (--clip-norm 1), or let" in err
    assert {path.name for path in (tmp_path / "run").iterdir()} <= {".lock", "log.jsonl"}


def test_an_exploding_loss_is_named_with_its_bound(run: Run, tmp_path: Path):
    code, _, err = run("train", "demo", "-o", tmp_path, "--method", "man-nll", "--set", "lr=1e6", *SMALL)
    assert code == 2
    assert " beyond " in err and ", in iteration 2 of epoch 1." in err, err


def vectors(folder: Path, scale: float) -> Path:
    """Two domains in svmlight format, whose values are of the order of `scale`."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for domain in ("a", "b"):
        for part, n in (("train", 20), ("dev", 8), ("test", 8)):
            rows = [(i % 2, scale * (random.random(4) + np.eye(4)[i % 2])) for i in range(n)]
            lines = [f"{y} " + " ".join(f"{j}:{v:.6g}" for j, v in enumerate(x, start=1)) for y, x in rows]
            (folder / f"{domain}_{part}.svmlight").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("method", "scale", "message"),
    [
        pytest.param(("ls", "--set", "C=1e-300"), 1e30, "The solver has diverged: predictions on the dev", id="NaN"),
        pytest.param(("ls", "--set", "C=1e-310"), 1.0, "The solver gives up: The 'alpha' parameter", id="refused"),
        pytest.param(("rmtl",), 1.5e38, "The solver gives up: Input X contains infinity", id="overflow"),
        pytest.param(("msda",), 1.5e38, "'msda' has diverged: ", id="not factorised"),
    ],
)
def test_a_solver_that_diverges(method: tuple[str, ...], scale: float, message: str, run: Run, tmp_path: Path):
    folder = vectors(tmp_path / "vectors", scale)
    code, _, err = run("train", folder, "-o", tmp_path / "run", "--weighting", "raw", "--method", *method)
    assert code == 2 and "Traceback" not in err
    assert f"error: {message}" in err, err
    assert not (tmp_path / "run" / "model.json").exists()


@pytest.mark.parametrize("given", [("mlp", "--set", "lr=1e38", *ONE_STEP), ("man-nll", "--set", "lr=1e6")])
def test_an_old_model_stays_as_it_was(given: tuple[Any, ...], run: Run, tmp_path: Path):
    code, _, err = run("train", "demo", "-o", tmp_path, "--method", "lr", "--max-features", 50, "--set", "C=1")
    assert code == 0, err
    before = contents(tmp_path)
    code, _, err = run("train", "demo", "-o", tmp_path, "--overwrite", *SMALL[:2], *SMALL[6:], "--method", *given)
    assert code == 2 and "has diverged" in err, err
    assert contents(tmp_path) == before


def test_a_run_that_diverged_is_resumed_to_recover(run: Run, tmp_path: Path):
    """`recover` may change at a resume; the weights are those of a run that had it from the start."""
    given = ("--method", "mlp", *SMALL[:2], *SMALL[6:], "--set", "lr=3e5", "--max-epochs", 2)
    every_step = ("--checkpoint-seconds", 0)
    code, _, err = run("train", "demo", "-o", tmp_path / "a", *given, *every_step)
    assert code == 2 and "has diverged" in err, err
    code, _, err = run("train", "demo", "-o", tmp_path / "a", *given, *every_step, "--resume", "--recover", 40)
    assert code == 0, err
    assert "It went back to the initial weights, and on with 1/2 of the learning rate." in err
    assert run("train", "demo", "-o", tmp_path / "b", *given, "--recover", 40)[0] == 0
    a, b = (load_file(next((tmp_path / name).glob("weights-*"))) for name in "ab")
    assert all(torch.equal(a[key], b[key]) for key in a)


class Interrupted(Exception):
    pass


class Interrupt(Callback):
    """Raises when it has heard of so many steps."""

    def __init__(self, after_steps: int):
        self.left = after_steps

    def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        self.left -= 1
        if self.left == 0:
            raise Interrupted


def train(
    make: Make,
    data: TrainingData,
    *callbacks: Callback,
    path: Path | None = None,
    lr: float = 1e9,
    break_at: tuple[int, int] | None = None,
    **training: Any,
) -> tuple[Any, History, list[Note]]:
    """Train a small network; at step `break_at` (epoch and iteration from 0) a weight becomes NaN, unless `lr` fell."""
    method = make(data.task, "man-nll", seed=7, lr=lr)
    if break_at is not None:
        whole_step = method.step

        def step(X: Any, U: Any, epoch: int, i: int) -> Any:
            log = whole_step(X, U, epoch, i)
            if (epoch, i) == break_at and method.optimisers["main"].param_groups[0]["lr"] == lr:
                with torch.no_grad():
                    method.F_d.first_weight[0, 0] = math.nan
            return log

        method.step = step
    notes: list[Note] = []
    settings = TrainingSettings(batch_size=4, max_epochs=EPOCHS, patience=EPOCHS, checkpoint_seconds=0, **training)
    checkpoint = Checkpoint(path, "") if path else None
    trainer = Trainer(method, data, settings, checkpoint=checkpoint, callbacks=callbacks, on_note=notes.append)
    return method, trainer.run(), notes


def test_it_recovers_with_half_the_learning_rate(small_method: Make, data: TrainingData):
    method, history, notes = train(small_method, data, recover=60)
    assert len(history.epochs) == EPOCHS
    assert all(torch.isfinite(value).all() for value in method.state_dict().values())
    assert [note.kind for note in notes] == ["recovered"] * len(notes)
    shares = [f"on with 1/{2 ** (n + 1)} of the learning rate" for n in range(len(notes))]
    assert len(notes) > 3 and all(share in note.message for share, note in zip(shares, notes, strict=True))


def test_it_goes_back_to_the_best_epoch(small_method: Make, data: TrainingData):
    """A weight that no later batch reads is found at the end of its epoch, which is run again."""
    lr, seen = 0.01, []

    class Watch(Callback):
        def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
            seen.append((epoch, iteration))

    _, history, notes = train(small_method, data, Watch(), lr=lr, recover=1, break_at=(1, 2))
    (note,) = notes
    assert note.message == (
        "Training diverged: weight 'F_d.first_weight' is not finite in iteration 3 of epoch 2. It went back to the "
        "weights of epoch 1, and on with 1/2 of the learning rate."
    )
    assert [epoch.epoch for epoch in history.epochs] == [1, 2, 3]
    assert seen == [(epoch, i) for epoch in (1, 2, 2, 3) for i in (1, 2, 3)]


def test_it_recovers_no_more_often_than_allowed(small_method: Make, data: TrainingData):
    with pytest.raises(TrainingError, match=r"has diverged: J_C .* of epoch 1\. Lower .*, or clip") as error:
        train(small_method, data, recover=2)
    assert "recover" not in str(error.value), "it does so already"
    with pytest.raises(TrainingError, match=r"Lower the learning rate \(lr=\.\.\.\)\.$"):
        train(small_method, data, recover=2, clip_norm=1)


@pytest.mark.parametrize(("lr", "break_at"), [(1e9, None), (0.01, (1, 1)), (0.01, (1, 2))])
def test_interrupted_at_every_step_it_recovers_to_the_same_end(
    lr: float, break_at: tuple[int, int] | None, small_method: Make, data: TrainingData, tmp_path: Path
):
    whole, history, notes = train(small_method, data, lr=lr, recover=60, break_at=break_at)
    path, restarts = tmp_path / "c", 0
    while True:
        try:
            torch.manual_seed(restarts)
            method, resumed, again = train(
                small_method, data, Interrupt(2), path=path, lr=lr, recover=60, break_at=break_at
            )
            break
        except Interrupted:
            restarts += 1
            assert restarts < 100
    assert restarts >= EPOCHS * STEPS - 2
    assert again == notes, "told again after each resume"
    assert [{**asdict(e), "seconds": 0} for e in resumed.epochs] == [
        {**asdict(e), "seconds": 0} for e in history.epochs
    ]
    assert all(torch.equal(method.state_dict()[key], value) for key, value in whole.state_dict().items())


def test_weights_that_are_not_finite_are_not_in_a_checkpoint(small_method: Make, data: TrainingData, tmp_path: Path):
    """The one before stays, from which the run diverges again, or recovers."""
    with pytest.raises(TrainingError, match=r"'F_d\.first_weight' (is|are) not"):
        train(small_method, data, path=tmp_path / "c", lr=0.01, break_at=(1, 2))
    with safe_open(tmp_path / "c", framework="pt") as file:
        assert all(torch.isfinite(file.get_tensor(name)).all() for name in file.keys())  # noqa: SIM118


def test_predictions_that_are_not_finite_are_never_the_best(
    scripted: Make, training_data_of: Make, monkeypatch: pytest.MonkeyPatch
):
    data = training_data_of()
    bad = np.full((len(data.dev), 2), np.nan)
    monkeypatch.setattr("multidomain.training.loop.predicted_probabilities", lambda *_: bad)
    with pytest.raises(TrainingError, match="a prediction on the dev set is not finite in iteration 3 of epoch 1"):
        Trainer(scripted(data.task, [1.0]), data, TrainingSettings(batch_size=4, max_epochs=1)).run()


def test_running_statistics_count_as_weights(small_method: Make, data: TrainingData):
    """In training they are not read: they may overflow while every loss is fine."""
    method = small_method(data.task)
    check_weights(method)
    method.C.norm.running_var[0] = math.inf
    with pytest.raises(Divergence, match=r"weight 'C\.norm\.running_var' is not finite"):
        check_weights(method)


def test_a_huge_weight_is_refused_only_if_it_is_learnt(small_method: Make, data: TrainingData):
    method = small_method(data.task)
    with torch.no_grad():
        method.C.out.bias[0] = -2 * LARGEST_WEIGHT
    with pytest.raises(Divergence, match=r"weight 'C\.out\.bias' is as large as 3\.36e\+07"):
        check_weights(method)
    method.C.out.bias.requires_grad_(False)
    check_weights(method)


@pytest.mark.parametrize(("factor", "stops"), [(0.99, False), (1.01, True), (-1.01, True)])
def test_a_loss_may_be_so_many_times_the_usual_one(factor: float, stops: bool, small_method: Make, data: TrainingData):
    method = small_method(data.task)
    assert method.losses_at_chance() == {"J_C": pytest.approx(2 * math.log(data.task.n_classes))}
    log = {"J_C": factor * LARGEST_LOSS * 3.0, "orthogonality": 1e30}
    if not stops:
        check_losses(log, {"J_C": 3.0}, method)
        return
    with pytest.raises(Divergence, match=r"J_C is -?3\.03e\+05, beyond 3e\+05,"):
        check_losses(log, {"J_C": 3.0}, method)


def test_features_of_any_scale_have_a_first_loss_of_their_own(scripted: Make, training_data_of: Make):
    """Initial weights may be far off without any step; only what follows shows whether training diverges."""
    data = training_data_of()
    for later, stops in ((1e14, False), (1e16, True)):
        method = scripted(data.task, [1.0])
        method.losses_at_chance = lambda: {"J_C": 1.0}
        method.step = lambda X, U, epoch, i, later=later: {"J_C": torch.tensor(later if i else 1e10)}
        trainer = Trainer(method, data, TrainingSettings(batch_size=4, max_epochs=1))
        if not stops:
            trainer.run()
            continue
        with pytest.raises(TrainingError, match=r"J_C is 1e\+16, beyond 1e\+15, in iteration 2 of epoch 1\."):
            trainer.run()


@pytest.mark.parametrize("values", [{"clip_norm": 0}, {"clip_norm": -1}, {"recover": -1}, {"clip_norm": math.inf}])
def test_settings_out_of_range(values: dict[str, Any]):
    with pytest.raises(ConfigError, match="Invalid settings"):
        TrainingSettings.parse(values)
