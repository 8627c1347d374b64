"""The command line: parse, call, print."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console

from multidomain.bench.commands import app as bench
from multidomain.bulk import predict_file
from multidomain.corpus import CORPORA, Columns, Corpus, load_corpus, read_corpus, summarise
from multidomain.errors import ConfigError, MultidomainError, MultidomainWarning, counted, did_you_mean
from multidomain.evaluation import evaluate as evaluate_rows
from multidomain.experiments.commands import reproduce_command
from multidomain.experiments.recipes import rows_of
from multidomain.methods import METHODS, method_entry
from multidomain.methods.ensemble import EnsembleSettings
from multidomain.model import Model, is_model_folder
from multidomain.options import DataArgument, DomainColumn, DropEmpty, Encoding, LabelColumn, SplitColumn, TextColumn
from multidomain.pipeline import FeatureSettings, RunSettings, WordSettings
from multidomain.report import console as shown
from multidomain.report.commands import report_command
from multidomain.runs import SplitSettings, run_in_folder, test_rows, unseen
from multidomain.training.loop import TrainingSettings
from multidomain.training.progress import progress_on
from multidomain.vectors_command import vectors_command

app = typer.Typer(
    help="Multi-domain text classification with Multinomial Adversarial Networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(bench, name="bench")
app.command("reproduce")(reproduce_command)
app.command("report")(report_command)
app.command("vectors")(vectors_command)
out = Console(highlight=False, markup=False)  # names of domains and columns may hold brackets
err = Console(stderr=True, highlight=False, markup=False)


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class UnknownDomain(StrEnum):
    """What to do with a domain that was not in training."""

    shared = "shared"
    error = "error"


class Weighting(StrEnum):
    """What the features of a document are."""

    counts = "counts"
    tfidf = "tfidf"
    raw = "raw"


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")]
Unknown = Annotated[UnknownDomain, typer.Option(help="What to do with a domain that was not in training.")]


@app.command()
def corpora() -> None:
    """List the corpora known by name."""
    out.print(shown.corpora_table())


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="Corpora to get; see 'multidomain corpora'.")],
) -> None:
    """Download corpora into the cache, or find them where MULTIDOMAIN_DATA says."""
    unknown = [name for name in names if name not in CORPORA]
    if unknown:
        raise ConfigError(f"There is no corpus '{unknown[0]}'.{did_you_mean(unknown[0], CORPORA)}")
    for name in names:
        folder = CORPORA[name].fetch(lambda file, size: err.print(f"{file.path}: {size:,} bytes", end="\r"))
        out.print(f"{name}: {folder or 'nothing to fetch'}", soft_wrap=True)


@app.command()
def methods(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the methods."""
    if not as_json:
        out.print(shown.methods_table())
        return
    entries = [
        {
            "name": entry.name,
            "summary": entry.summary,
            "paper": entry.paper,
            "rows": rows_of(entry.name),
            "labels": entry.labels,
            "uses_unlabelled_text": entry.uses_unlabelled_text,
            "words": entry.words or "not needed",
            "settings": entry.settings({}).model_dump(mode="json"),
        }
        for entry in METHODS.values()
    ]
    print(json.dumps(entries, indent=2))


