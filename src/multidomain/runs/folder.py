"""The folder of a run: its files, their contents, and when they may be replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from multidomain.data.corpus import Corpus
from multidomain.data.settings import SplitSettings
from multidomain.data.splits import split_by
from multidomain.errors import ConfigError, ModelError
from multidomain.evaluation.evaluate import BASELINES
from multidomain.files import read_json, read_tensors, validated, whole_file, write_json
from multidomain.model.storage import is_model_folder
from multidomain.renamings import config_renamed
from multidomain.runs.choice import AutoChoice
from multidomain.runs.recorded import Metrics, RecordedSettings
from multidomain.runs.unlabelled import UnlabelledDomain
from multidomain.training.settings import RunSettings
from multidomain.training.train import saved_members

METRICS = "metrics.json"
LOG = "log.jsonl"
NEW_LOG = "log.new.jsonl"
CHECKPOINT = "checkpoint.safetensors"
SEEN = "seen.safetensors"
CHOICE = "choice.json"
CONFIG = "train.toml"
REPORT = "report.html"


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
    """The files of a run in a folder, except those of the model itself."""

    def __init__(self, path: Path):
        self.path = path

    @property
    def log(self) -> Path:
        """Return where the log of the current run is written; an old model keeps its own until it is replaced."""
        return self.path / (NEW_LOG if is_model_folder(self.path) else LOG)

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

    def ended(self) -> dict[str, Any] | None:
        """Return the metrics of the folder's run if it has finished and no other has started since."""
        return None if self.checkpoints else self.metrics()

    def check(self, settings: RunSettings, *, resume: bool, overwrite: bool, smoke: bool) -> None:
        """Refuse to replace a run unless told to; a smoke run may always be replaced."""
        if resume and self.ended():  # it is only read again
            return
        finished = None if overwrite and not smoke else self.metrics()
        if self.path.resolve() in [member.resolve() for member in saved_members(settings)]:
            raise ConfigError(f"{self.path} is a member of the ensemble. Choose another folder for the whole.")
        if finished and not finished.get("smoke") and smoke:
            raise ConfigError(f"{self.path} holds a real run, which a smoke run must not replace.", _OTHER_FOLDER)
        if resume and is_model_folder(self.path) and not self.checkpoints:
            raise ConfigError(f"{self.path} holds a model, but no run to resume.", f"{_OTHER_FOLDER} Or {{overwrite}}.")
        replaceable = resume or overwrite or (finished and finished.get("smoke"))
        if (finished or self.checkpoints or is_model_folder(self.path)) and not replaceable:
            raise ConfigError(
                f"{self.path} holds a run already.",
                "Resume it ({resume}), replace it ({overwrite}), or choose another folder.",
            )

    def forget_checkpoints(self) -> None:
        """Remove the checkpoints."""
        _remove(self.checkpoints)

    def forget_old_results(self) -> None:
        """Remove the metrics of the model that is about to be replaced."""
        _remove(self.path / name for name in (METRICS, REPORT))

    def finish(self, metrics: dict[str, Any], log: Path, seen: np.ndarray) -> None:
        """Write the metrics and digests of a run once its model is saved, then remove its checkpoints."""
        with whole_file(self.path / SEEN) as temporary:
            save_file({"texts": np.unique(seen)}, temporary)
        if log.exists():
            log.replace(self.path / LOG)
        else:
            _remove([self.path / LOG])
        write_json(self.path / METRICS, metrics)
        self.forget_checkpoints()

    def unlabelled_domains(self) -> list[UnlabelledDomain]:
        """Return the domains that had few labels or none in training; empty if that is not recorded."""
        result = (self.metrics() or {}).get("result", {})
        return validated(result.get("unlabelled", []), list[UnlabelledDomain], self.path / METRICS, _TRAIN_AGAIN)

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
        finished = self.metrics()
        if not finished or finished["data"]["sha256"] != corpus.content_hash():
            return None
        settings = SplitSettings.parse(finished["split"]["settings"], f"split in {self.path / METRICS}")
        return split_by(corpus, settings).test

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

    def choice(self) -> AutoChoice | None:
        """Return the choice that led to the model in the folder, None if its method was given."""
        try:
            return read_json(self.path / CHOICE, AutoChoice, _TRAIN_AGAIN)
        except (OSError, ModelError):
            return None

    def keep_choice(self, choice: AutoChoice | None) -> None:
        """Write a choice beside the model that it is for; None removes one of an earlier model."""
        if choice is None:
            _remove([self.path / CHOICE])
        else:
            write_json(self.path / CHOICE, asdict(choice))

    def test_scores(self) -> dict[str, Any]:
        """Return the scores on the test set, empty if there are none."""
        finished = self.metrics()
        return (finished and finished["result"]["test"]) or {}


_OTHER_FOLDER = "Choose another folder."
_TRAIN_AGAIN = "Copy the whole folder again, or train again with {overwrite}."


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
