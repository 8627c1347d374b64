"""Domain invariance: how much the shared features reveal about the domain."""

from __future__ import annotations

from collections.abc import Sequence

from multidomain.errors import counted
from multidomain.evaluation.invariance import Invariance
from multidomain.report.model.charts import Bar, bar_chart
from multidomain.report.model.folder import ModelFolder
from multidomain.report.model.markup import Html, figure, joined, paragraphs, percent, tag
from multidomain.report.model.scores import wilson


def adversary_section(run: ModelFolder) -> Html:
    """Return how well a fresh probe predicts the domain, before and after training."""
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
                        f"Divergence of the domains: {_listed(apart)}, of at most {after.most:.3f} nats.",
                        most=after.most,
                        ends=(
                            "0: indistinguishable",
                            f"log {round(1 / after.chance)} = {after.most:.3f}: fully separable",
                        ),
                    ),
                    "Divergence of the domains in the shared features: a lower bound on their Jensen-Shannon "
                    "divergence, estimated by a new discriminator trained on one half of the held-out rows and scored "
                    f"on the other ({counted(after.rows, 'row')}).",
                ),
                figure(
                    bar_chart(
                        named,
                        f"Accuracy of the domain probe: {_listed(named)}.",
                        most=1.0,
                        ends=("0%", "100%"),
                        level=(after.chance, f"chance {percent(after.chance)}"),
                    ),
                    "Accuracy of the same probe at predicting the domain, mean over domains.",
                ),
                class_="charts",
            ),
        ]
    )


def _listed(bars: Sequence[Bar]) -> str:
    return ", ".join(f"{bar.name} {bar.shown}" for bar in bars)


def _how_far(after: Invariance, before: Invariance | None) -> str:
    guess = wilson(after.accuracy, after.rows)
    said = f"After training, a fresh probe predicts the domain of held-out rows with {percent(after.accuracy)} accuracy"
    if guess.holds(after.chance):
        said += f", not distinguishable from chance ({percent(after.chance)}) on {counted(after.rows, 'row')}: "
        said += "the shared features are practically domain-invariant."
    else:
        said += f", against a chance of {percent(after.chance)}: the shared features still reveal the domain."
    if before is None:
        return said
    change = after.nats - before.nats
    if abs(change) < 0.0005:
        return f"{said} The divergence of the domains is the same as before training, {before.nats:.3f} nats."
    way = "closer together" if change < 0 else "further apart"
    return f"{said} Training moved the domains {way}, from {before.nats:.3f} to {after.nats:.3f} nats."


def _who(fought: bool) -> str:
    if fought:
        return (
            "This is the joint effect of the adversary and of supervised training; compare with a run without the "
            "adversary (for MAN: lam = 0) to isolate the adversary's effect."
        )
    return "Training used no adversary: this is the effect of supervised training alone."


def _why_not_measured(run: ModelFolder) -> str:
    if run.held_out.shared is None:
        return (
            f"Not measured: {run.model.method_name}, with these settings, has no shared features that a probe could "
            "read."
        )
    return (
        "Not measured: a probe needs at least two domains with 8 held-out rows in each. Hold out more rows, or drop "
        "small domains."
    )
