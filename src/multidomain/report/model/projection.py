"""Held-out rows in the plane, by their features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from multidomain.errors import counted
from multidomain.report.model.charts import scatter
from multidomain.report.model.drawing import legend, symbol_of, symbols
from multidomain.report.model.folder import ModelFolder
from multidomain.report.model.markup import Html, figure, joined, listed, paragraphs, percent, tag
from multidomain.report.model.scores import same_kind_among_neighbours

POINTS = 1200  # some seconds of t-SNE on one core
_FEWEST = 10
_COMPONENTS = 50
_ITERATIONS = 750
_NO_LABEL = "label not known"

Group = tuple[int | None, str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Projected:
    """Features of one kind, and where their rows lie in the plane."""

    name: str
    features: np.ndarray
    places: np.ndarray
    domains: np.ndarray
    classes: np.ndarray  # with `_NO_LABEL`


def features_section(run: ModelFolder) -> Html:
    """Return shared and private features, coloured by domain and by class."""
    with threadpool_limits(1):  # several threads would add up in another order each time
        return _features_section(run)


def _features_section(run: ModelFolder) -> Html:
    held = run.held_out
    rows = np.arange(len(held.featured))
    if len(rows) > POINTS:
        rows = np.linspace(0, len(rows) - 1, POINTS).astype(np.int64)
    kinds: list[Projected] = []
    missing = []
    for name, features in (("shared", held.shared), ("private", held.private)):
        found = _projected(run, name, None if features is None else features[rows], held.featured[rows])
        if isinstance(found, Projected):
            kinds.append(found)
        else:
            missing.append(found)
    if held.shared is None and held.private is None:
        return paragraphs(
            f"There are no features to show: {run.model.method_name} has neither shared nor private ones."
        )
    if not kinds:
        return paragraphs(*missing)
    without = [name for name in run.domains if name in set(held.domains) - set(run.model.labelled_domains)]
    left_out = (
        f" {listed(without)} {'is' if len(without) == 1 else 'are'} not among the private features: without labels a "
        "domain has none."
    )
    has_private = any(kind.name == "private" for kind in kinds)
    by_domain = [_panel(kind, _groups(kind.domains, run.domains), kind.domains, "domain") for kind in kinds]
    by_class = [_panel(kind, _groups(kind.classes, run.classes), kind.classes, "class") for kind in kinds]
    return joined(
        [
            paragraphs(
                "Each point is a held-out row. Points that lie together have similar features (t-SNE of the first "
                f"{_COMPONENTS} principal components): see which colours mix and which stay apart. The axes, the sizes "
                "of groups and the distances between them mean nothing. The figure under each panel is computed from "
                "the features themselves: among the 10 rows nearest to a row, the share that is of its own kind.",
                *missing,
            ),
            tag("h3", "Coloured by domain"),
            paragraphs(
                "Shared features are good when the colours mix."
                + (
                    " Private ones come from a different extractor for each domain, so that they stand apart by "
                    "themselves." + (left_out if without else "")
                    if has_private
                    else ""
                )
            ),
            _legend(_groups_of(kinds, "domains", run.domains)),
            tag("div", *by_domain, class_="charts pairs"),
            tag("h3", "Coloured by class"),
            paragraphs("Both are good when the classes stand apart, within each domain at least."),
            _legend(_groups_of(kinds, "classes", run.classes)),
            tag("div", *by_class, class_="charts pairs"),
        ]
    )


def _projected(run: ModelFolder, name: str, features: np.ndarray | None, rows: np.ndarray) -> Projected | str:
    """Return the features in the plane, or why they cannot be shown."""
    if features is None:
        return f"There are no {name} features to show: {run.model.method_name}, with these settings, has none."
    finite = np.isfinite(features).all(axis=1)
    features, rows = features[finite].astype(np.float64), rows[finite]
    if len(rows) < _FEWEST:
        return f"There are too few {name} features to show: {counted(len(rows), 'row')}, at least {_FEWEST} are needed."
    if features.std(axis=0).max() < 1e-12:
        return f"The {name} features cannot be shown: they are the same for every row."
    labels = run.held_out.labels[rows]
    classes = np.array([_NO_LABEL if label is None else str(label) for label in labels], dtype=object)
    return Projected(name, features, in_the_plane(features), run.held_out.domains[rows], classes)


def in_the_plane(features: np.ndarray) -> np.ndarray:
    """Return a place for each row, shape (rows, 2), such that rows with similar features lie together."""
    from sklearn.decomposition import PCA  # here: no other command needs them
    from sklearn.manifold import TSNE

    components = min(_COMPONENTS, *features.shape)
    reduced = PCA(components, svd_solver="full").fit_transform(features)
    perplexity = min(30.0, (len(features) - 1) / 3)
    start = reduced[:, :2] if components > 1 else np.c_[reduced[:, 0], np.zeros(len(reduced))]
    start = start / start[:, 0].std() * 1e-4
    tsne = TSNE(perplexity=perplexity, init=start, max_iter=_ITERATIONS, n_jobs=1)  # no chance: the start is given
    return tsne.fit_transform(reduced)


def _groups(of_row: np.ndarray, names: Sequence[str]) -> list[Group]:
    """Sort rows by kind, the rows without a label first so that the others lie on top of them."""
    present = set(of_row)
    groups: list[Group] = [(None, _NO_LABEL, of_row == _NO_LABEL)] if _NO_LABEL in present - set(names) else []
    return groups + [(number, name, of_row == name) for number, name in enumerate(names) if name in present]


def _groups_of(kinds: Sequence[Projected], what: str, names: Sequence[str]) -> list[Group]:
    return _groups(np.concatenate([getattr(kind, what) for kind in kinds]), names)


def _panel(kind: Projected, groups: Sequence[Group], of_row: np.ndarray, what: str) -> Html:
    known = of_row != _NO_LABEL
    title = f"{kind.name.capitalize()} features"
    drawn = scatter(kind.places, groups, f"{title} of {len(of_row)} held-out rows in the plane, coloured by {what}.")
    caption = f"{title}, {counted(len(of_row), 'row')}."
    if known.sum() > 1:
        near, chance = same_kind_among_neighbours(kind.features[known], of_row[known])
        caption += f" Same {what} among the nearest: {percent(near, 0)}, by chance {percent(chance, 0)}."
    return figure(drawn, caption)


def _legend(groups: Sequence[Group]) -> Html:
    unknown = tag("path", d=symbols(0, [(9, 8)], 4.2), class_="dots unknown")
    return legend((unknown if number is None else symbol_of(number), name) for number, name, _ in groups)
