"""A run that was interrupted ends as one that was not, and a file that cannot be used is refused."""

from __future__ import annotations

import errno
import json
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from multidomain.errors import ModelError, StorageError
from multidomain.methods.data import TrainingData
from multidomain.methods.history import Epoch, History
from multidomain.training import checkpoint as checkpoint_module
from multidomain.training.callbacks import Callback
from multidomain.training.checkpoint import Checkpoint
from multidomain.training.loop import Trainer
from multidomain.training.settings import TrainingSettings

Make = Callable[..., Any]
EPOCHS, STEPS = 3, 3  # 12 labelled rows in the largest domain, mini-batches of 4


class Interrupted(Exception):
    pass


class Interrupt(Callback):
    """Raises when it has heard of so many steps, or at the end of an epoch."""

    def __init__(self, after_steps: int | None = None, after_epoch: int | None = None):
        self.steps_left, self.epoch = after_steps, after_epoch

    def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left == 0:
                raise Interrupted

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        if epoch.epoch == self.epoch:
            raise Interrupted


def train(
    make: Make, data: TrainingData, path: Path | None, *callbacks: Callback, **method_settings: Any
) -> tuple[dict[str, Tensor], list[dict[str, Any]], int]:
    """Run from the start, or from the checkpoint; return weights, history without seconds, best epoch."""
    name = method_settings.pop("name", "man-nll")
    settings = TrainingSettings(batch_size=4, max_epochs=EPOCHS, patience=EPOCHS, checkpoint_seconds=0)
    method = make(data.task, name, seed=7, **method_settings)
    checkpoint = Checkpoint(path, "fingerprint") if path else None
    history = Trainer(method, data, settings, checkpoint=checkpoint, callbacks=callbacks).run()
    return method.state_dict(), without_seconds(history), history.best_epoch


def without_seconds(history: History) -> list[dict[str, Any]]:
    return [{**asdict(epoch), "seconds": None} for epoch in history.epochs]


def assert_same(a: Any, b: Any) -> None:
    assert a[1:] == b[1:]
    assert a[0].keys() == b[0].keys()
    for name in a[0]:
        assert torch.equal(a[0][name], b[0][name]), name


@pytest.fixture
def data(training_data_of: Make) -> TrainingData:
    return training_data_of(labelled=(9, 0, 12), text=(9, 6, 12))


