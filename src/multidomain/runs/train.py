"""Training as `multidomain train` does it, for the command line and for Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from multidomain.data.checks import check_trainable
from multidomain.data.corpus import Corpus
from multidomain.data.load import load_data
from multidomain.data.splits import Split, split_by
from multidomain.errors import ConfigError, Note
from multidomain.features.base import Documents
from multidomain.files import mark_removed, write_json
from multidomain.runs.auto import choose_method, is_choice_for
from multidomain.runs.choice import AutoChoice, Candidate
from multidomain.runs.config import AUTO, TrainConfig
from multidomain.runs.folder import CHOICE, CONFIG, RunFolder
from multidomain.runs.run import RunResult, run_in_folder
from multidomain.threads import use_threads
from multidomain.training.callbacks import Callback
from multidomain.training.settings import RunSettings
from multidomain.training.train import suited_device

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


@dataclass(frozen=True)
class TrainOutcome:
    """The metrics of a run, its config, and how its method was chosen, if by 'auto'."""

    result: RunResult
    config: TrainConfig
    choice: AutoChoice | None


def plan_run(config: TrainConfig, *, smoke: bool = False) -> Plan:
    """Read and split the data."""
    corpus = load_data(config.data, config.reading)
    if smoke:
        corpus = corpus.thinned(SMOKE_ROWS)
    return Plan(config, corpus, split_by(corpus, config.split_settings), smoke)


def train(
    plan: Plan,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    auto_callbacks: Sequence[Callback] = (),
    on_compare: Callable[[], None] = lambda: None,
    on_candidate: Callable[[Candidate], None] = lambda candidate: None,
    on_choice: Callable[[AutoChoice], None] = lambda choice: None,
) -> TrainOutcome:
    """Train a model in its folder; with the method 'auto', choose the method first.

    Parameters
    ----------
    resume, overwrite
        As for `run_in_folder`.
    auto_callbacks
        Called while methods are compared.
    on_compare, on_candidate, on_choice
        Called before the comparison, after each candidate, and with the choice.
    """
    config, choice, documents = plan.config, None, Documents(plan.corpus.documents)
    use_threads(config.threads)
    device = config.device
    if config.method == AUTO:
        folder = plan.folder
        folder.check(plan.settings, resume=resume, overwrite=overwrite, smoke=plan.smoke)
        choice = _remembered_choice(plan) if resume else None
        if choice is None:
            check_trainable(plan.corpus, plan.split)
            on_compare()
            with folder.under_way(plan.settings, resume=resume, overwrite=overwrite, smoke=plan.smoke):
                choice = choose_method(
                    plan.corpus,
                    plan.split,
                    plan.settings,
                    config.auto,
                    device=device,
                    callbacks=auto_callbacks,
                    documents=documents,
                    on_candidate=on_candidate,
                )
                folder.keep_choice(choice)
        on_choice(choice)
        config = config.with_method(choice.method, choice.features)
        plan = Plan(config, plan.corpus, plan.split, plan.smoke)
        device = suited_device(plan.settings, device)

    def save_config_and_choice(staged: Path) -> None:
        config.save(staged / CONFIG)
        if choice:
            write_json(staged / CHOICE, asdict(choice))
        else:
            mark_removed(staged / CHOICE)

    result = run_in_folder(
        plan.folder.path,
        plan.corpus,
        plan.split,
        config.split_settings,
        plan.settings,
        device=device,
        resume=resume,
        overwrite=overwrite,
        smoke=plan.smoke,
        callbacks=callbacks,
        documents=documents,
        also_save=save_config_and_choice,
    )
    return TrainOutcome(result, config, choice)


def _remembered_choice(plan: Plan) -> AutoChoice | None:
    """Return the choice in an interrupted run's folder, if it was made for the same data and settings."""
    choice = plan.folder.choice(under_way=True)
    if choice and is_choice_for(choice, plan.corpus, plan.split, plan.settings, plan.config.auto):
        return choice
    if plan.folder.ended():
        raise ConfigError(
            f"The run in {plan.folder.path} has ended, and its method was not chosen for these data and settings.",
            "Replace it ({overwrite}), or choose another folder.",
        )
    return None
