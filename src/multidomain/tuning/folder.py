"""The folder of a study: its files, and what they hold."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multidomain.errors import ConfigError, Note, missing_package
from multidomain.files import alone, whole_file, write_json
from multidomain.metrics import METRIC_NAMES
from multidomain.model.storage import is_model_folder
from multidomain.runs.config import TrainConfig
from multidomain.saved import read_json
from multidomain.settings import flat
from multidomain.tuning.space import configured
from multidomain.tuning.trial import TrialRecord

if TYPE_CHECKING:
    from multidomain.tuning.journal import Journal

STUDY = "study.json"
JOURNAL = "journal.jsonl"
BEST = "best.toml"
TRIALS = "trials.csv"
PLOT = "study.svg"
_CHECKPOINTS = ".running"
_LOCK = ".lock"
_ANEW = "Restore it, or start the study anew with {overwrite}."


@dataclass(frozen=True)
class Asked:
    """What a study was asked for, and where it began.

    Attributes
    ----------
    config
        The given settings of the run.
    search
        What is searched, by setting.
    data, code, machine
        As in a record of a run.
    """

    config: dict[str, Any]
    search: dict[str, str]
    prune: bool
    smoke: bool
    data: dict[str, Any]
    code: str
    machine: dict[str, Any]

    @property
    def metric(self) -> str:
        """Return the name of what is maximised."""
        return METRIC_NAMES[self.parsed.objective.metric]

    @property
    def parsed(self) -> TrainConfig:
        """Return the config without a search."""
        return TrainConfig.parse_all(self.config)

    def decides(self) -> dict[str, Any]:
        """Return everything that scores depend on, by setting."""
        config = self.parsed
        about = {
            **config.run.complete(),
            "split": config.split_settings.model_dump(mode="json"),
            "device": config.device,
            "threads": config.threads,
            "data": self.data["sha256"],
            "search": self.search,
            "pruning": self.prune,
            "smoke": self.smoke,
        }
        return dict(flat(about))


class StudyFolder:
    """The files of a study in a folder."""

    def __init__(self, path: Path):
        self.path = path

    @property
    def checkpoints(self) -> Path:
        """Return the folder of the trials that are under way."""
        return self.path / _CHECKPOINTS

    def asked(self) -> Asked:
        """Return what the study was asked for."""
        if not (self.path / STUDY).exists():
            raise ConfigError(f"There is no study in {self.path}.", "'multidomain tune' begins one.")
        return read_json(self.path / STUDY, Asked, _ANEW)

    def journal(self) -> Journal:
        """Open the journal to read it."""
        return journal_type()(self.path / JOURNAL)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from working on the study."""
        message = f"Another process is working on the study in {self.path}."
        with alone(self.path / _LOCK, message, "Wait for it, or choose another folder."):
            yield

    def journal_to_write(self) -> Journal:
        """Open the journal, for a process that holds the folder; what a kill has cut short in it is removed."""
        _cut_half_line(self.path / JOURNAL)
        return self.journal()

    def begin(self, asked: Asked, *, overwrite: bool) -> list[Note]:
        """Begin a study, or go on with the one in the folder if it was asked for the same; return notes."""
        if is_model_folder(self.path):
            raise ConfigError(f"{self.path} holds a model.", "Choose another folder for the study.")
        exists = (self.path / STUDY).exists()
        if exists and not overwrite:
            earlier = self.asked()
            if not earlier.smoke or asked.smoke:
                return self._go_on(earlier, asked)
        for name in (STUDY, JOURNAL, BEST, TRIALS, PLOT):
            (self.path / name).unlink(missing_ok=True)
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        write_json(self.path / STUDY, asdict(asked))
        return []

    def _go_on(self, earlier: Asked, asked: Asked) -> list[Note]:
        try:
            before, now = earlier.decides(), asked.decides()
        except ConfigError as error:
            raise ConfigError(f"The study in {self.path} is of another version: {error}", _OTHER) from None
        other = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        if other:
            listed = [f"  - {name}: {before.get(name)} there, {now.get(name)} here" for name in other]
            raise ConfigError(f"{self.path} holds a study of other settings:\n" + "\n".join(listed) + "\n", _OTHER)
        if earlier.code == asked.code:
            return []
        return [Note("The first trials of this study were run by other code of this package.", kind="other-code")]

    def write(self, asked: Asked, records: Sequence[TrialRecord]) -> None:
        """Write the table of trials and the best settings."""
        names = list(asked.search)
        with whole_file(self.path / TRIALS) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["trial", "state", "dev_score", *names, "epochs", "seconds", "error"])
            for one in records:
                values = [one.values.get(name, "") for name in names]
                table.writerow(
                    [one.number, one.state, one.score, *values, len(one.dev_scores) or "", one.seconds, one.error]
                )
        best = best_of(records)
        if best:
            config = configured(asked.parsed, best.values if best.number else {})
            config.model_copy(update={"output": str(self.path / "best")}).save(self.path / BEST)


def _cut_half_line(path: Path) -> None:
    """Remove a last line of a journal that a kill has cut short."""
    content = path.read_bytes() if path.exists() else b""
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


def journal_type() -> type[Journal]:
    """Return the type of journals, or raise the error of a missing package."""
    try:
        from multidomain.tuning.journal import Journal
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "optuna":
            raise
        raise missing_package("A search over settings", "optuna") from None
    return Journal


def best_of(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """Return the trial with the best dev score among those that were not stopped; the first of equal ones."""
    complete = [one for one in records if one.state == "complete"]
    return max(complete, key=lambda one: one.score or 0.0, default=None)


_OTHER = "Repeat its command, choose another folder, or start anew with {overwrite}."
