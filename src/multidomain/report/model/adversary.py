"""What the adversary did: how much the shared features tell of the domain."""

from __future__ import annotations

from collections.abc import Sequence

from multidomain.errors import counted
from multidomain.evaluation.invariance import Invariance
from multidomain.report.model.charts import Bar, bar_chart
from multidomain.report.model.folder import ModelFolder
from multidomain.report.model.markup import Html, figure, joined, paragraphs, percent, tag
from multidomain.report.model.scores import wilson


def adversary_section(run: ModelFolder) -> Html:
    """Return what a fresh probe can tell about the domain, before training and after."""
    after, before = run.metrics.result.invariance, run.metrics.result.invariance_before
    fought = any("J_D" in epoch.log for curve in run.curves for epoch in curve)
    if after is None:
        return paragraphs(_why_not_measured(run))
    measured = [("before training", before, "before"), ("after training", after, "bar")]
    known = [(name, found, class_) for name, found, class_ in measured if found is not None]
    apart = [Bar(name, found.nats, f"{found.nats:.3f} nats", class_) for name, found, class_ in known]
    named = [Bar(name, found.accuracy, percent(found.accuracy), class_) for name, found, class_ in known]
    return joined(
        [
            paragraphs(_how_far(after, before), _who(fought)),
            tag(
                "div",
                figure(
                    bar_chart(
                        apart,
                        f"How far apart the domains are: {_listed(apart)}, of at most {after.most:.3f} nats.",
                        most=after.most,
                        ends=(
                            "0: cannot be told apart",
                            f"log {round(1 / after.chance)} = {after.most:.3f}: with certainty",
                        ),
                    ),
                    "How far the domains are apart in the shared features: a lower estimate of their Jensen-Shannon "
                    "divergence, by a discriminator fitted anew on one half of the held-out rows and scored on the "
                    f"other ({counted(after.rows, 'row')}).",
                ),
                figure(
                    bar_chart(
                        named,
                        f"How often the probe names the right domain: {_listed(named)}.",
                        most=1.0,
                        ends=("0%", "100%"),
                        level=(after.chance, f"chance {percent(after.chance)}"),
                    ),
                    "How often the same probe names the right domain, on average over domains.",
                ),
                class_="charts",
            ),
        ]
    )


def _listed(bars: Sequence[Bar]) -> str:
    return ", ".join(f"{bar.name} {bar.shown}" for bar in bars)


def _how_far(after: Invariance, before: Invariance | None) -> str:
    guess = wilson(after.accuracy, after.rows)
    said = f"After training, a fresh probe names the domain of held-out rows in {percent(after.accuracy)} of cases"
    if guess.holds(after.chance):
        said += f", which {counted(after.rows, 'row')} cannot tell from guessing ({percent(after.chance)}): "
        said += "the shared features are as good as free of the domain."
    else:
        said += f", where guessing gives {percent(after.chance)}: the shared features still show the domain."
    if before is None:
        return said
    change = after.nats - before.nats
    if abs(change) < 0.0005:
        return f"{said} The domains are as far apart as they were before training, {before.nats:.3f} nats."
    way = "closer together" if change < 0 else "further apart"
    return f"{said} Training has brought the domains {way}, from {before.nats:.3f} to {after.nats:.3f} nats."


def _who(fought: bool) -> str:
    if fought:
        return (
            "This is what the adversary and learning the labels did together; a run without the adversary (for MAN: "
            "--set lam=0) shows the adversary's share."
        )
    return "There was no adversary in this training: this is what learning the labels alone did to the features."


def _why_not_measured(run: ModelFolder) -> str:
    if run.held_out.shared is None:
        return (
            f"Not measured: {run.model.method_name}, with these settings, has no shared features that an adversary "
            "could work on."
        )
    return (
        "Not measured: a probe needs at least two domains with 8 held-out rows in each. Hold more rows out, or leave "
        "small domains out."
    )
