"""What is about to be trained: a config, with its data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from multidomain.data.checks import check_trainable
from multidomain.data.corpus import Corpus
from multidomain.data.load import load_data
from multidomain.data.splits import Split, split_by
from multidomain.errors import Note
from multidomain.processes import refuse_several
from multidomain.runs.config import AUTO, TrainConfig
from multidomain.runs.folder import RunFolder
from multidomain.training.settings import RunSettings
from multidomain.training.train import check_processes

SMOKE_ROWS = 40  # of each domain, part and class


@dataclass(frozen=True, eq=False)
class Plan:
    """A config, with the corpus and split that it describes.

    Attributes
    ----------
    smoke
        A trial: one epoch on a few rows.
    """

    config: TrainConfig
    corpus: Corpus
    split: Split
    smoke: bool = False

    @property
    def settings(self) -> RunSettings:
        """Return the settings of the run."""
        settings = self.config.run
        if self.smoke:
            settings = settings.model_copy(update={"training": settings.training.model_copy(update={"max_epochs": 1})})
        return settings

    @property
    def folder(self) -> RunFolder:
        """Return the folder of the run."""
        return RunFolder(Path(self.config.output))

    def check(self, *, resume: bool, overwrite: bool) -> list[Note]:
        """Raise the errors that training would raise; return notes on the data."""
        notes = check_trainable(self.corpus, self.split)
        if featurizer := self.settings.featurizer():
            featurizer.check()
        self.folder.check(self.settings, resume=resume, overwrite=overwrite, smoke=self.smoke)
        return notes


def plan_run(config: TrainConfig, *, smoke: bool = False) -> Plan:
    """Read and split the data."""
    if config.method == AUTO:
        refuse_several("'auto' compares methods in one process")
    else:
        check_processes(config.run)
    corpus = load_data(config.data, config.reading)
    if smoke:
        corpus = corpus.thinned(SMOKE_ROWS)
    return Plan(config, corpus, split_by(corpus, config.split_settings), smoke)
