"""The command ``multidomain bench``."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from multidomain.cli.console import out
from multidomain.errors import ConfigError

app = typer.Typer(help="Measure this machine.", no_args_is_help=True)

Output = Annotated[Path, typer.Option("--output", "-o", help="JSON lines, one record per measurement, appended.")]
Repeats = Annotated[int, typer.Option(min=1, help="Number of repeats.")]


def _numbers(text: str) -> list[int]:
    try:
        return [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"Expected numbers separated by commas, got '{text}'.") from None


def _record(output: Path, record: dict[str, Any]) -> None:
    from multidomain.runs.machine import machine

    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**record, "machine": machine()}) + "\n")


@app.command()
def train(
    domains: Annotated[str, typer.Option(help="Numbers of domains.")] = "2,4,8,16,32,64",
    repeats: Repeats = 5,
    extractor: Annotated[str, typer.Option(help="mlp, on generated counts; or cnn, on the texts of FDU-MTL.")] = "mlp",
    private_hidden: Annotated[str | None, typer.Option(help="Hidden layers of the private extractors.")] = None,
    textbook: Annotated[bool, typer.Option(help="Measure the textbook too; it needs more memory.")] = True,
    output: Output = Path("results/bench.jsonl"),
) -> None:
    """Training: iterations per second beside the textbook's Algorithm 1, at the paper's sizes, with one thread."""
    import numpy as np
    import torch

    from multidomain.bench.train import measure_text_training, measure_training
    from multidomain.methods.adversarial.man import MANSettings

    given = {"extractor": extractor} | ({} if private_hidden is None else {"private_hidden": private_hidden})
    settings = MANSettings.parse(given)
    if settings.extractor not in ("mlp", "cnn"):
        raise ConfigError(f"There is no textbook for the extractor '{extractor}'. Use mlp or cnn.")
    torch.set_num_threads(1)
    if settings.extractor == "cnn":
        measured = iter([measure_text_training(repeats, settings, textbook)])
    else:
        measured = (measure_training(n, repeats, settings, textbook) for n in _numbers(domains))
    for speed in measured:
        wall, cpu = (1000 * np.median(laps) for laps in (speed.engine_seconds, speed.engine_cpu_seconds))
        line = f"{speed.n_domains:>3} domains: {cpu:8.1f} ms CPU per iteration ({wall:.1f} ms), "
        if speed.ratio is not None:
            wall, cpu = (1000 * np.median(laps) for laps in (speed.textbook_seconds, speed.textbook_cpu_seconds))
            line += f"textbook {cpu:8.1f} ms ({wall:.1f} ms), {speed.ratio:.1f} times as fast "
            line += f"({speed.ratios[0]:.1f} to {speed.ratios[-1]:.1f}), "
        out.print(f"{line}peak {speed.peak_mb:,.0f} MB", soft_wrap=True)
        record = {"benchmark": "train", **asdict(speed), "ratio": speed.ratio, "ratios": speed.ratios}
        _record(output, {**record, "settings": settings.model_dump(mode="json")})


@app.command()
def predict(
    data: Annotated[str, typer.Argument(help="A corpus of texts to train on and to predict.")] = "demo",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "sped,fa-lr",
    rows: Annotated[int, typer.Option(help="Rows of the file that is timed.")] = 400_000,
    memory: Annotated[str, typer.Option(help="Rows of the files whose peak memory is measured.")] = "10_000,100_000",
    repeats: Repeats = 3,
    output: Output = Path("results/bench.jsonl"),
) -> None:
    """Prediction: rows per second from CSV to CSV beside scikit-learn, and peak memory by size of the file."""
    import numpy as np

    from multidomain.bench.predict import measure_memory, measure_prediction
    from multidomain.data.named.registry import load_corpus

    corpus = load_corpus(data)
    for method in methods.split(","):
        with tempfile.TemporaryDirectory() as name:
            speed = measure_prediction(corpus, method, rows, repeats, Path(name))
            one, two, sklearn = (
                rows / float(np.median(laps))
                for laps in (speed.one_thread.cpu_seconds, speed.two_threads.seconds, speed.sklearn.cpu_seconds)
            )
            more = float(np.median(speed.one_thread.seconds)) * two / rows
            out.print(
                f"{method}, {rows:,} rows of {corpus.name}: {one:,.0f} rows/s; TfidfVectorizer + LinearSVC "
                f"{sklearn:,.0f} rows/s; ratio {one / sklearn:.2f}; with two threads {more:.2f} times as fast",
                soft_wrap=True,
            )
            points = [measure_memory(corpus, method, size, Path(name)) for size in _numbers(memory)]
            for point in points:
                out.print(f"{point.rows:>9,} rows: {point.seconds:.1f} s, peak {point.peak_mb:,.0f} MB")
            record = {"benchmark": "predict", "data": corpus.name, **asdict(speed)}
            record |= {"ratio": one / sklearn, "two_threads_ratio": more}
            _record(output, {**record, "memory": [asdict(point) for point in points]})


@app.command()
def default(
    rows: Annotated[str, typer.Option(help="Numbers of rows.")] = "1_000,10_000,100_000",
    words: Annotated[int, typer.Option(min=1, help="Words of a row.")] = 100,
    domains: Annotated[str, typer.Option(help="Numbers of domains.")] = "4",
    repeats: Repeats = 1,
    output: Output = Path("results/bench.jsonl"),
) -> None:
    """The default method beside scikit-learn's TfidfVectorizer and LinearSVC, on generated texts, with one thread."""
    from multidomain.bench.default import compare_default

    for n_domains in _numbers(domains):
        for n_rows in _numbers(rows):
            found = compare_default(n_rows, words, n_domains, repeats)
            out.print(f"{n_rows:,} rows of {words} words, {n_domains} domains: {found.ratio:.2f} times the CPU time")
            for name, costs in (("sped", found.ours), ("scikit-learn", found.sklearn)):
                best = min(costs, key=lambda cost: cost.cpu_seconds)
                out.print(
                    f"{name:>14}: {best.cpu_seconds:8.1f} s CPU, {best.seconds:8.1f} s, peak {best.peak_mb:,.0f} MB, "
                    f"accuracy {100 * best.accuracy:.2f}",
                    soft_wrap=True,
                )
            _record(output, {"benchmark": "default", **asdict(found), "ratio": found.ratio})


