"""The command ``multidomain reproduce``."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multidomain.cli.console import out, print_notes
from multidomain.cli.engines import bounded_by_memory, engine_for
from multidomain.cli.options import Address, Engine
from multidomain.cli.signals import stop_hint
from multidomain.errors import ConfigError, counted

if TYPE_CHECKING:
    from multidomain.engines.base import Engine as BaseEngine
    from multidomain.experiments.runner import Progress


def reproduce_command(
    table: Annotated[
        str,
        typer.Argument(
            help="table1, table2 or table3 of the paper; priors, priors-fdu, three-classes, target-labels or "
            "few-labels, on domains without labels or with a few; or the TOML file of a recipe of your own."
        ),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ROW", help="A system, method or category; may be repeated."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Such as 1-5 or 1,3; the table's own seeds by default.")] = None,
    split_seed: Annotated[
        int | None,
        typer.Option(min=0, help="Re-split the data with this seed, duplicates together; records go to another file."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", "--jobs", min=1, help="Runs at a time, one thread each; by default 1, on a cluster all it has."
        ),
    ] = None,
    engine: Engine = None,
    address: Address = None,
    results: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("results"),
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Each row once, one epoch on a few rows, to check that it works.")
    ] = False,
) -> None:
    """Run everything in a table that has no record yet; can be stopped and resumed at any time."""
    from multidomain.experiments.recipes import STUDIES, TABLES, table_name
    from multidomain.experiments.records import records_file
    from multidomain.experiments.runner import reproduce

    if smoke:
        results = results / "smoke"
        out.print("smoke: one epoch on a few rows; scores are meaningless and kept in a folder of their own")
    wanted = None if seeds is None else seed_numbers(seeds)
    where = engine_for(engine, address, workers, alone=True)
    with stop_hint("All records so far are kept; the same command goes on with the rest."):
        n = reproduce(
            table,
            results,
            only=only or (),
            seeds=wanted,
            split_seed=split_seed,
            engine=where,
            smoke=smoke,
            on_plan=partial(_show_plan, table_name(table), where),
            on_record=_show,
        )
    done = f"{counted(n, 'run')} recorded" if n else "nothing to run: every run has a record"
    file = records_file(results, table_name(table), split_seed)
    out.print(f"{table_name(table)}: {done} in {file}", soft_wrap=True)
    if table in (*TABLES, *STUDIES):
        out.print(f"next: multidomain report {results} -o results.md", soft_wrap=True)


def _show_plan(table: str, engine: BaseEngine, n_runs: int) -> None:
    if n_runs:
        print_notes(bounded_by_memory(engine))
        at_a_time = f", {engine.workers} at a time" if engine.workers else ""
        out.print(f"{table}: {counted(n_runs, 'run')} to do{at_a_time}; a line is printed as each ends")


def _show(progress: Progress) -> None:
    from multidomain.metrics import domain_mean

    record = progress.record
    test, dev = (100 * domain_mean(record[part].values()) for part in ("test", "dev"))
    left = timedelta(seconds=round(progress.seconds_left))
    out.print(
        f"{progress.done}/{progress.total}  {progress.run}: test {test:.2f}, dev {dev:.2f}, "
        f"{record['seconds']:.0f} s; about {left} left",
        soft_wrap=True,
    )


def seed_numbers(given: str) -> list[int]:
    """Turn ``1-3,7`` into 1, 2, 3, 7."""
    seeds: list[int] = []
    try:
        for part in given.split(","):
            first, dash, last = part.partition("-")
            of_part = range(int(first), int(last if dash else first) + 1)
            if not of_part:
                raise ValueError
            seeds += of_part
    except ValueError:
        raise ConfigError(f"--seeds is '{given}'; expected numbers such as 1-5 or 1,3,7.") from None
    return list(dict.fromkeys(seeds))
