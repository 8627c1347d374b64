"""A training run in a folder: model, metrics, log, and a checkpoint while it lasts."""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from safetensors.numpy import load_file, save_file

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split, default_split
from multidomain.data.checks import summarise
from multidomain.errors import ConfigError, ModelError, MultidomainWarning, counted
from multidomain.evaluation.evaluate import DomainScore, Evaluation, evaluate, invariance
from multidomain.files import whole_file, write_json
from multidomain.runs.predictions import HeldOutPredictions
from multidomain.evaluation.invariance import Invariance
from multidomain.methods.base import GradientMethod
from multidomain.methods.ensemble import Ensemble
from multidomain.model.model import Model, is_model_folder
from multidomain.training.train import Device, RunSettings, saved_members, train_model
from multidomain.settings import Settings
from multidomain.training.callbacks import Callback
from multidomain.training.progress import LogFile
from multidomain.version import __version__

METRICS = "metrics.json"
LOG = "log.jsonl"
NEW_LOG = "log.new.jsonl"
CHECKPOINT = "checkpoint.safetensors"
SEEN = "seen.safetensors"


class SplitSettings(Settings):
    """How to cut a corpus; together with the corpus it decides the split."""

    fold: int | None = Field(None, ge=0, description="run of the 5-fold protocol, 0 to 4; by default rows are held out")
    unlabelled: tuple[str, ...] = Field((), description="domains whose labels training must not see")
    seed: int = 0

    def split(self, corpus: Corpus) -> Split:
        """Cut the corpus."""
        split = default_split(corpus, fold=self.fold, seed=self.seed)
        return split.hide_labels(corpus, self.unlabelled) if self.unlabelled else split


@dataclass(frozen=True)
class RunResult:
    """What a finished run has measured on the weights it kept."""

    test: Evaluation | None
    invariance: Invariance | None
    invariance_before: Invariance | None  # of the weights that training started from
    best_epoch: int
    epochs: int
    chosen: dict[str, Any]
    seconds: float


def run_in_folder(
    folder: Path,
    corpus: Corpus,
    split: Split,
    split_settings: SplitSettings,
    settings: RunSettings,
    *,
    device: Device = "auto",
    resume: bool = False,
    overwrite: bool = False,
    smoke: bool = False,
    callbacks: Sequence[Callback] = (),
) -> RunResult:
    """Train, measure and save; go on with a run that was stopped.

    Parameters
    ----------
    split, split_settings
        What `split_settings` make of the corpus, and they themselves, for the record.
    resume
        Go on from the folder's checkpoint. A run that has ended is only read again.
    overwrite
        Replace the run that is in the folder. Without either, a folder with a run in it is refused.
    smoke
        The run is a trial whose figures mean nothing; it never replaces a real one.
    """
    description = _description(corpus, split, split_settings, settings)
    if resume and (finished := ended_run(folder)):
        return _read_again(folder, finished, description)
    check_folder(folder, settings, resume=resume, overwrite=overwrite, smoke=smoke)
    if not resume:
        _forget(_checkpoints(folder))
    saved = saved_members(settings)
    for member in saved:
        _refuse_leak(member, corpus, split)
    for callback in callbacks:
        callback.on_run_begin(description)
    try:
        result = _run(folder, corpus, split, settings, {**description, "smoke": smoke}, saved, device, callbacks)
    except BaseException:
        for callback in callbacks:
            callback.on_run_error()
        raise
    for callback in callbacks:
        callback.on_run_end(_figures(result))
    return result


def check_folder(folder: Path, settings: RunSettings, *, resume: bool, overwrite: bool, smoke: bool) -> None:
    """Refuse a folder whose content a run would replace without being asked to; a smoke run may always be replaced."""
    if resume and ended_run(folder):  # it is only read again
        return
    finished = None if overwrite and not smoke else _finished(folder)
    if folder.resolve() in [member.resolve() for member in saved_members(settings)]:
        raise ConfigError(f"{folder} is a member of the ensemble. Choose another folder for the whole.")
    if finished and not finished.get("smoke") and smoke:
        raise ConfigError(f"{folder} holds a real run, which a smoke run must not replace. Choose another folder.")
    if resume and is_model_folder(folder) and not _checkpoints(folder):
        raise ConfigError(f"{folder} holds a model, but no run to go on with. Choose another folder, or --overwrite.")
    replaceable = resume or overwrite or (finished and finished.get("smoke"))
    if (finished or _checkpoints(folder) or is_model_folder(folder)) and not replaceable:
        raise ConfigError(
            f"{folder} holds a run already. Go on with it (--resume), replace it (--overwrite), or choose another "
            "folder."
        )


def _run(
    folder: Path,
    corpus: Corpus,
    split: Split,
    settings: RunSettings,
    description: dict[str, Any],
    saved: Sequence[Path],
    device: Device,
    callbacks: Sequence[Callback],
) -> RunResult:
    began = time.monotonic()
    log = folder / (NEW_LOG if is_model_folder(folder) else LOG)  # the old model keeps its own until it is replaced
    held_out = np.concatenate([split.dev, split.test])
    measure = partial(invariance, corpus=corpus, rows=held_out, seed=settings.training.seed)
    at_start = _AtStart(measure)
    trained = train_model(
        corpus,
        split,
        settings,
        device=device,
        checkpoint_path=folder / CHECKPOINT,
        callbacks=[LogFile(log), at_start, *callbacks],
    )
    scored = corpus.labelled[split.test].any()
    result = RunResult(
        test=evaluate(trained.model, corpus, split.test, train=split.train) if scored else None,
        invariance=measure(trained.model),
        invariance_before=None if isinstance(trained.model.method, Ensemble) else at_start.invariance,
        best_epoch=trained.history.best_epoch,
        epochs=len(trained.history.epochs),
        chosen=trained.history.chosen,
        seconds=time.monotonic() - began,
    )
    _forget(folder / of_the_old_model for of_the_old_model in (METRICS, "report.html"))
    trained.model.save(folder)
    HeldOutPredictions.of(trained.model, corpus, split, settings.training.seed).save(folder)
    _write_seen(folder, np.concatenate([_seen_in(corpus, split), *map(_seen_by, saved)]))
    content = {**description, "summary": asdict(summarise(corpus)), "result": _as_json(result), "machine": machine()}
    if log.exists():
        log.replace(folder / LOG)
    else:
        _forget([folder / LOG])
    write_json(folder / METRICS, content)
    _forget(_checkpoints(folder))
    return result


