"""Domains without labels: their class priors, and whether to trust the predictions."""

from __future__ import annotations

from multidomain.report.model.folder import ModelFolder
from multidomain.report.model.markup import Html, joined, paragraphs, table
from multidomain.runs.unlabelled import WORTH_LABELLING


def unlabelled_section(run: ModelFolder) -> Html:
    """Return the assumed and the predicted class shares of each domain with few labels or none, and a verdict."""
    domains = run.metrics.result.unlabelled
    if not domains:
        return paragraphs("Every domain of this model has labels, or the run was made before this was recorded.")
    rows = [
        [*(["", ""] if number else [one.domain, str(one.labels)]), *share]
        for one in domains
        for number, share in enumerate(one.shares)
    ]
    out = [
        table(
            "Class shares of domains without labels, or with few",
            ["domain", "labels", "class", "prior", "95 % interval", "predicted"],
            rows,
            "lrlrrr",
        ),
        paragraphs(*(one.verdict for one in domains)),
    ]
    if any(one.doubts for one in domains):
        out.append(
            paragraphs(
                f"The way out is a few labels: multidomain label-next RUN FILE -n {WORTH_LABELLING} names the rows "
                "that are most informative."
            )
        )
    return joined(out)