@pytest.mark.parametrize("step", range(1, EPOCHS * STEPS + 1))
def test_interrupted_after_any_step(step: int, small_method: Make, data: TrainingData, tmp_path: Path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        train(small_method, data, path, Interrupt(after_steps=step))
    assert path.exists() == (step > 1)
    torch.manual_seed(12345)  # a new process would not have the old one's random state either
    assert_same(train(small_method, data, path), train(small_method, data, None))


class Slow(Callback):
    """Every step takes this long, on both clocks."""

    seconds = 0.05

    def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        end = time.process_time() + self.seconds
        while time.process_time() < end:
            pass


def test_time_before_an_interruption_counts(small_method: Make, data: TrainingData, tmp_path: Path):
    settings = TrainingSettings(batch_size=4, max_epochs=EPOCHS, patience=EPOCHS, checkpoint_seconds=0)
    checkpoint = Checkpoint(tmp_path / "run.checkpoint", "fingerprint")

    def run(*callbacks: Callback) -> History:
        method = small_method(data.task, "man-nll", seed=7)
        return Trainer(method, data, settings, checkpoint=checkpoint, callbacks=callbacks).run()

    for _ in range(2):
        with pytest.raises(Interrupted):
            run(Slow(), Interrupt(after_steps=4))  # the fourth is lost
    for earlier in run().earlier:
        assert 6 * Slow.seconds <= earlier < 60
    checkpoint.path.unlink()
    assert run(Slow()).earlier == (0.0, 0.0)


@pytest.mark.parametrize("epoch", range(1, EPOCHS + 1))
def test_interrupted_at_the_end_of_an_epoch(epoch: int, small_method: Make, data: TrainingData, tmp_path: Path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        train(small_method, data, path, Interrupt(after_epoch=epoch))
    assert_same(train(small_method, data, path), train(small_method, data, None))


@pytest.mark.parametrize("settings", [{"name": "man-l2", "warm_up": True}, {"name": "sp"}, {"norm": "per-domain"}])
def test_interrupted_at_every_step(settings: dict[str, Any], small_method: Make, data: TrainingData, tmp_path: Path):
    """It is killed after each step that it manages, and gets through nevertheless, one step at a time."""
    path = tmp_path / "run.checkpoint"
    restarts = 0
    while True:
        try:
            # The second step is lost each time: it raises before it is saved.
            result = train(small_method, data, path, Interrupt(after_steps=2), **settings)
            break
        except Interrupted:
            restarts += 1
            assert restarts < 50
    assert restarts >= EPOCHS * STEPS - 2
    assert_same(result, train(small_method, data, None, **settings))


def test_a_finished_run_is_not_run_again(small_method: Make, data: TrainingData, tmp_path: Path):
    path = tmp_path / "run.checkpoint"
    finished = train(small_method, data, path)
    assert_same(train(small_method, data, path, Interrupt(after_steps=1)), finished)


def test_a_checkpoint_does_not_change_the_run(small_method: Make, data: TrainingData, tmp_path: Path):
    assert_same(train(small_method, data, tmp_path / "a"), train(small_method, data, None))


def test_listeners_are_told_what_is_past(small_method: Make, data: TrainingData, tmp_path: Path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        train(small_method, data, path, Interrupt(after_steps=STEPS + 2))
    heard = []

    class Ear(Callback):
        def on_train_begin(self, max_epochs: int, iterations: int, past: list[Epoch]) -> None:
            heard.append(("started", [epoch.epoch for epoch in past]))

        def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
            heard.append((epoch, iteration))

    train(small_method, data, path, Ear())
    assert heard[:3] == [("started", [1]), (2, 2), (2, 3)]


def test_it_is_written_no_more_often_than_asked(
    small_method: Make, data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clock, saves = [0.0], []
    monkeypatch.setattr("multidomain.training.loop.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(Checkpoint, "save", lambda *_: saves.append(clock[0]))

    class Tick(Callback):
        def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
            clock[0] += 10

    settings = TrainingSettings(batch_size=4, max_epochs=EPOCHS, checkpoint_seconds=25)
    checkpoint = Checkpoint(tmp_path / "c", "")
    Trainer(small_method(data.task), data, settings, checkpoint=checkpoint, callbacks=[Tick()]).run()
    assert saves == [30, 60, 90]


@pytest.mark.parametrize("call", [1, STEPS + 1], ids=["between two steps", "between two epochs"])
def test_a_signal_just_after_it_was_not_yet_due_is_followed_by_one(
    call: int, small_method: Make, data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    calls, save_if_due = [], Trainer._save_if_due

    def with_signal(trainer: Trainer) -> None:
        save_if_due(trainer)
        calls.append(1)
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "_save_if_due", with_signal)
    settings = TrainingSettings(batch_size=4, max_epochs=EPOCHS, patience=EPOCHS, checkpoint_seconds=1000)
    checkpoint = Checkpoint(tmp_path / "c", "")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # commands that other tests run have their own
    try:
        with pytest.raises(KeyboardInterrupt):
            Trainer(small_method(data.task), data, settings, checkpoint=checkpoint).run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert checkpoint.path.exists()


def test_seconds_add_up_over_interruptions(
    small_method: Make, data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clock = [0.0]
    monkeypatch.setattr("multidomain.training.loop.time.monotonic", lambda: clock[0])

    class Tick(Callback):
        def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
            clock[0] += 10

    settings = TrainingSettings(batch_size=4, max_epochs=2, checkpoint_seconds=0)
    with pytest.raises(Interrupted):
        Trainer(
            small_method(data.task),
            data,
            settings,
            checkpoint=Checkpoint(tmp_path / "c", ""),
            callbacks=[Tick(), Interrupt(after_steps=3)],
        ).run()
    clock[0] = 5000  # the time between is nobody's
    checkpoint = Checkpoint(tmp_path / "c", "")
    history = Trainer(small_method(data.task), data, settings, checkpoint=checkpoint, callbacks=[Tick()]).run()
    # The third step was made twice and saved once.
    assert [epoch.seconds for epoch in history.epochs] == pytest.approx([30, 30])


def test_no_checkpoint_is_no_fault(small_method: Make, data: TrainingData, tmp_path: Path):
    method = small_method(data.task)
    method.start_training()
    assert Checkpoint(tmp_path / "none", "").restore(method) is None


def written(make: Make, data: TrainingData, path: Path, fingerprint: str = "fingerprint") -> Any:
    method = make(data.task)
    method.start_training()
    best = {name: value.clone() for name, value in method.state_dict().items()}
    Checkpoint(path, fingerprint).save(method, best, {"epoch": 3})
    return method


def test_what_was_saved_comes_back(small_method: Make, data: TrainingData, tmp_path: Path):
    saved = written(small_method, data, tmp_path / "c")
    expected = torch.rand(3)  # what the random numbers would have been after saving
    other = small_method(data.task, seed=5)
    other.start_training()
    best, position = Checkpoint(tmp_path / "c", "fingerprint").restore(other)
    assert position == {"epoch": 3}
    for name, value in saved.state_dict().items():
        assert torch.equal(other.state_dict()[name], value) and torch.equal(best[name], value)
    assert torch.equal(torch.rand(3), expected)


def test_a_checkpoint_of_another_run_is_refused(small_method: Make, data: TrainingData, tmp_path: Path):
    path = tmp_path / "run.checkpoint"
    method = written(small_method, data, path, "of another run")
    with pytest.raises(
        ModelError,
        match=r"run\.checkpoint belongs to a run with other settings or other data\. Repeat that run's "
        r"command with resume=True, with as many processes and threads and on the same kind of device, or start over "
        r"with overwrite=True\.",
    ):
        Checkpoint(path, "of this run").restore(method)


def test_a_refused_checkpoint_leaves_the_method_alone(small_method: Make, data: TrainingData, tmp_path: Path):
    written(small_method, data, tmp_path / "c", "of another run")
    method = small_method(data.task, seed=5)
    method.start_training()
    before = {name: value.clone() for name, value in method.state_dict().items()}
    with pytest.raises(ModelError):
        Checkpoint(tmp_path / "c", "of this run").restore(method)
    assert all(torch.equal(before[name], value) for name, value in method.state_dict().items())


@pytest.mark.parametrize("share", [0, 0.001, 0.2, 0.6, 0.999])
def test_a_file_that_is_cut_short_is_refused(share: float, small_method: Make, data: TrainingData, tmp_path: Path):
    path = tmp_path / "run.checkpoint"
    method = written(small_method, data, path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(
        ModelError,
        match=r"run\.checkpoint is cut short or damaged \(.+\)\. Delete it and train from the start\.",
    ):
        Checkpoint(path, "fingerprint").restore(method)


def test_a_file_of_another_kind_is_refused(small_method: Make, data: TrainingData, tmp_path: Path):
    path = tmp_path / "run.checkpoint"
    method = written(small_method, data, path)
    path.write_text("no checkpoint at all, but long enough to have a header", encoding="utf-8")
    with pytest.raises(ModelError, match="is cut short or damaged"):
        Checkpoint(path, "fingerprint").restore(method)


def with_header(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite the header that we put into a safetensors file."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    outer = json.loads(content[8 : 8 + size])
    header = json.loads(outer["__metadata__"]["multidomain"])
    change(header)
    outer["__metadata__"]["multidomain"] = json.dumps(header)
    encoded = json.dumps(outer).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + content[8 + size :])


def test_a_newer_version_is_refused(small_method: Make, data: TrainingData, tmp_path: Path):
    path = tmp_path / "run.checkpoint"
    method = written(small_method, data, path)
    with_header(path, lambda header: header.update(format_version=checkpoint_module.FORMAT_VERSION + 1))
    with pytest.raises(
        ModelError, match=r"run\.checkpoint was written by a newer version of multidomain\. Upgrade to resume it"
    ):
        Checkpoint(path, "fingerprint").restore(method)


def test_a_header_with_something_missing_is_refused(small_method: Make, data: TrainingData, tmp_path: Path):
    path = tmp_path / "run.checkpoint"
    method = written(small_method, data, path)
    with_header(path, lambda header: header.pop("format_version"))
    with pytest.raises(ModelError, match="cannot be used: 'format_version': field required"):
        Checkpoint(path, "fingerprint").restore(method)


def test_the_file_holds_everything(small_method: Make, data: TrainingData, tmp_path: Path):
    path = tmp_path / "run.checkpoint"
    train(small_method, data, path)
    with safe_open(path, framework="pt") as file:
        names = list(file.keys())
    kinds = {name.split("/")[0] for name in names}
    assert kinds == {"weights", "best", "optimiser", "random"}
    method = small_method(data.task)
    method.start_training()
    for name, optimiser in method.optimisers.items():
        parameters = sum(len(group["params"]) for group in optimiser.param_groups)
        stored = [key for key in names if key.startswith(f"optimiser/{name}/")]
        # step, exp_avg and exp_avg_sq of each parameter; of rows also when each was last up to date
        assert len(stored) == (4 if name == "rows" else 3) * parameters


DISK_FULL = r"No space left on the disk while writing .*run\.checkpoint\. What was there before is unchanged"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        SafetensorError("Error while serializing: I/O error: Disk quota exceeded (os error 122)"),
    ],
    ids=["ENOSPC", "EDQUOT", "safetensors ENOSPC", "safetensors EDQUOT"],
)
def test_disk_full_leaves_the_file_before_intact(
    error: Exception,
    small_method: Make,
    data: TrainingData,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        train(small_method, data, path, Interrupt(after_steps=5))
    before = path.read_bytes()

    def half_written(tensors: Any, filename: Path, metadata: Any) -> None:
        Path(filename).write_bytes(b"half of it")
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_module, "save_file", half_written)
        with pytest.raises(StorageError, match=DISK_FULL):
            train(small_method, data, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.checkpoint"], "something was left behind"
    assert_same(train(small_method, data, path), train(small_method, data, None))


SAVE_ON_A_FULL_DISK = """
    import subprocess, sys
    from pathlib import Path
    import torch
    from multidomain.errors import StorageError
    from multidomain.methods.registry import method_entry
    from multidomain.methods.task import Task
    from multidomain.training.checkpoint import Checkpoint

    folder = Path(sys.argv[1])
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", folder], check=True)
    entry = method_entry("man-nll")
    def save(hidden):
        method = entry.build(Task(50, 2, ("a", "b"), (0, 1)), entry.settings({"hidden": (hidden,)}))
        method.start_training()
        best = {name: value.clone() for name, value in method.state_dict().items()}
        Checkpoint(folder / "run.checkpoint", "f").save(method, best, {})
    save(8)
    before = (folder / "run.checkpoint").read_bytes()
    try:
        save(2000)
    except StorageError as error:
        print(error)
    assert (folder / "run.checkpoint").read_bytes() == before
    assert [file.name for file in folder.iterdir()] == ["run.checkpoint"]
    print("intact")
"""


def test_a_disk_that_is_really_full(tmp_path: Path):
    """On a file system of 512 KB, mounted in a namespace of its own."""
    isolated = ["unshare", "--user", "--map-root-user", "--mount"]
    can = shutil.which("unshare") and shutil.which("mount")
    probe = [*isolated, "mount", "-t", "tmpfs", "none", str(tmp_path)]
    if not can or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("no namespace to mount a small file system in")
    command = [*isolated, sys.executable, "-c", textwrap.dedent(SAVE_ON_A_FULL_DISK), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "No space left on the disk while writing" in result.stdout
    assert result.stdout.endswith("intact\n")
