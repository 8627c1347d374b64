"""The command ``multidomain train``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multidomain.cli.console import err, out, print_notes
from multidomain.cli.engines import bounded_by_memory, engine_for
from multidomain.cli.options import (
    Address,
    AllowDownload,
    ConfigFile,
    Encoder,
    Engine,
    Extractor,
    MethodSettings,
    with_options,
)
from multidomain.cli.signals import stop_hint
from multidomain.errors import ConfigError, counted, quoted
from multidomain.processes import is_first, number_of_processes, on_each_machine
from multidomain.runs.config import AUTO, TrainConfig, merged, nested, read_config, train_options
from multidomain.stages import reported_to

if TYPE_CHECKING:
    from multidomain.engines.base import Engine as BaseEngine
    from multidomain.runs.choice import AutoChoice
    from multidomain.runs.plan import Plan
    from multidomain.runs.train import TrainOutcome
    from multidomain.training.callbacks import Callback

SHOW: dict[str, dict[str, Any]] = {
    "data": {"argument": True},
    "output": {"names": ["--output", "-o"]},
    "unlabelled": {"metavar": "DOMAIN"},
    "labels": {"metavar": "FILE"},
    "methods": {"type": str, "metavar": "NAME,NAME"},
    "budget": {"metavar": "MINUTES"},
    "device": {"metavar": "auto|cpu|cuda|cuda:N|mps"},
    "ngram_range": {"metavar": "SHORTEST,LONGEST"},
    "class_weight": {"type": str, "metavar": "balanced|CLASS=W,..."},
}


@with_options(train_options(), SHOW)
def train_command(
    given: Mapping[tuple[str, ...], Any],
    config: ConfigFile = None,
    settings: MethodSettings = None,
    extractor: Extractor = None,
    encoder: Encoder = None,
    allow_download: AllowDownload = False,
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write curves for TensorBoard too.")
    ] = None,
    mlflow: Annotated[str | None, typer.Option(metavar="URI", help="Log to an MLflow server or folder too.")] = None,
    engine: Engine = None,
    address: Address = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Folds at a time that 'auto' trains; by default 1, on a cluster all.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the data and the split, and stop.")] = False,
    smoke: Annotated[bool, typer.Option("--smoke", help="One epoch on a few rows, to check that it works.")] = False,
) -> None:
    """Train a model, score it in each domain, and save it in a folder."""
    from multidomain.runs.train import follow, train
    from multidomain.training.progress import progress_on

    parsed = parsed_config(given, config, short_for(settings, extractor, encoder, allow_download))
    where = _engine_of_auto(parsed, engine, address, workers)
    plan = read_plan(parsed, smoke=smoke)
    _show_plan(plan)
    if dry_run:
        print_notes(plan.check(resume=resume, overwrite=overwrite))
        out.print(f"dry run: nothing was trained; {plan.folder.path} would hold the model", soft_wrap=True)
        return
    if not is_first():
        follow(plan, resume=resume)
        return
    if where:
        print_notes(bounded_by_memory(where))
    with stop_hint(f"Resume with: {_resuming(sys.argv[1:])}"):
        outcome = train(
            plan,
            resume=resume,
            overwrite=overwrite,
            callbacks=_callbacks(plan, tensorboard, mlflow),
            engine=where,
            auto_callbacks=[progress_on(err)] if err.is_terminal else [],  # a bar disappears again, lines would not
            on_compare=lambda: _show_comparison(plan),
            on_candidate=lambda candidate: err.print(f"auto: {candidate}", soft_wrap=True),
            on_choice=_show_choice,
        )
    _show_outcome(outcome, plan)


def _engine_of_auto(
    config: TrainConfig, engine: str | None, address: str | None, workers: int | None
) -> BaseEngine | None:
    """Return the engine on which methods are compared, if one was asked for."""
    given = {"engine": engine, "address": address, "workers": workers}
    asked = [name for name, value in given.items() if value is not None]
    if asked and config.method != AUTO:
        raise ConfigError(
            f"{quoted(asked)} {'has' if len(asked) == 1 else 'have'} no effect: a model is trained in one process; "
            f"engines are for the comparisons of the method '{AUTO}'.",
            "Leave out " + ", ".join(f"{{{name}=...}}" for name in asked) + ".",
        )
    return engine_for(engine, address, workers, alone=True) if asked else None


def parsed_config(given: Mapping[tuple[str, ...], Any], file: Path | None, settings: Sequence[str]) -> TrainConfig:
    """Return the config that options and a file give."""
    of_method = assignments(settings)
    values = nested(given) | ({"settings": of_method} if of_method else {})
    return TrainConfig.parse_all(merged(read_config(file) if file else {}, values))


def short_for(
    settings: Sequence[str] | None, extractor: str | None, encoder: str | None, allow_download: bool
) -> list[str]:
    """Return all settings of a method that a command is given, with those that options of their own stand for."""
    name = extractor or ("encoder" if encoder is not None else None)
    return [
        *(settings or []),
        *([f"extractor={name}"] if name else []),
        *([f"encoder.source={encoder}"] if encoder is not None else []),
        *(["encoder.allow_download=true"] if allow_download else []),
    ]


def read_plan(config: TrainConfig, *, smoke: bool) -> Plan:
    """Read and split the data, and show the progress if it takes long."""
    from multidomain.runs.plan import plan_run
    from multidomain.training.progress import progress_on

    reading = progress_on(err)
    try:
        with reported_to(reading.on_prepare):
            return plan_run(config, smoke=smoke)
    finally:
        reading.on_train_end()


def _resuming(arguments: Sequence[str]) -> str:
    """Return the command that resumes the run of a command.

    Examples
    --------
    >>> _resuming(["train", "my data.csv", "-o", "m", "--overwrite"])
    "multidomain train 'my data.csv' -o m --resume"
    """
    others = [argument for argument in arguments if argument not in ("--overwrite", "--resume")]
    return f"{_launched_by()} {shlex.join([*others, '--resume'])}"


def _launched_by() -> str:
    """Return how this command, or one of several processes like it, was started."""
    here, n = on_each_machine(), number_of_processes()
    if n == 1:
        return "multidomain"
    machines = "" if here == n else f"--nnodes {n // here} "
    return f"torchrun {machines}--nproc-per-node {here} -m multidomain"


def _callbacks(plan: Plan, tensorboard: Path | None, mlflow: str | None) -> list[Callback]:
    from multidomain.cli.notes import PrintNotes
    from multidomain.training.progress import progress_on
    from multidomain.training.tracking import MLflow, TensorBoard

    callbacks: list[Callback] = [progress_on(err), PrintNotes()]
    if tensorboard:
        callbacks.append(TensorBoard(tensorboard))
    if mlflow:
        callbacks.append(MLflow(mlflow, plan.folder.path.name, on_note=lambda note: print_notes([note])))
    return callbacks


def _show_plan(plan: Plan) -> None:
    """Show how the input was read."""
    from multidomain.cli import data_tables
    from multidomain.data.checks import summarise

    corpus, split = plan.corpus, plan.split
    if plan.smoke:
        err.print(f"smoke: one epoch on {counted(len(corpus), 'row')}; scores are meaningless", style="yellow")
    if corpus.columns:
        out.print("columns: " + ", ".join(f"{field} '{name}'" for field, name in corpus.columns.items()))
    out.print(data_tables.summary_table(summarise(corpus)))
    out.print(data_tables.split_table(corpus, split))
    for note in data_tables.split_notes(corpus, split):
        out.print(note, soft_wrap=True)


def _show_comparison(plan: Plan) -> None:
    first, *others = plan.config.auto.methods
    budget = f"{plan.config.auto.budget:g} minutes"
    err.print(f"auto: compares {first} with {', '.join(others)}, within {budget}", soft_wrap=True)


def _show_choice(choice: AutoChoice) -> None:
    out.print(f"auto chooses {choice.method}: {choice.reason}", soft_wrap=True)


def _show_outcome(outcome: TrainOutcome, plan: Plan) -> None:
    """Show the results and what to run next."""
    from multidomain.cli import render
    from multidomain.runs.folder import CONFIG

    result, config = outcome.result, outcome.config
    out.print(render.kept_line(result.best_epoch, result.epochs, result.chosen, result.seconds))
    if result.compaction:
        out.print(f"compact: {result.compaction}", soft_wrap=True)
    if result.test:
        out.print(render.evaluation_table(result.test, f"{config.method} on the test set of {plan.corpus.name}"))
    if result.unlabelled:
        out.print(render.unlabelled_table(result.unlabelled))
        for line in render.verdict_lines([one for one in result.unlabelled if not one.doubts]):  # others were noted
            out.print(line, soft_wrap=True)
    if result.invariance or config.run.requirements.shared_features:
        for line in render.invariance_lines(result.invariance_before, result.invariance):
            out.print(line, soft_wrap=True)
    folder = config.output
    out.print(f"model, metrics, log and settings ({CONFIG}): {folder}", soft_wrap=True)
    out.print(f"next: multidomain report {folder}    # an HTML report", soft_wrap=True)
    out.print(f"      multidomain predict {folder} FILE.csv -o predicted.csv", soft_wrap=True)
    out.print(f"      multidomain serve {folder}", soft_wrap=True)


def assignments(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse ``lam=0.1`` into a name and a value, and ``base_settings.C=1`` into nested ones."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ConfigError(f"--set takes NAME=VALUE, got '{pair}'.")
        *outer, last = [part.strip() for part in name.split(".")]
        inner = values
        for part in outer:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"--set gives '{part}' both a value and parts, in '{pair}'.")
        inner[last] = text.strip()
    return values
