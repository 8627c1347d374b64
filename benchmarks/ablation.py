"""What each part of `sped` is worth on test rows: the method as it is, and without one part at a time.

Appends a record for each run to ``results/ablation.jsonl`` (runs that have one are not repeated), and writes the table
into ``docs/experiments.md``, where what the parts are worth on development rows stands too. Nothing is chosen by it.

    python benchmarks/ablation.py            # all three tables: some 20 minutes on one core
    python benchmarks/ablation.py --only table1
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from multidomain.code import code_hash
from multidomain.data.named.registry import load_corpus
from multidomain.evaluation.evaluate import evaluate_corpus
from multidomain.experiments.protocols import PROTOCOLS
from multidomain.experiments.records import append_record, is_of, read_records
from multidomain.runs.machine import machine
from multidomain.threads import use_threads
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "ablation.jsonl"
PAGE = ROOT / "docs" / "experiments.md"

TABLES = {"table1": "five-fold", "table2": "unlabelled-target", "table3": "given-parts"}
IN_TABLE_2 = {"selection": "source-dev", "target_text": "test"}
EVERYWHERE: dict[str, dict[str, Any]] = {
    "`sped`": {},
    "without evidence": {"evidence": 0},
    "without the denoised view": {"denoised": 0},
    "without private weights": {"private": 0},
}
WITHOUT_LABELS = {"without own answers": {"rounds": 0}, "with the labelled class prior": {"class_priors": "labelled"}}


def measure(table: str) -> None:
    protocol = PROTOCOLS[TABLES[table]]
    corpus = load_corpus(protocol.corpus)
    split_specs = [
        p for p in protocol.split_specs(reads_text=True) if table != "table2" or IN_TABLE_2.items() <= p.items()
    ]
    for variant, settings in (EVERYWHERE | (WITHOUT_LABELS if table == "table2" else {})).items():
        run = RunSettings(method="sped", method_settings=settings)
        for spec in split_specs:
            identity = {"place": {"table": table, **spec}, "data": corpus.content_hash(), "config": run.complete()}
            if any(is_of(past, identity) for past in read_records(RESULTS)):
                continue
            split = protocol.split(corpus, spec)
            trained = train_model(corpus, split, run)
            scores, _ = evaluate_corpus(trained.model, corpus, split.test)
            test = {score.domain: score.accuracy for score in scores.domains}
            measured = {"variant": variant, "chosen": trained.history.chosen, "test": test}
            append_record(RESULTS, {**identity, **measured, "code": code_hash(), "machine": machine()})
            print(f"{table} {variant} {spec}: {100 * np.mean(list(test.values())):.2f}", flush=True)


def table_of_records() -> str:
    """Return the table: mean over runs of the mean over domains."""
    reached: dict[tuple[str, str], list[float]] = {}
    for record in read_records(RESULTS):
        cell = record["variant"], record["place"]["table"]
        reached.setdefault(cell, []).append(100 * float(np.mean(list(record["test"].values()))))
    lines = ["| | " + " | ".join(name.replace("table", "Table ") for name in TABLES) + " |", "|---|---:|---:|---:|"]
    for variant in EVERYWHERE | WITHOUT_LABELS:
        missing = "has none" if variant in WITHOUT_LABELS else ""
        cells = [reached.get((variant, table)) for table in TABLES]
        lines.append(f"| {variant} | " + " | ".join(f"{np.mean(c):.2f}" if c else missing for c in cells) + " |")
    return "\n".join(lines)


def main(only: Annotated[list[str] | None, typer.Option()] = None) -> None:
    use_threads(1)
    for table in only or TABLES:
        measure(table)
    page = PAGE.read_text(encoding="utf-8")
    mark = "<!-- ablation -->"
    page = re.sub(f"{mark}.*?{mark}", lambda _: f"{mark}\n{table_of_records()}\n{mark}", page, flags=re.DOTALL)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
