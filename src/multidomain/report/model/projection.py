"""Feature map: a t-SNE projection of held-out rows."""

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

POINTS = 1200  # a few seconds of t-SNE on one core
_FEWEST = 10
_COMPONENTS = 50
_ITERATIONS = 750
_NO_LABEL = "label not known"

Group = tuple[int | None, str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Projected:
    """Features of one kind, and their projection."""

    name: str
    features: np.ndarray
    places: np.ndarray
    domains: np.ndarray
    classes: np.ndarray  # with `_NO_LABEL`


def features_section(run: ModelFolder) -> Html:
    """Return shared and private features, coloured by domain and by class."""
    with threadpool_limits(1):  # with several threads the order of summation, and so the map, would vary
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
                f"{_COMPONENTS} principal components): look at which colours mix and which stay apart. The axes, the "
                "sizes of clusters and the distances between them carry no meaning. The figure under each panel is "
                "computed from the features themselves: the fraction of a row's 10 nearest neighbours with its own "
                "domain or class.",
                *missing,
            ),
            tag("h3", "Coloured by domain"),
            paragraphs(
                "Shared features are good when the colours mix."
                + (
                    " Private ones come from a different extractor for each domain, so they separate in any case."
                    + (left_out if without else "")
                    if has_private
                    else ""
                )
            ),
            _legend(_groups_of(kinds, "domains", run.domains)),
            tag("div", *by_domain, class_="charts pairs"),
            tag("h3", "Coloured by class"),
            paragraphs("Both are good when the classes separate, at least within each domain."),
            _legend(_groups_of(kinds, "classes", run.classes)),
            tag("div", *by_class, class_="charts pairs"),
        ]
    )


def _projected(run: ModelFolder, name: str, features: np.ndarray | None, rows: np.ndarray) -> Projected | str:
    """Return the projected features, or why they cannot be shown."""
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
    """Return t-SNE coordinates, shape (rows, 2): rows with similar features lie together."""
    from sklearn.decomposition import PCA  # imported here: no other command needs it
    from sklearn.manifold import TSNE

    components = min(_COMPONENTS, *features.shape)
    reduced = PCA(components, svd_solver="full").fit_transform(features)
    perplexity = min(30.0, (len(features) - 1) / 3)
    start = reduced[:, :2] if components > 1 else np.c_[reduced[:, 0], np.zeros(len(reduced))]
    start = start / start[:, 0].std() * 1e-4
    tsne = TSNE(perplexity=perplexity, init=start, max_iter=_ITERATIONS, n_jobs=1)  # deterministic: init is given
    return tsne.fit_transform(reduced)


def _groups(of_row: np.ndarray, names: Sequence[str]) -> list[Group]:
    """Group rows by kind, unlabelled rows first so that the others are drawn on top of them."""
    present = set(of_row)
    groups: list[Group] = [(None, _NO_LABEL, of_row == _NO_LABEL)] if _NO_LABEL in present - set(names) else []
    return groups + [(number, name, of_row == name) for number, name in enumerate(names) if name in present]


def _groups_of(kinds: Sequence[Projected], what: str, names: Sequence[str]) -> list[Group]:
    return _groups(np.concatenate([getattr(kind, what) for kind in kinds]), names)


def _panel(kind: Projected, groups: Sequence[Group], of_row: np.ndarray, what: str) -> Html:
    known = of_row != _NO_LABEL
    title = f"{kind.name.capitalize()} features"
    drawn = scatter(kind.places, groups, f"{title} of {len(of_row)} held-out rows (t-SNE), coloured by {what}.")
    caption = f"{title}, {counted(len(of_row), 'row')}."
    if known.sum() > 1:
        near, chance = same_kind_among_neighbours(kind.features[known], of_row[known])
        caption += f" Neighbours of the same {what}: {percent(near, 0)}, by chance {percent(chance, 0)}."
    return figure(drawn, caption)


def _legend(groups: Sequence[Group]) -> Html:
    unknown = tag("path", d=symbols(0, [(9, 8)], 4.2), class_="dots unknown")
    return legend((unknown if number is None else symbol_of(number), name) for number, name, _ in groups)
