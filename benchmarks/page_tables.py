"""Write the tables of the pages that have measurements from the records in ``results/``.

A table stands between two comments that name it; the text around it is left alone.

    python benchmarks/page_tables.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from scipy import stats

ROOT = Path(__file__).parents[1]


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / "results" / name).read_text().splitlines()]


def training() -> str:
    lines = [
        "| domains | an iteration, CPU | textbook | ratio (least to most) | peak memory |",
        "|---:|---:|---:|---:|---:|",
    ]
    train = [r for r in records("bench.jsonl") if r["benchmark"] == "train"]
    train = [r for r in train if r["settings"].get("extractor", "mlp") == "mlp"]
    latest = {r["n_domains"]: r for r in train if r["settings"]["private_hidden"] is None and "engine_cpu_seconds" in r}
    for n_domains, r in sorted(latest.items()):
        engine, textbook = (1000 * median(r[key]) for key in ("engine_cpu_seconds", "textbook_cpu_seconds"))
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
    latest = {r["method"]: r for r in records("bench.jsonl") if r["benchmark"] == "predict" and "method" in r}
    lines = [
        "| | rows/s | scikit-learn | ratio | with two threads | peak memory by rows of the file |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for method, r in latest.items():
        ours, theirs = (r["rows"] / median(r[key]["cpu_seconds"]) for key in ("one_thread", "sklearn"))
        memory = ", ".join(f"{point['rows']:,}: {point['peak_mb']:.0f} MB" for point in r["memory"])
        speed = f"{ours:,.0f} | {theirs:,.0f} | {r['ratio']:.1f} | {r['two_threads_ratio']:.2f} times as fast"
        lines.append(f"| `{method}` on `{r['data']}` | {speed} | {memory} |")
    return "\n".join(lines)


def recommended() -> str:
    lines = ["| | | wall time | peak memory |", "|---|---|---:|---:|"]
    latest = {(r["corpus"], r["system"]): r for r in records("cost.jsonl")}
    for (corpus, system), r in sorted(latest.items(), key=lambda entry: entry[0]):
        lines.append(f"| {corpus} | `{system}` | {r['seconds']:.0f} s | {r['peak_mb'] / 1024:.1f} GB |")
    return "\n".join(lines)


def default_method() -> str:
    lines = [
        "| rows | words | domains | | CPU time | ratio | wall time | peak memory | accuracy |",
        "|---:|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    measured = [r for r in records("bench.jsonl") if r["benchmark"] == "default"]
    latest = {(r["words"], r["domains"], r["rows"]): r for r in measured}
    for (n_words, domains, rows), r in sorted(latest.items(), key=lambda entry: (-entry[0][0], *entry[0][1:])):
        for name, key in (("`sped`", "ours"), ("scikit-learn", "sklearn")):
            cpu, wall, peak = (median(cost[k] for cost in r[key]) for k in ("cpu_seconds", "seconds", "peak_mb"))
            what = f"| {rows:,} | {n_words} | {domains} " if key == "ours" else "| | | "
            ratio = f"{r['ratio']:.2f}" if key == "ours" else ""
            correct = 100 * r[key][0]["accuracy"]
            lines.append(f"{what}| {name} | {cpu:.1f} s | {ratio} | {wall:.1f} s | {peak:,.0f} MB | {correct:.2f} |")
    return "\n".join(lines)


def large() -> str:
    lines = ["| rows | | CPU time | wall time | peak memory, own | with files |", "|---:|---|---:|---:|---:|---:|"]
    latest = {r["rows"]: r for r in records("bench.jsonl") if r["benchmark"] == "large"}
    for rows, r in sorted(latest.items()):
        for step in ("train", "predict"):
            cost, what = r[step], f"{rows:,}" if step == "train" else ""
            memory = f"{cost['peak_own_mb'] / 1024:.1f} GB | {cost['peak_mb'] / 1024:.1f} GB"
            lines.append(f"| {what} | `{step}` | {cost['cpu_seconds']:,.0f} s | {cost['seconds']:,.0f} s | {memory} |")
    return "\n".join(lines)


def labels_saved() -> str:
    """Mean curves over targets and draws; the interval is that of the draws."""
    on_targets = [r for r in records("label_next.jsonl") if "target" in r["place"]]
    labels = on_targets[-1]["labels"]
    curves: dict[str, dict[int, list[list[float]]]] = {}
    for r in on_targets:
        if r["labels"] == labels:
            curves.setdefault(r["rule"], {}).setdefault(r["place"]["draw"], []).append(r["accuracy"])
    lines = ["| labels | " + " | ".join(map(str, labels)) + " |", "|---|" + "---:|" * len(labels)]
    of_draw = {
        rule: [[100 * mean(column) for column in zip(*draw, strict=True)] for _, draw in sorted(draws.items())]
        for rule, draws in curves.items()
    }
    of_draw["difference"] = [
        [ours - random for ours, random in zip(*pair, strict=True)]
        for pair in zip(of_draw["label-next"], of_draw["random"], strict=True)
    ]
    for rule, draws in of_draw.items():
        cells = []
        for column in zip(*draws, strict=True):
            half = float(stats.t.ppf(0.975, len(column) - 1)) * stdev(column) / len(column) ** 0.5
            cells.append(f"{mean(column):.2f} ± {half:.2f}")
        lines.append(f"| {rule} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def newest(what: str) -> list[dict[str, Any]]:
    """Return the newest record of each kind of fault run."""
    found = {}
    for record in records("reliability.jsonl"):
        if record["what"] == what:
            found[tuple(record.get(name) for name in ("kind", "workers", "address"))] = record
    return list(found.values())


def killed_runs() -> str:
    lines = ["| run | kills in a new folder | over an old run | ended with the same bits |", "|---|---:|---:|---:|"]
    total = 0
    for record in newest("killed-runs"):
        folders = record.get("folders", {})
        cells = [
            f"{folders[where]['kills']} (of {folders[where]['of']} operations)"
            for where in ("in a new folder", "over an old run")
            if where in folders
        ] or [f"{record['kills']} (at random moments)", ""]
        kills = record.get("kills") or sum(folder["kills"] for folder in folders.values())
        total += kills
        lines.append(f"| `{record['kind']}` | {' | '.join(cells)} | {kills if record['exact'] else 'no'} |")
    return "\n".join([*lines, f"| all | | | {total} |"])


def fuzzed_inputs() -> str:
    lines = ["| input | read | refused with a message | anything else |", "|---|---:|---:|---:|"]
    (record,) = newest("fuzzed-inputs")
    for name, counts in record["readers"].items():
        lines.append(f"| {name} | {counts['read']:,} | {counts['refused']:,} | {counts['faults']} |")
    read, refused = (sum(counts[key] for counts in record["readers"].values()) for key in ("read", "refused"))
    return "\n".join([*lines, f"| all {record['inputs']:,} | {read:,} | {refused:,} | {record['tracebacks']} |"])


def service_load() -> str:
    lines = [
        "| workers | clients | reloads | requests | lost | wrong | median | 99 % below |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for r in newest("service-load"):
        lines.append(
            f"| {r['workers']} | {r['clients']} for {r['seconds']:.0f} s | {r['reloads']} | {r['requests']:,} | "
            f"{r['lost']} | {r['wrong']} | {r['p50_ms']:.0f} ms | {r['p99_ms']:.0f} ms |"
        )
    return "\n".join(lines)


def service_attacks() -> str:
    lines = [
        "| workers | attack from | slow heads | held bodies | honest requests | lost | wrong | 99 % below | log |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for r in newest("service-slow-clients"):
        address = "other addresses" if r["address"] == "others" else "the same address"
        lines.append(
            f"| {r['workers']} | {address} | {r['slow_heads']:,} | {r['held_bodies']} | {r['requests']:,} "
            f"| {r['lost']} | {r['wrong']} | {r['p99_ms']:.0f} ms | {r['log_bytes']} bytes |"
        )
    (memory,) = newest("service-memory")
    first, *_, last = memory["memory_mb"]
    flat = f"Over {memory['requests']:,} requests memory went from {first:.1f} to {last:.1f} MB."
    return "\n".join([*lines, "", flat])


def compact() -> str:
    lines = ["| `--compact` | n-grams | size | test accuracy | predictions changed |", "|---:|---:|---:|---:|---:|"]
    latest = {r["settings"]["objective"]["compact"]: r for r in records("compact.jsonl")}
    whole = next(iter(latest.values()))
    rows = [("–", 0, {**whole, "test_changed": 0}), *((f"{share:g}", 1, r) for share, r in sorted(latest.items()))]
    for share, after, r in rows:
        inputs, n_bytes, correct = (r[key][after] for key in ("inputs", "n_bytes", "test_accuracy"))
        changed = f"{r['test_changed']:,} of {r['split']['rows']['test']:,}"
        lines.append(f"| {share} | {inputs:,} | {n_bytes / 1e6:.1f} MB | {100 * correct:.2f} | {changed} |")
    return "\n".join(lines)


def scale(what: str) -> dict[Any, dict[str, Any]]:
    """Return the newest record of each kind of run on engines."""
    found = [r for r in records("scale.jsonl") if r["what"] == what]
    return {tuple(r.get(name) for name in ("engine", "workers", "killed", "domains")): r for r in found}


def throughput() -> str:
    (alone,) = scale("predict-alone").values()
    lines = [
        "| engine | workers | wall time | first file after | from then on, rows/s | lost | doubled | same as alone |",
        "|---|---|---:|---:|---:|---:|---:|---|",
        f"| one process, one file | | {alone['seconds']:.0f} s | | | | | |",
    ]
    for r in scale("predict").values():
        workers = f"{r['workers']}, one killed" if r["killed"] else r["workers"]
        speed = r["rows"] * (1 - 1 / r["partitions"]) / (r["last_seconds"] - r["first_seconds"])
        took = f"{r['seconds']:.0f} s | {r['first_seconds']:.0f} s | {speed:,.0f}"
        same = "yes" if r["equal"] else "no"
        lines.append(f"| `{r['engine']}` | {workers} | {took} | {r['lost']} | {r['doubled']} | {same} |")
    return "\n".join([f"{alone['rows']:,} rows:", "", *lines])


def engine_cost() -> str:
    lines = ["| engine | start | first task | each empty task |", "|---|---:|---:|---:|"]
    for r in scale("tasks").values():
        took = f"{r['start_seconds']:.1f} s | {r['first_seconds']:.1f} s | {r['task_ms']:.1f} ms"
        lines.append(f"| `{r['engine']}` | {took} |")
    return "\n".join(lines)


def same_table() -> str:
    lines = ["| | runs | wall time | same records |", "|---|---:|---:|---|"]
    for r in scale("table").values():
        lines.append(f"| {r['engine']} | {r['runs']} | {r['seconds']:.0f} s | {'yes' if r['same'] else 'no'} |")
    return "\n".join(lines)


def many_domains_trained() -> str:
    lines = ["| domains | rows | wall time | peak memory | model |", "|---:|---:|---:|---:|---:|"]
    for r in scale("domains").values():
        took = f"{r['seconds']:.0f} s | {r['peak_mb'] / 1024:.1f} GB | {r['model_bytes'] / 1e6:.1f} MB"
        lines.append(f"| {r['domains']:,} | {r['rows']:,} | {took} |")
    return "\n".join(lines)


def unit_costs() -> str:
    """What a billion rows take, from what was measured on fewer."""
    (alone,) = scale("predict-alone").values()
    large = max((r for r in records("bench.jsonl") if r["benchmark"] == "large"), key=lambda r: r["rows"])
    rows, texts = alone["rows"], f"{large['words']} words a row, one core"
    predicting, training = (1e6 * large[step]["cpu_seconds"] / large["rows"] for step in ("predict", "train"))
    memory = 1024 * large["train"]["peak_own_mb"] / large["rows"]
    measured = [
        (f"prediction, {texts}", predicting, "µs a row", 1 / 3.6, "hours"),
        ("input", alone["bytes_in"] / rows, "bytes a row", 1, "GB"),
        ("output", alone["bytes_out"] / rows, "bytes a row", 1, "GB"),
        (f"training of `sped`, {texts}", training, "µs a row", 1 / 3.6, "hours"),
        ("the same, memory", memory, "kB a row", 1, "TB"),
    ]
    lines = ["| | measured | a billion rows |", "|---|---:|---:|"]
    lines += [f"| {name} | {x:.1f} {unit} | {factor * x:,.0f} {total} |" for name, x, unit, factor, total in measured]
    return "\n".join(lines)


def tuned() -> str:
    path = ROOT / "results" / "tune_study.jsonl"
    if not path.exists():
        return "Not recorded yet: `python benchmarks/tune_study.py`."
    r = records(path.name)[-1]
    states = [one["state"] for one in r["trials"]]
    names = list(r["trials"][-1]["values"])
    lines = [
        f"`{' '.join(r['command'][:-4])}`, killed when {' and '.join(map(str, r['killed_after']))} trials had ended: "
        f"{len(states)} trials, {states.count('complete')} complete and {states.count('pruned')} pruned, in "
        f"{r['seconds'] / 60:.0f} minutes. Dev accuracy {100 * r['dev_best']:.2f} against {100 * r['dev_default']:.2f} "
        f"without a search; trained again with `best.toml` it reaches {100 * r['dev_trained']:.2f}.",
        "",
        f"| trial | dev | {' | '.join(names)} |",
        "|---:|---:|" + "---:|" * len(names),
    ]
    best_first = sorted((one for one in r["trials"] if one["state"] == "complete"), key=lambda one: -one["score"])
    for one in [*best_first[:5], *(one for one in best_first[5:] if one["number"] == 0)]:
        values = " | ".join(f"{one['values'][name]:.4g}" for name in names)
        lines.append(f"| {one['number']} | {100 * one['score']:.2f} | {values} |")
    return "\n".join([*lines, "", "![scores of the trials](images/tune-study.svg)"])


def encoder_cost() -> str:
    lines = [
        "| domains | private features | frozen layers | a row, CPU | beside one domain | peak memory |",
        "|---:|---|---:|---:|---:|---:|",
    ]
    latest = {(r["private"], r.get("frozen_layers"), r["domains"]): r for r in records("encoder_cost.jsonl")}
    for (private, frozen, domains), r in latest.items():
        row, alone = (
            min(one["cpu_seconds"]) / one["rows"] if one else 0.0 for one in (r, latest.get((private, frozen, 1)))
        )
        ratio = f"{row / alone:.2f}" if alone else ""
        memory = f"{r['peak_mb'] / 1024:.1f} GB"
        lines.append(f"| {domains} | `{private}` | {frozen or 'none'} | {1000 * row:.0f} ms | {ratio} | {memory} |")
    return "\n".join(lines)


TABLES = {
    "speed.md": (training, words, accuracy, many_domains, default_method, recommended, large, prediction),
    "reliability.md": (killed_runs, fuzzed_inputs, service_load, service_attacks),
    "label-next.md": (labels_saved,),
    "onnx.md": (compact,),
    "scale.md": (throughput, engine_cost, same_table, many_domains_trained, unit_costs),
    "tune.md": (tuned,),
    "encoders.md": (encoder_cost,),
}


def written(page: Path) -> str:
    """Return a page with its tables made anew."""
    text = page.read_text(encoding="utf-8")
    for table in TABLES[page.name]:
        mark = f"<!-- {table.__name__} -->"
        text, n = re.subn(f"{mark}.*?{mark}", lambda _, t=table, m=mark: f"{m}\n{t()}\n{m}", text, flags=re.DOTALL)
        assert n == 1, f"{page.name} has {n} places for {table.__name__}"
    return text


if __name__ == "__main__":
    for name in TABLES:
        page = ROOT / "docs" / name
        page.write_text(written(page), encoding="utf-8")
