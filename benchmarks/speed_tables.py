"""Write the tables of ``docs/speed.md`` from the records in ``results/``.

A table stands between two comments that name it; the text around it is left alone.

    python benchmarks/speed_tables.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "speed.md"


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / "results" / name).read_text().splitlines()]


def training() -> str:
    lines = [
        "| domains | an iteration | textbook | ratio (least to most) | peak memory |",
        "|---:|---:|---:|---:|---:|",
    ]
    train = [r for r in records("bench.jsonl") if r["benchmark"] == "train"]
    train = [r for r in train if r["settings"].get("extractor", "mlp") == "mlp"]
    latest = {r["n_domains"]: r for r in train if r["settings"]["private_hidden"] is None}
    for n_domains, r in sorted(latest.items()):
        engine, textbook = (1000 * median(r[key]) for key in ("engine_seconds", "textbook_seconds"))
        spread = f"{r['ratio']:.1f} ({r['ratios'][0]:.1f} to {r['ratios'][-1]:.1f})"
        memory = f"{r['peak_mb'] / 1024:.1f} GB"
        lines.append(f"| {n_domains} | {engine:.0f} ms | {textbook:,.0f} ms | {spread} | {memory} |")
    return "\n".join(lines)


def words() -> str:
    train = [r for r in records("bench.jsonl") if r["benchmark"] == "train"]
    r = [r for r in train if r["settings"].get("extractor") == "cnn"][-1]
    engine, textbook = (1000 * median(r[key]) for key in ("engine_seconds", "textbook_seconds"))
    return (
        f"Measured on the texts of FDU-MTL, {r['n_domains']} domains: {engine:.0f} ms an iteration, textbook "
        f"{textbook:,.0f} ms, {r['ratio']:.1f} times as fast ({r['ratios'][0]:.1f} to {r['ratios'][-1]:.1f}), peak "
        f"memory {r['peak_mb'] / 1024:.1f} GB."
    )


def many_domains() -> str:
    train = [r for r in records("bench.jsonl") if r["benchmark"] == "train"]
    r = [r for r in train if r["settings"]["private_hidden"]][-1]
    sizes = ", ".join(map(str, r["settings"]["private_hidden"]))
    milliseconds, gigabytes = 1000 * median(r["engine_seconds"]), r["peak_mb"] / 1024
    return (
        f"Measured with {r['n_domains']} domains and `private_hidden={sizes}`: {milliseconds:,.0f} ms an iteration, "
        f"peak memory {gigabytes:.1f} GB."
    )


def accuracy() -> str:
    lines = ["| | test accuracy, mean (range) | seeds |", "|---|---:|---:|"]
    by_variant: dict[str, list[float]] = {}
    for r in records("engine_accuracy.jsonl"):
        by_variant.setdefault(r["variant"], []).append(100 * r["test_accuracy"])
    for variant, values in sorted(by_variant.items()):
        lines.append(f"| {variant} | {mean(values):.2f} ({min(values):.2f} to {max(values):.2f}) | {len(values)} |")
    return "\n".join(lines)


def prediction() -> str:
    r = [r for r in records("bench.jsonl") if r["benchmark"] == "predict"][-1]
    ours, theirs = (r["rows"] / median(r[key]) for key in ("seconds", "sklearn_seconds"))
    memory = ", ".join(f"{point['rows']:,} rows {point['peak_mb']:.0f} MB" for point in r["memory"])
    last = r["memory"][-1]
    return (
        f"- {r['rows']:,} rows of `{r['data']}`: {ours:,.0f} rows/s, scikit-learn {theirs:,.0f} rows/s, ratio "
        f"{r['ratio']:.2f}.\n- Peak memory of `multidomain predict` by size of the file: {memory}; "
        f"{last['rows']:,} rows took {last['seconds']:.0f} s."
    )


def recommended() -> str:
    lines = ["| | | wall time | peak memory |", "|---|---|---:|---:|"]
    latest = {(r["corpus"], r["system"]): r for r in records("cost.jsonl")}
    for (corpus, system), r in sorted(latest.items(), key=lambda entry: entry[0]):
        lines.append(f"| {corpus} | `{system}` | {r['seconds']:.0f} s | {r['peak_mb'] / 1024:.1f} GB |")
    return "\n".join(lines)


def written(page: str) -> str:
    """Return the page with its tables made anew."""
    for table in (training, words, accuracy, many_domains, recommended, prediction):
        mark = f"<!-- {table.__name__} -->"
        page = re.sub(f"{mark}.*?{mark}", lambda _, t=table, m=mark: f"{m}\n{t()}\n{m}", page, flags=re.DOTALL)
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
