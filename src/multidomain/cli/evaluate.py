"""The command ``multidomain evaluate``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from multidomain.cli.console import err, out, print_notes
from multidomain.cli.options import (
    READING,
    DataArgument,
    MethodFile,
    ModelArgument,
    PredictOn,
    Unknown,
    load_data,
    with_options,
)
from multidomain.errors import counted


@with_options(READING)
def evaluate_command(
    given: Mapping[tuple[str, ...], Any],
    model: ModelArgument,
    data: DataArgument,
    unknown_domain: Unknown = "shared",
    method: MethodFile = None,
    device: PredictOn = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score a model on labelled data, domain by domain.

    Of the data that the model was trained on, the test set is scored. Of other data the test part is scored, if it has
    one, and otherwise all labelled rows; rows whose text was seen in training are dropped. For each domain that had no
    labels in training, or few, its class prior as it was assumed or estimated stands beside the predicted and the true
    class shares.
    """
    from multidomain.cli.render import evaluation_table, unlabelled_table, verdict_lines
    from multidomain.evaluation.evaluate import evaluate_corpus
    from multidomain.model.model import Model
    from multidomain.runs.folder import RunFolder
    from multidomain.runs.unlabelled import predicted_in

    trained = Model.load(model, device, method=method)
    corpus = load_data(data, given)
    run = RunFolder(model)
    chosen = run.rows_to_score(corpus)
    if chosen.seen_in_training:
        dropped = counted(chosen.seen_in_training, "row")
        err.print(f"note: {dropped} dropped, because training has seen the text", soft_wrap=True)
    scores, notes = evaluate_corpus(trained, corpus, chosen.rows, unknown_domain)
    print_notes(notes)
    scores = scores.with_baselines(chosen.baselines)
    if as_json:
        print(json.dumps(scores.as_json(), indent=2))
        return
    out.print(evaluation_table(scores, f"{model.name} on {chosen.description} of {corpus.name}"))
    unlabelled = predicted_in(run.unlabelled_domains(), scores)
    if unlabelled:
        out.print(unlabelled_table(unlabelled, scores))
        for line in verdict_lines([one for one in unlabelled if one.doubts]):
            out.print(line, soft_wrap=True)
