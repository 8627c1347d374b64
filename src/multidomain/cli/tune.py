"""The command ``multidomain tune``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
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
from multidomain.cli.train import SHOW, parsed_config, read_plan, short_for
from multidomain.errors import ConfigError, Note, counted
from multidomain.files import whole_file
from multidomain.runs.config import train_options

if TYPE_CHECKING:
    from multidomain.tuning.folder import StudyFolder
    from multidomain.tuning.trial import TrialRecord
    from multidomain.tuning.tune import Progress, Study

_OPTIONS = [one for one in train_options() if one.path[0] != "auto"]
_SHOW = SHOW | {
    "output": {"names": ["--output", "-o"], "help": "Folder of the study."},
    "method": {"help": "See 'multidomain methods', or FILE.py:Class."},
}


@with_options(_OPTIONS, _SHOW)
def tune_command(
    given: Mapping[tuple[str, ...], Any],
    config: ConfigFile = None,
    settings: MethodSettings = None,
    extractor: Extractor = None,
    encoder: Encoder = None,
    allow_download: AllowDownload = False,
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="A setting to search, of the method, of training or of features: lr=1e-5..1e-2:log, dropout=0..0.7 "
            "or k=1,2,5 (with | between choices that hold commas). By default all that declare a range.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Number of trials; a finished study goes on with more.")] = 30,
    engine: Engine = None,
    address: Address = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Trials at a time; by default 1, on a cluster as many as it can.")
    ] = None,
    no_pruning: Annotated[
        bool, typer.Option("--no-pruning", help="Do not stop trials that fall behind the others.")
    ] = False,
    show: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Show the study in a folder, and stop.", show_default=False)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the study in the folder.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Two trials of one epoch on a few rows, to check that it works.")
    ] = False,
) -> None:
    """Search for settings of a method with a better dev score, and write them to a file for 'multidomain train'.

    The first trial has the settings without a search. Test data decides nothing. The same command goes on with a study
    that was stopped.
    """
    from multidomain.tuning.folder import StudyFolder
    from multidomain.tuning.tune import check_tunable, plan_study, tune

    if show is not None:
        _show_study(StudyFolder(show))
        return
    parsed = parsed_config(given, config, short_for(settings, extractor, encoder, allow_download))
    check_tunable(parsed)
    where = engine_for(engine, address, workers, alone=True)
    plan = read_plan(parsed, smoke=smoke)
    print_notes(bounded_by_memory(where))
    study = plan_study(plan, search or [], 2 if smoke else trials, prune=not no_pruning)
    if smoke:
        err.print("smoke: one epoch on a few rows; scores are meaningless", style="yellow")
    with stop_hint("All trials so far are kept; the same command goes on with the rest."):
        tune(
            study,
            engine=where,
            overwrite=overwrite,
            on_plan=lambda n_trials: _show_plan(study, n_trials, where.workers),
            on_note=lambda note: print_notes([note]),
            on_trial=_show_trial,
        )
    _show_study(study.folder)


def _show_plan(study: Study, n_trials: int, workers: int | None) -> None:
    out.print("search: " + "; ".join(f"{one.name} in {one.spec}" for one in study.space), soft_wrap=True)
    if n_trials:
        at_a_time = f", {workers} at a time" if workers else ""
        out.print(f"{counted(n_trials, 'trial')} to do{at_a_time}; a line is printed as each ends")


def _show_trial(progress: Progress) -> None:
    from multidomain.tuning.trial import shown_values

    one, best = progress.record, progress.best
    score = one.state if one.score is None else f"{one.state}, dev {100 * one.score:.2f}"
    so_far = f"best {100 * (best.score or 0):.2f} (trial {best.number})" if best else "none is complete"
    left = timedelta(seconds=round(progress.seconds_left))
    out.print(
        f"{progress.done}/{progress.total}  trial {one.number}: {score}, {one.seconds:.0f} s, "
        f"{shown_values(one.values) or 'defaults'}; {so_far}; about {left} left",
        soft_wrap=True,
    )


def _show_study(folder: StudyFolder) -> None:
    """Show the trials, what was gained, and the plot."""
    from multidomain.cli.render import trials_table
    from multidomain.report.study_plot import plot_trials
    from multidomain.tuning.folder import BEST, PLOT

    asked = folder.asked()
    records = folder.journal().records()
    out.print(trials_table(records, list(asked.search), asked.metric, str(folder.path)))
    for one in records:
        if one.error:
            out.print(f"trial {one.number} failed: {one.error}", soft_wrap=True)
    for line in _comparison(records, asked.metric):
        out.print(line, soft_wrap=True)
    try:
        plot = plot_trials(records, asked)
    except ConfigError as error:
        print_notes([Note(error.message, error.hint)])
    else:
        with whole_file(folder.path / PLOT) as temporary:
            temporary.write_bytes(plot)
        out.print(f"plot: {folder.path / PLOT}", soft_wrap=True)
    if (folder.path / BEST).exists():
        out.print(f"next: multidomain train --config {folder.path / BEST}", soft_wrap=True)


def _comparison(records: list[TrialRecord], metric: str) -> list[str]:
    """Say what the best settings are, and how much better than those without a search."""
    from multidomain.tuning.folder import best_of
    from multidomain.tuning.trial import shown_values

    best = best_of(records)
    if best is None or best.score is None:
        return ["no trial is complete"]
    first = records[0].score
    if not best.number:
        gain = "no trial is better than trial 0, which has the settings without a search"
    elif records[0].state == "complete" and first is not None:
        points = f"{100 * (best.score - first):.2f} points better than trial 0 ({100 * first:.2f})"
        gain = f"{points}, which has the settings without a search"
    else:
        gain = "trial 0, which has the settings without a search, is not complete"
    values = shown_values(best.values) or "defaults"
    return [f"best: trial {best.number}, dev {metric} {100 * best.score:.2f}, {values}", gain]
