"""Runs everything without a record, several runs at a time, and writes a record as each ends."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.code import check_code, code_hash
from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import Split
from multidomain.engines.base import Engine
from multidomain.engines.local import LocalEngine
from multidomain.experiments.protocols import SplitSpec
from multidomain.experiments.recipes import Recipe, Row, load_recipe, table_name
from multidomain.experiments.records import (
    Record,
    append_record,
    is_of,
    pack,
    read_records,
    records_file,
)
from multidomain.features.base import Documents
from multidomain.files import alone
from multidomain.metrics import accuracy, by_domain, calibration_error, macro_f1, rows_of_each
from multidomain.model.storage import is_model_folder
from multidomain.runs.machine import machine
from multidomain.runs.scoring import Scored, train_and_score
from multidomain.threads import use_threads

_SMOKE_ROWS = 2  # of each domain, part, fold and class


@dataclass(frozen=True)
class Run:
    """One training of one row."""

    table: str
    row: Row
    seed: int | None  # None: no randomness
    spec: SplitSpec
    smoke: bool = False  # on a few rows, to see whether everything works

    def __str__(self) -> str:
        seed = "" if self.seed is None else f" seed {self.seed}"
        spec = " ".join(str(v) for name, v in self.spec.items() if name != "split_seed" and v is not None)
        split = f", split seed {self.spec['split_seed']}" if "split_seed" in self.spec else ""
        return f"{table_name(self.table)} {self.row.name}{seed} {spec}{split}"

    def identity(self) -> dict[str, Any]:
        """Return the part of the record that is known before the run."""
        return {
            "table": table_name(self.table),
            "category": self.row.category,
            "system": self.row.system,
            "method": self.row.run_settings(0).entry.name,
            "extractor": self.row.extractor,
            "seed": self.seed,
            **self.spec,
            "config": self.row.run_settings(self.seed or 0).complete(),
        }

    def key(self, corpus: Corpus) -> str:
        """Return a name for what is kept of this run while it, or one that needs its model, is under way."""
        named = json.dumps([self.identity(), corpus.content_hash()], sort_keys=True)
        return hashlib.sha256(named.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Progress:
    """What is known when a run has ended."""

    run: Run
    record: Record
    done: int
    total: int
    seconds_left: float


def planned_runs(
    table: str, recipe: Recipe, only: Sequence[str], seeds: Sequence[int] | None, *, smoke: bool = False
) -> list[Run]:
    """Return all runs of some rows of a table, one seed of all rows before the next; for a smoke test one of each."""
    if smoke:
        quick = [row.model_copy(update={"training": {"max_epochs": 1}}) for row in recipe.only(only)]
        return [Run(table, row, 1 if row.is_random else None, recipe.split_specs(row)[0], smoke=True) for row in quick]
    runs = []
    for row in recipe.only(only):
        of_row = (seeds or range(1, row.seeds + 1)) if row.is_random else [None]
        runs += [Run(table, row, seed, spec) for seed in of_row for spec in recipe.split_specs(row)]
    return sorted(runs, key=lambda run: run.seed or 0)


def without_record(runs: Iterable[Run], records: Sequence[Record], data_hash: str) -> list[Run]:
    """Return the runs that no record of the same data is of."""
    of_data = [record for record in records if record["data"]["sha256"] == data_hash]
    missing = []
    for run in runs:
        identity = run.identity()
        if not any(is_of(record, identity) for record in of_data):
            missing.append(run)
    return missing


def reproduce(
    table: str,
    results: Path,
    *,
    only: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    split_seed: int | None = None,
    engine: Engine | None = None,
    smoke: bool = False,
    on_plan: Callable[[int], None] = lambda n_runs: None,
    on_record: Callable[[Progress], None] = lambda progress: None,
) -> int:
    """Run all that has no record yet in ``results/<table>.jsonl`` and return how many runs that was.

    With a `split_seed` it is a new split that all is run on, and ``results/<table>-split<seed>.jsonl`` has the records.
    A run that is killed resumes from its last checkpoint; a finished one is never repeated.

    Parameters
    ----------
    engine
        Where runs take place, one thread each, so that records do not depend on it; by default in one process of this
        machine. It is entered here, if there is anything to run.
    """
    path = records_file(results, table_name(table), split_seed)
    recipe = load_recipe(table).on_split(split_seed)
    planned = planned_runs(_anywhere(table), recipe, only, seeds, smoke=smoke)
    with alone(
        results / ".running" / f"{path.stem}.lock",
        f"Another 'multidomain reproduce' is running on {path.stem} in {results}.",
        "Wait for it, or give another folder ({results=FOLDER}).",
    ):
        corpus, _ = _corpus(recipe.experiment.corpus, smoke)  # here: what is missing is fetched once
        runs = without_record(planned, read_records(path), corpus.content_hash())
        on_plan(len(runs))
        if runs:
            with engine or LocalEngine(workers=1) as where:
                _run_all(_waves(runs, recipe), path, results.resolve() / ".running", where, on_record)
    return len(runs)


def _anywhere(table: str) -> str:
    """Return a table by a name that it also has in another working directory."""
    return str(Path(table).resolve()) if Path(table).suffix == ".toml" else table


def _waves(runs: Sequence[Run], recipe: Recipe) -> list[list[Run]]:
    """Order the runs of ensembles after those of their members."""
    waves: tuple[list[Run], list[Run]] = [], []
    for run in runs:
        waves[bool(recipe.members_of(run.row))].append(run)
    return [wave for wave in waves if wave]


def _run_all(
    waves: Sequence[Sequence[Run]], path: Path, work: Path, engine: Engine, on_record: Callable[[Progress], None]
) -> None:
    runs = [run for wave in waves for run in wave]
    clock = _Clock(runs, read_records(path), engine.at_a_time)
    done = 0
    for wave in waves:
        failed: Exception | None = None
        not_begun = (run for run in wave if failed is None)  # runs under way end and are recorded
        for outcome in engine.map(partial(_execute, code_hash(), work), not_begun):
            if outcome.error is not None:
                failed = failed or outcome.error
                continue
            append_record(path, outcome.value)
            done += 1
            left = clock.left_after(outcome.task, outcome.value)
            on_record(Progress(outcome.task, outcome.value, done, len(runs), left))
        if failed is not None:
            raise failed


def _execute(code: str, work: Path, run: Run) -> Record:
    """Execute a run in a worker, if that has the code of the driver."""
    check_code(code)
    use_threads(1)
    return execute(run, work)


class _Clock:
    """Estimates the remaining time from the duration of runs of the same row."""

    def __init__(self, runs: Sequence[Run], records: Sequence[Record], workers: int):
        self._waiting = [run.row.name for run in runs]
        self._workers = workers
        self._took: dict[str, list[float]] = {}
        for record in records:
            self._took.setdefault(f"{record['category']}/{record['system']}", []).append(record["seconds"])

    def left_after(self, run: Run, record: Record) -> float:
        self._waiting.remove(run.row.name)
        self._took.setdefault(run.row.name, []).append(record["seconds"])
        every = float(np.mean([seconds for row in self._took.values() for seconds in row]))
        expected = [float(np.mean(self._took.get(name, [every]))) for name in self._waiting]
        return sum(expected) / self._workers


def execute(run: Run, work: Path) -> Record:
    """Train and score one run and return its record.

    `work` holds the checkpoints of runs that were stopped, and the models that an ensemble of the table waits for.
    """
    recipe = load_recipe(run.table)
    corpus, documents = _corpus(recipe.experiment.corpus, run.smoke)
    split = recipe.experiment.split(corpus, run.spec)
    checkpoint = work / f"{run.key(corpus)}.safetensors"
    members = [_kept_model(replace(run, row=row), corpus, work) for row in recipe.members_of(run.row)]
    settings = run.row.run_settings(run.seed or 0)
    if members and all(is_model_folder(folder) for folder in members):
        saved = {"members": [{"folder": str(folder)} for folder in members]}
        settings = settings.model_copy(update={"method_settings": saved})
    began, began_cpu = time.monotonic(), time.process_time()
    scored = train_and_score(corpus, split, settings, device="cpu", checkpoint_path=checkpoint, documents=documents)
    seconds, cpu_seconds = time.monotonic() - began, time.process_time() - began_cpu
    history = scored.trained.history
    seconds, cpu_seconds = seconds + history.earlier[0], cpu_seconds + history.earlier[1]
    if any(run.row in recipe.members_of(row) for row in recipe.rows):
        scored.trained.model.save(_kept_model(run, corpus, work))
    for path in work.glob(f"{checkpoint.stem}*.safetensors"):  # an ensemble has one for each member
        path.unlink()
    for folder in members:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        **run.identity(),
        "split": split.rule,
        "chosen": history.chosen,
        "class_priors": {name: asdict(prior) for name, prior in history.class_priors.items()},
        "best_epoch": history.best_epoch or None,
        "epochs": len(history.epochs) or None,
        **_scores(scored, corpus, split),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "data": {"name": corpus.name, "sha256": corpus.content_hash()},
        "code": code_hash(),
        "machine": machine(),
    }


def _kept_model(run: Run, corpus: Corpus, work: Path) -> Path:
    """Return where a model waits for the ensemble that joins it; one of other code is not joined."""
    return work / f"{run.key(corpus)}-{code_hash()[:8]}"


@cache
def _corpus(name: str, smoke: bool) -> tuple[Corpus, Documents]:
    """Return a corpus and its documents, which the runs of a process analyse once."""
    corpus = load_corpus(name)
    if smoke:
        corpus = corpus.thinned(_SMOKE_ROWS)
    return corpus, Documents(corpus.documents)


def _scores(scored: Scored, corpus: Corpus, split: Split) -> dict[str, Any]:
    """Accuracy by domain on dev, test and clean test rows, and the predictions for all test rows."""
    classes = scored.trained.model.classes
    dev_y, y = (np.array([classes.index(c) for c in corpus.labels[rows]]) for rows in (split.dev, split.test))
    dev_predicted, predicted = scored.dev.argmax(axis=1), scored.test.argmax(axis=1)
    domains = corpus.domains[split.test]
    here = rows_of_each(domains)
    names = [name for name in corpus.domain_names if name in here]
    clean = np.isin(split.test, split.clean_test(corpus))
    return {
        "classes": list(classes),
        "dev": by_domain(accuracy, dev_y, dev_predicted, corpus.domains[split.dev]),
        "test": by_domain(accuracy, y, predicted, domains),
        "macro_f1": by_domain(macro_f1, y, predicted, domains),
        "calibration_error": by_domain(calibration_error, y, scored.test, domains),
        "clean": by_domain(accuracy, y[clean], predicted[clean], domains[clean]),
        "clean_rows": {name: int(clean[here[name]].sum()) for name in names},
        "predictions": {name: pack(predicted[here[name]]) for name in names},
        "truth": {name: pack(y[here[name]]) for name in names},
    }
