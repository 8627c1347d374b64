"""The commands around training: parse, call, print."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from multidomain.cli import render as shown
from multidomain.data.checks import check_trainable, summarise
from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.errors import ConfigError, counted
from multidomain.files import whole_file
from multidomain.methods.adversarial.network import NetworkMethod
from multidomain.methods.registry import RECOMMENDED, method_entry
from multidomain.model.model import is_model_folder
from multidomain.runs.auto import AUTO, AutoChoice, choose_method, keep_choice, remembered_choice
from multidomain.runs.config import CONFIG, TrainConfig, merged, read_config, template
from multidomain.runs.run import RunResult, check_folder, ended_run, run_in_folder
from multidomain.training.callbacks import Callback
from multidomain.training.progress import progress_on
from multidomain.training.tracking import MLflow, TensorBoard
from multidomain.training.train import RunSettings, suited_device

out = Console(highlight=False, markup=False)  # names of domains and columns may hold brackets
err = Console(stderr=True, highlight=False, markup=False)

SMOKE_ROWS = 40  # of each domain, part and class


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Weighting(StrEnum):
    """What the features of a document are."""

    counts = "counts"
    tfidf = "tfidf"
    raw = "raw"


def train_command(
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="A corpus by name, or a file or folder of your own.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for model, metrics and log.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file of settings; options go before it. See 'init'.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="See 'multidomain methods'; 'auto' compares some.", show_default=RECOMMENDED),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="MINUTES", help="Time for 'auto' to compare methods.", show_default="10")
    ] = None,
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
    max_features: Annotated[int | None, typer.Option(help="How many n-grams to keep; 5000 for most methods.")] = None,
    ngrams: Annotated[int | None, typer.Option(help="Longest n-gram; 2 for most methods.")] = None,
    unlabelled: Annotated[
        list[str] | None, typer.Option(metavar="DOMAIN", help="Hide this domain's labels from training.")
    ] = None,
    fold: Annotated[int | None, typer.Option(help="Run of the 5-fold protocol, 0 to 4.")] = None,
    dev: Annotated[Path | None, typer.Option(help="File with development rows.")] = None,
    test: Annotated[Path | None, typer.Option(help="File with test rows.")] = None,
    text_only: Annotated[Path | None, typer.Option(help="File with further text, not to be learnt from.")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column with the text; found by itself if it can be.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Column with the class; empty: unlabelled row.")] = None,
    domain_column: Annotated[str | None, typer.Option(help="Column with the domain.")] = None,
    split_column: Annotated[str | None, typer.Option(help="Column that says train, dev, test or unlabelled.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of text files.", show_default="utf-8")] = None,
    drop_empty: Annotated[bool | None, typer.Option("--drop-empty", help="Leave rows without text out.")] = None,
    seed: Annotated[int | None, typer.Option(help="Makes a run repeatable.", show_default="0")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows of each domain in a batch.", show_default="8")] = None,
    epochs: Annotated[int | None, typer.Option(help="At most this many.", show_default="30")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many epochs that are not better.", show_default="5")
    ] = None,
    balanced: Annotated[bool | None, typer.Option("--balanced", help="Draw a domain's classes equally often.")] = None,
    checkpoint_seconds: Annotated[
        float | None, typer.Option(help="Least time between two checkpoints.", show_default="120")
    ] = None,
    device: Annotated[Device | None, typer.Option(help="Where to compute.", show_default="auto")] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads; the same number gives the same bits.", show_default="1")
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write curves for TensorBoard too.")
    ] = None,
    mlflow: Annotated[str | None, typer.Option(metavar="URI", help="Log to an MLflow server or folder too.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be trained on, and stop.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="One epoch on a few rows, to see whether everything works.")
    ] = False,
) -> None:
    """Train a model, show how good it is in each domain, and keep it in a folder."""
    given = _given(
        {
            "data": data,
            "output": output,
            "method": method,
            "seed": seed,
            "device": device,
            "threads": threads,
            "settings": _given(assignments(settings or []) | _given({"extractor": extractor})),
            "reading": _given(
                {
                    "text_column": text_column,
                    "label_column": label_column,
                    "domain_column": domain_column,
                    "split_column": split_column,
                    "encoding": encoding,
                    "drop_empty": drop_empty,
                    "dev": dev,
                    "test": test,
                    "text_only": text_only,
                }
            ),
            "split": _given({"fold": fold, "unlabelled": unlabelled or None}),
            "features": _given(
                {
                    "weighting": features,
                    "max_features": max_features,
                    "ngram_range": None if ngrams is None else (1, ngrams),
                }
            ),
            "words": _given({"vectors": vectors, "max_length": max_length}),
            "training": _given(
                {
                    "batch_size": batch_size,
                    "max_epochs": epochs,
                    "patience": patience,
                    "balanced": balanced,
                    "checkpoint_seconds": checkpoint_seconds,
                }
            ),
            "choice": _given({"budget": budget}),
        }
    )
    chosen = TrainConfig.parse_all(merged(read_config(config) if config else {}, given))
    torch.set_num_threads(chosen.threads)
    how = {"resume": resume, "overwrite": overwrite, "smoke": smoke}
    corpus, split, run = _understood(chosen, smoke)
    folder = Path(chosen.output)
    if dry_run:
        check_trainable(corpus, split)
        check_folder(folder, run, **how)
        out.print(f"dry run: nothing was trained; {folder} would hold the model", soft_wrap=True)
        return
    choice = None
    if chosen.method == AUTO:
        check_folder(folder, run, **how)
        choice = _choice_of_method(chosen, corpus, split, run, resume)
        chosen = chosen.with_method(choice.method)
        run = _settings_of_run(chosen, smoke)
    callbacks: list[Callback] = [progress_on(err)]
    if tensorboard:
        callbacks.append(TensorBoard(tensorboard))
    if mlflow:
        callbacks.append(MLflow(mlflow, folder.name))
    device_of_run = suited_device(run, chosen.device) if choice else chosen.device
    result = run_in_folder(
        folder, corpus, split, chosen.split_settings, run, device=device_of_run, callbacks=callbacks, **how
    )
    if choice or not resume:
        keep_choice(folder, choice)
    chosen.save(folder)
    _show(result, chosen, corpus)


def _understood(config: TrainConfig, smoke: bool) -> tuple[Corpus, Split, RunSettings]:
    """Read and split the data, and say what was understood."""
    corpus = config.load()
    if smoke:
        corpus = corpus.thinned(SMOKE_ROWS)
        err.print(f"smoke: one epoch on {counted(len(corpus), 'row')}; the figures mean nothing", style="yellow")
    split = config.split_settings.split(corpus)
    if corpus.columns:
        out.print("columns: " + ", ".join(f"{field} '{name}'" for field, name in corpus.columns.items()))
    out.print(shown.summary_table(summarise(corpus)))
    out.print(shown.split_table(corpus, split))
    for note in shown.split_notes(corpus, split):
        out.print(note, soft_wrap=True)
    return corpus, split, _settings_of_run(config, smoke)


def _settings_of_run(config: TrainConfig, smoke: bool) -> RunSettings:
    settings = config.run
    if smoke:
        settings = settings.model_copy(update={"training": settings.training.model_copy(update={"max_epochs": 1})})
    return settings


def _choice_of_method(config: TrainConfig, corpus: Corpus, split: Split, run: RunSettings, resume: bool) -> AutoChoice:
    """Let methods compete, or take up what a stopped run has chosen, and say which it is and why."""
    folder = Path(config.output)
    choice = remembered_choice(folder, corpus, split, run, config.choice) if resume else None
    if choice is None:
        if resume and ended_run(folder):
            raise ConfigError(
                f"The run in {folder} has ended, and its method was not chosen for these data and settings. Replace it "
                "(--overwrite), or choose another folder."
            )
        check_trainable(corpus, split)
        first, *others = config.choice.methods
        in_time = f"as far as that takes no more than {config.choice.budget:g} minutes"
        err.print(f"auto: compares {first} with {', '.join(others)}, {in_time}", soft_wrap=True)
        choice = choose_method(
            corpus,
            split,
            run,
            config.choice,
            device=config.device,
            callbacks=[progress_on(err)] if err.is_terminal else [],  # a bar goes away again, lines would not
            told=lambda candidate: err.print(f"auto: {candidate}", soft_wrap=True),
        )
        if not is_model_folder(folder):  # an old model keeps its own until it is replaced
            keep_choice(folder, choice)
    out.print(f"auto chooses {choice.method}: {choice.reason}", soft_wrap=True)
    return choice


def _show(result: RunResult, config: TrainConfig, corpus: Corpus) -> None:
    """Say how it went and what to type next."""
    out.print(shown.kept_line(result.best_epoch, result.epochs, result.chosen, result.seconds))
    if result.test:
        out.print(shown.evaluation_table(result.test, f"{config.method} on the test rows of {corpus.name}"))
    if result.invariance or issubclass(method_entry(config.method).method, NetworkMethod):
        for line in shown.invariance_lines(result.invariance_before, result.invariance):
            out.print(line, soft_wrap=True)
    folder = config.output
    out.print(f"model, metrics, log and settings ({CONFIG}): {folder}", soft_wrap=True)
    out.print(f"next: multidomain report {folder}    # a page to look at and to show", soft_wrap=True)
    out.print(f"      multidomain predict {folder} FILE.csv -o predicted.csv", soft_wrap=True)
    out.print(f"      multidomain serve {folder}", soft_wrap=True)


def init_command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write.")] = Path("multidomain.toml"),
    data: Annotated[str, typer.Option(help="A corpus by name, or a file or folder.")] = "reviews.csv",
    output: Annotated[str, typer.Option("--output", "-o", help="Folder of the model.")] = "runs/reviews",
    method: Annotated[str, typer.Option(help="Whose settings to show.")] = RECOMMENDED,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Write a commented file of settings for 'multidomain train --config'."""
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} is there already. Choose another name, or replace it with --overwrite.")
    text = template(data, output, method)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    out.print(f"{path}: settings of '{method}', all at their defaults", soft_wrap=True)
    out.print(f"next: multidomain train --config {path} --dry-run", soft_wrap=True)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that were given, as TOML would give them; a section without any is left out."""
    plain = {name: str(value) if isinstance(value, Path | StrEnum) else value for name, value in values.items()}
    return {name: value for name, value in plain.items() if value is not None and value != {}}


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