@app.command()
def large(
    rows: Annotated[str, typer.Option(help="Numbers of rows.")] = "10_000_000",
    words: Annotated[int, typer.Option(min=1, help="Words of a row.")] = 15,
    domains: Annotated[int, typer.Option(min=1, help="Number of domains.")] = 4,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    output: Output = Path("results/bench.jsonl"),
) -> None:
    """More rows than fit into memory: train the default method on a generated CSV file, and predict the same rows.

    Temporary files, of less than 1 kB a row of 15 words, are in the folder that TMPDIR names.
    """
    from multidomain.bench.large import measure_large

    options = ["--threads", str(threads)]
    for n_rows in _numbers(rows):
        with tempfile.TemporaryDirectory() as name:
            found = measure_large(
                n_rows,
                words,
                domains,
                Path(name),
                train_options=[*options, "--min-df", "2"],
                predict_options=options,
            )
        out.print(f"{n_rows:,} rows of {words} words, {domains} domains: accuracy {100 * found.accuracy:.2f}")
        for step, cost in (("train", found.train), ("predict", found.predict)):
            out.print(
                f"{step:>9}: {cost.cpu_seconds:8.1f} s CPU, {cost.seconds:8.1f} s, peak {cost.peak_own_mb:,.0f} MB "
                f"({cost.peak_mb:,.0f} MB with files)",
                soft_wrap=True,
            )
        _record(output, {"benchmark": "large", "threads": threads, **asdict(found)})
