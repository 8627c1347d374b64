"""A training run in a folder: model, metrics, log, and a checkpoint while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.data.checks import summarise
from multidomain.data.corpus import PARTS, Corpus
from multidomain.data.settings import SplitSettings
from multidomain.data.splits import Split
from multidomain.devices import Device
from multidomain.errors import ConfigError, ModelError, Note, counted
from multidomain.evaluation.evaluate import DomainScore, Evaluation, baselines, evaluate, invariance
from multidomain.evaluation.invariance import Invariance
from multidomain.features.base import Documents
from multidomain.model.model import Model
from multidomain.renamings import without_replaced
from multidomain.runs.compaction import Compaction
from multidomain.runs.folder import RunFolder
from multidomain.runs.machine import machine
from multidomain.runs.predictions import HeldOutPredictions
from multidomain.runs.scoring import Scored, train_and_score
from multidomain.runs.unlabelled import UnlabelledDomain, unlabelled_domains
from multidomain.training.callbacks import Callback
from multidomain.training.data import EncodedRows
from multidomain.training.progress import LogFile
from multidomain.training.settings import RunSettings
from multidomain.training.train import saved_members


@dataclass(frozen=True)
class RunResult:
    """The metrics of a finished run, measured on the kept checkpoint."""

    test: Evaluation | None
    invariance: Invariance | None
    invariance_before: Invariance | None  # of the weights that training started from
    best_epoch: int
    epochs: int
    chosen: dict[str, Any]
    seconds: float
    unlabelled: list[UnlabelledDomain] = field(default_factory=list)
    compaction: Compaction | None = None


def run_in_folder(
    path: Path,
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
    documents: Documents | None = None,
    also_save: Callable[[Path], None] = lambda folder: None,
) -> RunResult:
    """Train, evaluate and save; resume an interrupted run.

    The folder is locked meanwhile. A run that it holds stays whole until the new one has ended, and is then replaced in
    one step.

    Parameters
    ----------
    split, split_settings
        The split, and the settings that produced it, for the record.
    resume
        Resume from the folder's checkpoint. A finished run is only read again.
    overwrite
        Replace the run that is in the folder. Without either, a folder with a run in it is refused.
    smoke
        A trial run, whose scores are meaningless; it never replaces a real one.
    documents
        Those of the corpus, if they are analysed already.
    also_save
        Called with a folder to write further files of the finished run to.
    """
    folder = RunFolder(path)
    description = _description(corpus, split, split_settings, settings)
    if resume and (finished := folder.ended()):
        return _read_again(path, finished, description)
    folder.check(settings, resume=resume, overwrite=overwrite, smoke=smoke)
    members = [RunFolder(member) for member in saved_members(settings)]
    notes = [note for member in members for note in _check_leak(member, corpus, split)]
    if _weighs_members(settings):
        notes += filter(None, (_trained_on_dev(member, corpus, split) for member in members))
    for note in notes:
        for callback in callbacks:
            callback.on_note(note)
    with (
        folder.under_way(settings, resume=resume, overwrite=overwrite, smoke=smoke),
        _told(callbacks, description),
    ):
        scored, result = _train(folder, corpus, split, settings, device, callbacks, documents)
        about = {"smoke": smoke, "summary": asdict(summarise(corpus)), "machine": machine()}
        seen = np.concatenate([_seen_in(corpus, split), *(member.seen() for member in members)])
        with folder.finished({**description, **about, "result": _as_json(result)}, seen) as staged:
            scored.trained.model.save(staged)
            HeldOutPredictions.of(scored, corpus, split, settings.training.seed).save(staged)
            also_save(staged)
    for callback in callbacks:
        callback.on_run_end(_figures(result))
    return result


@contextmanager
def _told(callbacks: Sequence[Callback], description: Mapping[str, Any]) -> Iterator[None]:
    """Tell callbacks that a run begins, and if it fails or is stopped."""
    for callback in callbacks:
        callback.on_run_begin(description)
    try:
        yield
    except BaseException:
        for callback in callbacks:
            callback.on_run_error()
        raise


def _train(
    folder: RunFolder,
    corpus: Corpus,
    split: Split,
    settings: RunSettings,
    device: Device,
    callbacks: Sequence[Callback],
    documents: Documents | None,
) -> tuple[Scored, RunResult]:
    """Train with the log and checkpoints in the folder, and measure what came of it."""
    began, seed = time.monotonic(), settings.training.seed
    held_out = np.concatenate([split.dev, split.test])
    at_start = _InvarianceAtStart(corpus, held_out, seed)
    scored = train_and_score(
        corpus,
        split,
        settings,
        device=device,
        checkpoint_path=folder.checkpoint,
        callbacks=[LogFile(folder.log, settings.objective.metric), at_start, *callbacks],
        documents=documents,
    )
    model, history, encoded = scored.trained.model, scored.trained.history, scored.trained.encoded
    has_members = bool(settings.requirements.members)
    result = RunResult(
        test=_test_scores(model, corpus, split, encoded, scored.test),
        invariance=invariance(model, corpus, held_out, encoded[held_out], seed),
        invariance_before=None if has_members else at_start.invariance,
        best_epoch=history.best_epoch,
        epochs=len(history.epochs),
        chosen=history.chosen,
        seconds=time.monotonic() - began + history.earlier[0],
        unlabelled=unlabelled_domains(scored.trained, corpus, split),
        compaction=Compaction.of(scored, corpus, split),
    )
    for note in filter(None, (domain.note for domain in result.unlabelled)):
        for callback in callbacks:
            callback.on_note(note)
    return scored, result


def _test_scores(
    model: Model, corpus: Corpus, split: Split, encoded: EncodedRows, probabilities: np.ndarray
) -> Evaluation | None:
    has_label = corpus.labelled[split.test]
    rows = split.test[has_label]
    if not len(rows):
        return None
    simpler = baselines(model, corpus, rows, encoded, split.train)
    return evaluate(model, corpus, rows, probabilities[has_label], baselines=simpler)


class _InvarianceAtStart(Callback):
    """Measures the invariance of the initial weights."""

    def __init__(self, corpus: Corpus, rows: np.ndarray, seed: int):
        self._corpus, self._rows, self._seed = corpus, rows, seed
        self.invariance: Invariance | None = None

    def on_model_built(self, model: Model, encoded: EncodedRows) -> None:
        if model.requirements.shared_features:
            self.invariance = invariance(model, self._corpus, self._rows, encoded[self._rows], self._seed)


def _figures(result: RunResult) -> dict[str, float]:
    figures = {}
    if result.test:
        figures = {f"test/accuracy of {score.domain}": score.accuracy for score in result.test.domains}
        figures |= {"test/accuracy": result.test.accuracy, "test/macro-F1": result.test.macro_f1}
    if result.invariance:
        figures["invariance/nats"] = result.invariance.nats
    return figures


def _seen_in(corpus: Corpus, split: Split) -> np.ndarray:
    return corpus.text_keys()[np.concatenate([split.train, split.dev, split.unlabelled])]


def _check_leak(member: RunFolder, corpus: Corpus, split: Split) -> list[Note]:
    """Refuse a saved member that was trained on test rows of this split."""
    if not member.knows_what_it_has_seen:
        return [
            Note(
                f"It is not known what the training of {member.path} has seen: whether this split's test rows are "
                "among it cannot be checked.",
                kind="unknown-training-data",
            )
        ]
    keys = corpus.text_keys()[split.test]
    leaked = int((np.isin(keys, member.seen()) & ~np.isin(keys, _seen_in(corpus, split))).sum())
    if leaked:
        raise ConfigError(
            f"The training of {member.path} has seen {counted(leaked, 'text')} of this split's test set, whose scores "
            "would be too high.",
            "Join models of the same data and split (the same {seed=SEED} and {fold=FOLD}).",
        )
    return []


def _weighs_members(settings: RunSettings) -> bool:
    """Tell whether an ensemble, or one inside it, fits weights of members on the dev set."""
    inner = [one for one in settings.requirements.members if one.method and one.task is None]
    own = settings.entry.settings(settings.method_settings)
    return getattr(own, "combine", None) == "logits" or any(
        _weighs_members(RunSettings(method=one.method, method_settings=one.settings)) for one in inner
    )


def _trained_on_dev(member: RunFolder, corpus: Corpus, split: Split) -> Note | None:
    """Return a note if a saved member was trained on dev rows of this split, on which its weight is to be fitted.

    Which texts a run was trained on is known of a run on the same data. Of another it is known only what it has seen,
    its own dev rows among that.
    """
    keys = corpus.text_keys()
    dev = keys[split.dev[~np.isin(keys[split.dev], keys[split.train])]]
    own = member.split_of(corpus)
    learnt = member.seen() if own is None else keys[own.train]
    n = int(np.isin(dev, learnt).sum())
    if not n:
        return None
    has = "has seen" if own is None else "was trained on"
    return Note(
        f"{member.path} {has} {counted(n, 'text')} of the {len(dev):,} of the dev set, on which the weights of members "
        "are fitted: its weight may be too large.",
        "Join models of the same data and split (the same {seed=SEED} and {fold=FOLD}).",
        kind="trained-on-dev",
    )


def _description(corpus: Corpus, split: Split, split_settings: SplitSettings, settings: RunSettings) -> dict[str, Any]:
    return {
        "data": {"name": corpus.name, "sha256": corpus.content_hash(), "rows": len(corpus)},
        "split": {
            "settings": split_settings.model_dump(mode="json"),
            "rule": split.rule,
            "rows": {part: len(getattr(split, part)) for part in PARTS},
        },
        "settings": settings.complete(),
    }


def _read_again(path: Path, finished: dict[str, Any], description: dict[str, Any]) -> RunResult:
    settings = finished["settings"]
    present = without_replaced(settings["method"], settings["method_settings"])  # it is only read again
    settings = RunSettings.from_record({**settings, "method_settings": present}).complete()
    recorded = {**finished, "settings": settings}
    different = [part for part, value in description.items() if recorded[part] != value]
    if different:
        raise ModelError(
            f"{path} holds a finished run with other {' and '.join(different)}.",
            "Repeat that run's command, or replace it with {overwrite}.",
        )
    stored = finished["result"]
    test = stored["test"] and Evaluation([DomainScore(**score) for score in stored["test"]["domains"]])
    after, before = (stored.get(name) and Invariance(**stored[name]) for name in ("invariance", "invariance_before"))
    others = {name: stored[name] for name in ("best_epoch", "epochs", "chosen", "seconds")}
    folder = RunFolder(path)
    return RunResult(
        test, after, before, **others, unlabelled=folder.unlabelled_domains(), compaction=folder.compaction()
    )


def _as_json(result: RunResult) -> dict[str, Any]:
    return {**asdict(result), "test": result.test and result.test.as_json()}
