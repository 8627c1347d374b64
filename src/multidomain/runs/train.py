"""Training as `multidomain train` does it, for the command line and for Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from multidomain.data.checks import check_trainable
from multidomain.engines.base import Engine
from multidomain.errors import ConfigError
from multidomain.features.base import Documents
from multidomain.files import mark_removed, write_json
from multidomain.runs.auto import choose_method, is_choice_for
from multidomain.runs.choice import AutoChoice, Candidate
from multidomain.runs.config import AUTO, TrainConfig
from multidomain.runs.fold_tasks import Elsewhere
from multidomain.runs.folder import CHOICE, CONFIG
from multidomain.runs.job import Job
from multidomain.runs.plan import Plan
from multidomain.runs.run import RunResult, run_in_folder
from multidomain.threads import use_threads
from multidomain.training.callbacks import Callback
from multidomain.training.train import suited_device, train_model


@dataclass(frozen=True)
class TrainOutcome:
    """The metrics of a run, its config, and how its method was chosen, if by 'auto'."""

    result: RunResult
    config: TrainConfig
    choice: AutoChoice | None


def train(
    plan: Plan,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    auto_callbacks: Sequence[Callback] = (),
    engine: Engine | None = None,
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
        Called while methods are compared, unless that takes place on an engine.
    engine
        Where methods are compared, fold by fold; by default in this process. It is entered here.
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
                with engine or nullcontext():
                    choice = choose_method(
                        plan.corpus,
                        plan.split,
                        plan.settings,
                        config.auto,
                        device=device,
                        callbacks=auto_callbacks,
                        documents=documents,
                        elsewhere=Elsewhere(engine, Job.of(plan)) if engine else None,
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


def follow(plan: Plan, *, resume: bool) -> None:
    """Train together with the first process, which calls `train`; nothing is written."""
    use_threads(plan.config.threads)
    if resume and plan.folder.ended():  # the first only reads it again
        return
    train_model(
        plan.corpus,
        plan.split,
        plan.settings,
        device=plan.config.device,
        checkpoint_path=plan.folder.checkpoint,
        documents=Documents(plan.corpus.documents),
    )


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