@app.command()
def train(
    data: DataArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for model, metrics and log.")],
    method: Annotated[str, typer.Option(help="See 'multidomain methods'.")] = "man-nll",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method.")
    ] = None,
    extractor: Annotated[str | None, typer.Option(help="mlp, cnn, lstm, bilstm or bilstm-attention.")] = None,
    vectors: Annotated[
        str | None, typer.Option(help="File of word vectors, or 'random'; trained on the data by default.")
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="Read no more than so many words of a text.")] = None,
    features: Annotated[
        Weighting | None, typer.Option(help="What is read of a text; by default what the method asks for.")
    ] = None,
    max_features: Annotated[int, typer.Option(help="How many n-grams to keep.")] = 5000,
    ngrams: Annotated[int, typer.Option(help="Longest n-gram.")] = 2,
    unlabelled: Annotated[
        list[str] | None, typer.Option(metavar="DOMAIN", help="Hide this domain's labels from training.")
    ] = None,
    fold: Annotated[int | None, typer.Option(help="Run of the 5-fold protocol, 0 to 4.")] = None,
    dev: Annotated[Path | None, typer.Option(help="File with development rows.")] = None,
    test: Annotated[Path | None, typer.Option(help="File with test rows.")] = None,
    text_only: Annotated[Path | None, typer.Option(help="File with further text, not to be learnt from.")] = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    domain_column: DomainColumn = None,
    split_column: SplitColumn = None,
    encoding: Encoding = "utf-8",
    drop_empty: DropEmpty = False,
    seed: Annotated[int, typer.Option(help="Makes a run repeatable.")] = 0,
    batch_size: Annotated[int, typer.Option(help="Rows of each domain in a mini-batch.")] = 8,
    epochs: Annotated[int, typer.Option(help="At most this many.")] = 30,
    patience: Annotated[int, typer.Option(help="Stop after so many epochs that are not better.")] = 5,
    balanced: Annotated[bool, typer.Option("--balanced", help="Draw a domain's classes equally often.")] = False,
    checkpoint_seconds: Annotated[float, typer.Option(help="Least time between two checkpoints.")] = 120,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.auto,
    threads: Annotated[int, typer.Option(min=1, help="Threads; the same number gives the same bits.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
) -> None:
    """Train a model, show how good it is in each domain, and keep it in a folder."""
    torch.set_num_threads(threads)
    run_settings = RunSettings(
        method=method,
        method_settings=assignments(settings or []) | ({"extractor": extractor} if extractor else {}),
        features=FeatureSettings.parse(
            {"weighting": features and features.value, "max_features": max_features, "ngram_range": (1, ngrams)},
            "features",
        ),
        words=WordSettings.parse({"vectors": vectors, "max_length": max_length}, "words"),
        training=TrainingSettings.parse(
            {
                "batch_size": batch_size,
                "max_epochs": epochs,
                "patience": patience,
                "balanced": balanced,
                "seed": seed,
                "checkpoint_seconds": checkpoint_seconds,
            },
            "training settings",
        ),
    )
    _refuse_idle(run_settings, features, vectors, max_length)
    run_settings.complete()  # a fault in a setting must be found before the data is read
    split_settings = SplitSettings.parse({"fold": fold, "unlabelled": unlabelled or (), "seed": seed}, "split")
    columns = Columns(text_column, label_column, domain_column, split_column)
    options = {"encoding": encoding, "drop_empty": drop_empty}
    corpus = _corpus(data, columns, {"dev": dev, "test": test, "unlabelled": text_only}, options)
    out.print(
        f"{corpus.name}: {counted(len(corpus), 'row')}, {counted(len(corpus.domain_names), 'domain')}, "
        f"{len(corpus.class_names)} classes"
    )
    split = split_settings.split(corpus)
    for line in shown.split_lines(corpus, split):
        out.print(line, soft_wrap=True)
    result = run_in_folder(
        output,
        corpus,
        split,
        split_settings,
        run_settings,
        device=device.value,
        resume=resume,
        overwrite=overwrite,
        listeners=[progress_on(err)],
    )
    out.print(shown.kept_line(result.best_epoch, result.epochs, result.chosen, result.seconds))
    if result.test:
        out.print(shown.evaluation_table(result.test, f"{method} on the test rows of {corpus.name}"))
    out.print(shown.invariance_line(result.invariance), soft_wrap=True)
    out.print(f"model, metrics and log: {output}", soft_wrap=True)
    out.print(f"next: multidomain predict {output} FILE.csv -o predicted.csv", soft_wrap=True)


@app.command()
def evaluate(
    model: ModelArgument,
    data: DataArgument,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    domain_column: DomainColumn = None,
    split_column: SplitColumn = None,
    encoding: Encoding = "utf-8",
    drop_empty: DropEmpty = False,
    unknown_domain: Unknown = UnknownDomain.shared,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score a model on labelled data, domain by domain.

    Of the data that the model was trained on, the test rows are scored. Of other data the test part is scored, if it
    has one, and otherwise all labelled rows; rows whose text was seen in training are left out.
    """
    trained = Model.load(model)
    columns = Columns(text_column, label_column, domain_column, split_column)
    corpus = load_corpus(data, columns, encoding=encoding, drop_empty=drop_empty)
    rows, which = test_rows(model, corpus), "the test rows that were held out in training"
    if rows is None:
        rows, which = np.arange(len(corpus)), "the labelled rows"
        if corpus.parts is not None and (corpus.parts == "test").any():
            rows, which = np.flatnonzero(corpus.parts == "test"), "the test part"
        new = unseen(model, corpus, rows)
        if len(new) < len(rows):
            err.print(
                f"note: {counted(len(rows) - len(new), 'row')} left out, because training has seen the text",
                soft_wrap=True,
            )
        rows = new
    scores = evaluate_rows(trained, corpus, rows, unknown_domain.value)
    if as_json:
        print(json.dumps(scores.as_json(), indent=2))
    else:
        out.print(shown.evaluation_table(scores, f"{model.name} on {which} of {corpus.name}"))


@app.command()
def predict(
    model: ModelArgument,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV, JSON lines or Parquet.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV, TSV or JSON lines; standard output if not given."),
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Domain of all rows, in place of a domain column.")] = None,
    text_column: TextColumn = None,
    domain_column: DomainColumn = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add a column for each class.")] = False,
    encoding: Encoding = "utf-8",
    unknown_domain: Unknown = UnknownDomain.shared,
) -> None:
    """Copy a file with the columns 'prediction' and 'confidence' added; every row stays in its place."""
    done = predict_file(
        Model.load(model),
        source,
        output,
        Columns(text=text_column, domain=domain_column),
        domain=domain,
        probabilities=probabilities,
        unknown_domain=unknown_domain.value,
        encoding=encoding,
    )
    if done.without_text:
        err.print(f"warning: {counted(done.without_text, 'row')} without text got no prediction", style="yellow")
    err.print(f"{counted(done.rows, 'row')} written to {output or 'standard output'}", soft_wrap=True)


@app.command()
def inspect(
    what: Annotated[str, typer.Argument(help="A model folder, a corpus by name, or a file or folder of data.")],
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    domain_column: DomainColumn = None,
    split_column: SplitColumn = None,
    encoding: Encoding = "utf-8",
    drop_empty: DropEmpty = False,
) -> None:
    """Show what is in a model or in a corpus."""
    if what not in CORPORA and is_model_folder(Path(what)):
        out.print(shown.model_table(Model.load(what), what))
        return
    columns = Columns(text_column, label_column, domain_column, split_column)
    corpus = load_corpus(what, columns, encoding=encoding, drop_empty=drop_empty)
    out.print(shown.summary_table(summarise(corpus)))


def _corpus(data: str, columns: Columns, parts: dict[str, Path | None], options: dict[str, Any]) -> Corpus:
    """Read the data and the files that were given for its other parts."""
    files = {part: path for part, path in parts.items() if path is not None}
    if not files:
        return load_corpus(data, columns, **options)
    pieces = [load_corpus(data, columns, part="train", **options)]
    pieces += [read_corpus(path, columns, part=part, **options) for part, path in files.items()]
    return Corpus.concat(pieces)


def _refuse_idle(settings: RunSettings, features: Weighting | None, vectors: str | None, length: int | None) -> None:
    """Refuse options that have no effect with what is trained."""
    method = method_entry(settings.method).settings(settings.method_settings)
    if isinstance(method, EnsembleSettings):  # members may read either
        return
    if getattr(method, "reads_words", False):
        if features is not None:
            raise ConfigError(f"--features has no effect: '{settings.method}' reads words in their order here.")
    elif vectors is not None or length is not None:
        raise ConfigError("--vectors and --max-length are for extractors that read words in their order, such as cnn.")


def assignments(pairs: Sequence[str]) -> dict[str, Any]:
    """Turn ``lam=0.1`` into a name and a value, and ``base_settings.C=1`` into one inside the other."""
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


def _show_warnings_once() -> None:
    """Print our warnings as one line each, the same one only once; others are for developers."""
    said = set()

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        if issubclass(category, MultidomainWarning) and str(message) not in said:
            said.add(str(message))
            err.print(f"warning: {message}", style="yellow", soft_wrap=True)

    warnings.simplefilter("always", MultidomainWarning)
    warnings.showwarning = show  # type: ignore[assignment]


def main() -> None:
    """Run the command line; a fault of the input or of a file ends with its message and exit code 2."""
    _show_warnings_once()
    try:
        app()
    except (MultidomainError, OSError) as error:
        err.print(f"error: {error}", style="red", soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
