"""The folder of a run: its files, their contents, and when they may be replaced."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from multidomain.data.corpus import Corpus
from multidomain.data.settings import SplitSettings
from multidomain.data.splits import Split, split_by
from multidomain.errors import ConfigError, ModelError
from multidomain.evaluation.evaluate import BASELINES
from multidomain.files import all_or_none, alone, complete, mark_removed, whole_file, write_json
from multidomain.model.storage import is_model_folder, model_files
from multidomain.renamings import config_renamed
from multidomain.runs.choice import AutoChoice
from multidomain.runs.compaction import Compaction
from multidomain.runs.recorded import Metrics, RecordedSettings
from multidomain.runs.unlabelled import UnlabelledDomain
from multidomain.saved import read_json, read_tensors, validated
from multidomain.training.settings import RunSettings
from multidomain.training.train import saved_members

METRICS = "metrics.json"
LOG = "log.jsonl"
NEW_LOG = "log.new.jsonl"
CHECKPOINT = "checkpoint.safetensors"
SEEN = "seen.safetensors"
CHOICE = "choice.json"
NEW_CHOICE = "choice.new.json"
CONFIG = "train.toml"
REPORT = "report.html"
LOCK = ".lock"


@dataclass(frozen=True, eq=False)
class RowsToScore:
    """Rows to score.

    Attributes
    ----------
    seen_in_training
        Number of rows dropped because training has seen their text.
    baselines
        Scores of the baselines on these rows by domain, if the run has measured them.
    """

    rows: np.ndarray
    description: str
    seen_in_training: int = 0
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class RunFolder:
    """The files of a run in a folder.

    A run under way keeps its checkpoints, and in a folder that holds a model also a log and a choice of its own, beside
    the files of the last finished run. When it ends, all its files replace those in one step.
    """

    def __init__(self, path: Path):
        self.path = path
        complete(path)

    @property
    def log(self) -> Path:
        """Return where the log of the current run is written; an old model keeps its own until it is replaced."""
        return self.path / (NEW_LOG if self.holds_model else LOG)

    @property
    def checkpoint(self) -> Path:
        """Return the path of the checkpoint."""
        return self.path / CHECKPOINT

    @property
    def checkpoints(self) -> list[Path]:
        """Return the existing checkpoints; an ensemble has one for each member."""
        return sorted(self.path.glob(f"{Path(CHECKPOINT).stem}*{Path(CHECKPOINT).suffix}"))

    @property
    def holds_model(self) -> bool:
        """Tell whether the folder holds a model."""
        return is_model_folder(self.path)

    def metrics(self) -> dict[str, Any] | None:
        """Return the metrics of the folder's run under current setting names; None if no run has finished."""
        path = self.path / METRICS
        if not path.exists():
            return None
        content = read_json(path, dict[str, Any], _TRAIN_AGAIN)
        validated(content, Metrics, path, _TRAIN_AGAIN)
        settings = config_renamed(content["settings"])
        validated(settings, RecordedSettings, f"{path}: 'settings'", _TRAIN_AGAIN)
        return {**content, "settings": settings}

    @property
    def is_under_way(self) -> bool:
        """Tell whether a run has started, or one over a finished run, and has not ended."""
        return bool(self.checkpoints) or (self.path / NEW_LOG).exists()

    def ended(self) -> dict[str, Any] | None:
        """Return the metrics of the folder's run if it has finished and no other has started since."""
        return None if self.is_under_way else self.metrics()

    def check(self, settings: RunSettings, *, resume: bool, overwrite: bool, smoke: bool) -> None:
        """Refuse to replace a run unless told to; a smoke run may always be replaced."""
        if resume and self.ended():  # it is only read again
            return
        finished = None if overwrite and not smoke else self.metrics()
        if self.path.resolve() in [member.resolve() for member in saved_members(settings)]:
            raise ConfigError(f"{self.path} is a member of the ensemble. Choose another folder for the whole.")
        if finished and not finished.get("smoke") and smoke:
            raise ConfigError(f"{self.path} holds a real run, which a smoke run must not replace.", _OTHER_FOLDER)
        if resume and self.holds_model and not self.is_under_way:
            raise ConfigError(f"{self.path} holds a model, but no run to resume.", f"{_OTHER_FOLDER} Or {{overwrite}}.")
        replaceable = resume or overwrite or (finished and finished.get("smoke"))
        if (finished or self.is_under_way or self.holds_model) and not replaceable:
            raise ConfigError(
                f"{self.path} holds a run already.",
                "Resume it ({resume}), replace it ({overwrite}), or choose another folder.",
            )

    @contextmanager
    def under_way(self, settings: RunSettings, *, resume: bool, overwrite: bool, smoke: bool) -> Iterator[None]:
        """Start a run, or resume the one that is under way, and keep other processes from training in the folder.

        A run that fails before its first checkpoint is forgotten. A signal is no failure: after it the run may be
        resumed.
        """
        message = f"Another process is training in {self.path}."
        with alone(self.path / LOCK, message, "Wait for it, or choose another folder."):
            complete(self.path)  # another process may have come first
            self.check(settings, resume=resume, overwrite=overwrite, smoke=smoke)
            self._begin(resume=resume)
            try:
                yield
            except Exception:
                if not self.checkpoints:
                    _remove([self.path / NEW_LOG, self.path / NEW_CHOICE])
                raise

    def _begin(self, *, resume: bool) -> None:
        if not resume:
            _remove(self.checkpoints)
        if self.holds_model:  # the new log says from now on that a run is under way
            self.log.open("a" if resume else "w").close()
        elif not resume:  # a method that logs nothing would inherit it from a run that was killed
            _remove([self.log])

    @contextmanager
    def finished(self, metrics: Mapping[str, Any], seen: np.ndarray) -> Iterator[Path]:
        """Yield an empty folder for the files of a finished run, which replace those of the last one in one step.

        The log goes there too, and checkpoints are removed.
        """
        half_written = self.path.glob(f".{Path(CHECKPOINT).stem}*.partial")  # when a process was killed
        names = (LOG, NEW_LOG, NEW_CHOICE, REPORT)
        of_run = [*self.checkpoints, *half_written, *(self.path / name for name in names)]
        with all_or_none(self.path) as staged:
            yield staged
            with whole_file(staged / SEEN) as temporary:
                save_file({"texts": np.unique(seen)}, temporary)
            if self.log.exists():
                with whole_file(staged / LOG) as temporary:
                    shutil.copyfile(self.log, temporary)
            write_json(staged / METRICS, metrics)
            for path in (*of_run, *model_files(self.path)):
                if path.exists() and not (staged / path.name).exists():
                    mark_removed(staged / path.name)

    def unlabelled_domains(self) -> list[UnlabelledDomain]:
        """Return the domains that had few labels or none in training; empty if that is not recorded."""
        result = (self.metrics() or {}).get("result", {})
        return validated(result.get("unlabelled", []), list[UnlabelledDomain], self.path / METRICS, _TRAIN_AGAIN)

    def compaction(self) -> Compaction | None:
        """Return what was lost and saved when the model was made compact; None if it was not."""
        found = (self.metrics() or {}).get("result", {}).get("compaction")
        return found and validated(found, Compaction, self.path / METRICS, _TRAIN_AGAIN)

    def seen(self) -> np.ndarray:
        """Return digests of the texts seen in training, so that they are not scored by mistake."""
        path = self.path / SEEN
        if not path.exists():
            return np.empty(0, dtype=np.uint64)
        texts = read_tensors(path, "numpy", _TRAIN_AGAIN)[0].get("texts")
        if texts is None or texts.ndim != 1 or texts.dtype != np.uint64:
            raise ModelError(f"{path} does not hold digests of texts.", _TRAIN_AGAIN)
        return texts

    @property
    def knows_what_it_has_seen(self) -> bool:
        """Tell whether the folder has digests of the texts seen in training."""
        return (self.path / SEEN).exists()

    def test_rows(self, corpus: Corpus) -> np.ndarray | None:
        """Return the test rows of the run if it was trained on this corpus, or None if on another."""
        split = self.split_of(corpus)
        return None if split is None else split.test

    def split_of(self, corpus: Corpus) -> Split | None:
        """Return the split of the run if it was trained on this corpus, or None if on another."""
        finished = self.metrics()
        if not finished or finished["data"]["sha256"] != corpus.content_hash():
            return None
        settings = SplitSettings.parse(finished["split"]["settings"], f"split in {self.path / METRICS}")
        return split_by(corpus, settings)

    def rows_to_score(self, corpus: Corpus) -> RowsToScore:
        """Return the rows of a corpus to score: the test set, without texts seen in training.

        Of the corpus that it was trained on these are the test rows of the run. Of another one they are the test part,
        if it has one, and otherwise all rows.
        """
        held_out = self.test_rows(corpus)
        if held_out is not None:
            measured = {score["domain"]: score for score in self.test_scores().get("domains", ())}
            baselines = {
                domain: {name: score[name] for name in BASELINES if name in score} for domain, score in measured.items()
            }
            return RowsToScore(held_out, "the test set that was held out in training", baselines=baselines)
        rows, description = np.arange(len(corpus)), "the labelled rows"
        if corpus.parts is not None and (corpus.parts == "test").any():
            rows, description = np.flatnonzero(corpus.parts == "test"), "the test part"
        unseen = rows[~np.isin(corpus.text_keys()[rows], self.seen())]
        return RowsToScore(unseen, description, len(rows) - len(unseen))

    def choice(self, *, under_way: bool = False) -> AutoChoice | None:
        """Return the choice that led to the model in the folder, or to the run under way; None if there is none."""
        for name in (NEW_CHOICE, CHOICE) if under_way else (CHOICE,):
            with suppress(OSError, ModelError):
                return read_json(self.path / name, AutoChoice, _TRAIN_AGAIN)
        return None

    def keep_choice(self, choice: AutoChoice) -> None:
        """Keep the choice of a run under way; an old model keeps its own."""
        write_json(self.path / (NEW_CHOICE if self.holds_model else CHOICE), asdict(choice))

    def test_scores(self) -> dict[str, Any]:
        """Return the scores on the test set, empty if there are none."""
        finished = self.metrics()
        return (finished and finished["result"]["test"]) or {}


_OTHER_FOLDER = "Choose another folder."
_TRAIN_AGAIN = "Copy the whole folder again, or train again with {overwrite}."


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