def _checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run, of which an ensemble has one for each member."""
    return sorted(folder.glob(f"{Path(CHECKPOINT).stem}*{Path(CHECKPOINT).suffix}"))


def _forget(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _figures(result: RunResult) -> dict[str, float]:
    figures = {}
    if result.test:
        figures = {f"test/accuracy of {score.domain}": score.accuracy for score in result.test.domains}
        figures |= {"test/accuracy": result.test.accuracy, "test/macro-F1": result.test.macro_f1}
    if result.invariance:
        figures["invariance/nats"] = result.invariance.nats
    return figures


class _AtStart(Callback):
    """Measures the model that training starts from."""

    def __init__(self, measure: Callable[[Model], Invariance | None]):
        self._measure = measure
        self.invariance: Invariance | None = None

    def on_model_built(self, model: Model) -> None:
        if isinstance(model.method, GradientMethod):
            self.invariance = self._measure(model)


def test_rows(folder: Path, corpus: Corpus) -> np.ndarray | None:
    """Return the test rows of the run in a folder, if it was trained on this very corpus, and None if on another."""
    finished = _finished(folder)
    if not finished or finished["data"]["sha256"] != corpus.content_hash():
        return None
    return SplitSettings.parse(finished["split"]["settings"], f"split in {folder / METRICS}").split(corpus).test


def unseen(folder: Path, corpus: Corpus, rows: np.ndarray) -> np.ndarray:
    """Return those of some rows whose text the model in a folder has not seen in training, as far as is known."""
    return rows[~np.isin(corpus.text_keys()[rows], _seen_by(folder))]


def _seen_by(folder: Path) -> np.ndarray:
    path = folder / SEEN
    return load_file(path)["texts"] if path.exists() else np.empty(0, dtype=np.uint64)


def _seen_in(corpus: Corpus, split: Split) -> np.ndarray:
    return corpus.text_keys()[np.concatenate([split.train, split.dev, split.unlabelled])]


def _write_seen(folder: Path, texts: np.ndarray) -> None:
    """Keep digests of the texts that training has seen, so that they are not scored by mistake."""
    with whole_file(folder / SEEN) as temporary:
        save_file({"texts": np.unique(texts)}, temporary)


def _refuse_leak(member: Path, corpus: Corpus, split: Split) -> None:
    """Refuse a saved member that has learnt from test rows which this split holds out."""
    if not (member / SEEN).exists():
        warnings.warn(
            f"What the training of {member} has seen is not known ({SEEN} is missing): whether this split's test rows "
            "are among it cannot be checked.",
            MultidomainWarning,
            stacklevel=2,
        )
    keys = corpus.text_keys()[split.test]
    leaked = int((np.isin(keys, _seen_by(member)) & ~np.isin(keys, _seen_in(corpus, split))).sum())
    if leaked:
        raise ConfigError(
            f"The training of {member} has seen {counted(leaked, 'text')} of this split's test rows, so they would "
            "tell nothing. Join models of the same data and split (the same --seed and --fold)."
        )


def _description(corpus: Corpus, split: Split, split_settings: SplitSettings, settings: RunSettings) -> dict[str, Any]:
    return {
        "data": {"name": corpus.name, "sha256": corpus.content_hash(), "rows": len(corpus)},
        "split": {
            "settings": split_settings.model_dump(mode="json"),
            "rule": split.rule,
            "rows": {part: len(getattr(split, part)) for part in ("train", "dev", "test", "unlabelled")},
        },
        "settings": settings.complete(),
    }


def machine() -> dict[str, Any]:
    """Return what a record must say about where it was made."""
    packages = ("torch", "numpy", "scipy", "scikit-learn", "numba", "safetensors")
    return {
        "multidomain": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def ended_run(folder: Path) -> dict[str, Any] | None:
    """Return the metrics of a folder's run if it has ended and no other has begun since."""
    return None if _checkpoints(folder) else _finished(folder)


def _finished(folder: Path) -> dict[str, Any] | None:
    path = folder / METRICS
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ModelError(f"{path} is damaged. Train anew with --overwrite.") from None


def _read_again(folder: Path, finished: dict[str, Any], description: dict[str, Any]) -> RunResult:
    different = [part for part, value in description.items() if finished[part] != value]
    if different:
        raise ModelError(
            f"{folder} holds a finished run with other {' and '.join(different)}. Repeat that run's command, or "
            "replace it with --overwrite."
        )
    stored = finished["result"]
    test = stored["test"] and Evaluation([DomainScore(**score) for score in stored["test"]["domains"]])
    after, before = (stored.get(name) and Invariance(**stored[name]) for name in ("invariance", "invariance_before"))
    others = {name: stored[name] for name in ("best_epoch", "epochs", "chosen", "seconds")}
    return RunResult(test, after, before, **others)


def _as_json(result: RunResult) -> dict[str, Any]:
    return {**asdict(result), "test": result.test and result.test.as_json()}
