"""Stratified splitting, with groups and duplicates kept together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from multidomain.data.corpus import Corpus
from multidomain.metrics import rows_of_each


def components(corpus: Corpus) -> np.ndarray:
    """Return for each row the number of its component: rows linked by a group or as duplicates."""
    keys, key_of_row = np.unique(corpus.text_keys(), return_inverse=True)
    if corpus.groups is None:
        return key_of_row
    grouped = np.flatnonzero([group is not None for group in corpus.groups])
    codes: dict[str, int] = {}
    group_of_row = np.array([codes.setdefault(g, len(codes)) for g in corpus.groups[grouped]], dtype=np.int64)
    # Nodes are texts and groups; a row is an edge between its two.
    n_nodes = len(keys) + len(codes)
    edges = (np.ones(len(grouped)), (key_of_row[grouped], len(keys) + group_of_row))
    graph = sp.coo_matrix(edges, shape=(n_nodes, n_nodes))
    _, component_of_node = connected_components(graph, directed=False)
    return component_of_node[key_of_row]


def strata(corpus: Corpus) -> np.ndarray:
    """Return for each row the number of its stratum: a domain and a class, or a domain's unlabelled rows."""
    codes: dict[tuple[str, str | None], int] = {}
    pairs = zip(corpus.domains, corpus.labels, strict=True)
    return np.array([codes.setdefault(pair, len(codes)) for pair in pairs], dtype=np.int64)


def cut(component: np.ndarray, stratum: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Deal components to parts so that every stratum is shared out as asked.

    Strata are dealt from the rarest on, each to where it is missing most, as in iterative stratification
    (Sechidis et al., 2011), so that a rare class is not left to chance by a common one. A stratum with at
    least as many components as there are parts gets into every part, if the strata before left it a choice.

    Parameters
    ----------
    component, stratum
        For each row.
    shares
        Fraction of the rows wanted in each part, the same for all strata or a row for each; parts of share 0 stay
        empty.
    rng
        Deals equals at random.

    Returns
    -------
    numpy.ndarray
        For each row, its part.
    """
    _, component = np.unique(component, return_inverse=True)
    n_components = int(component.max()) + 1 if len(component) else 0
    # Shuffled numbers: the order within a stratum is then random and the sorts below may be stable.
    component = rng.permutation(n_components)[component]
    n_strata = int(stratum.max()) + 1 if len(stratum) else 0
    counts = sp.csc_matrix(
        (np.ones(len(component), dtype=np.int64), (component, stratum)), shape=(n_components, n_strata)
    )
    shares = np.broadcast_to(shares, (n_strata, shares.shape[-1]))
    part = np.full(n_components, -1, dtype=np.int64)
    n_per_stratum = np.diff(counts.indptr)
    linked = np.zeros(n_strata, dtype=bool)
    linked[stratum[np.bincount(component, minlength=n_components)[component] > 1]] = True
    _deal_single_rows(counts, np.flatnonzero(~linked & (n_per_stratum > 0)), part, shares)
    for s in np.argsort(n_per_stratum, kind="stable"):
        if not linked[s]:
            continue
        members = counts.indices[counts.indptr[s] : counts.indptr[s + 1]]
        sizes = counts.data[counts.indptr[s] : counts.indptr[s + 1]]
        order = np.lexsort((members, -sizes))
        _deal(members[order], sizes[order], part, shares[s])
    return part[component]


def _deal_single_rows(counts: sp.csc_matrix, strata: np.ndarray, part: np.ndarray, shares: np.ndarray) -> None:
    """Deal strata of which every component is one row; fills `part`.

    Such strata do not depend on others, and those of one size and the same shares are dealt alike: a corpus of 10,000
    domains has few kinds of them.
    """
    sizes = np.diff(counts.indptr)[strata]
    _, kinds = np.unique(np.column_stack([sizes, shares[strata]]), axis=0, return_inverse=True)
    for alike in rows_of_each(kinds.ravel()).values():
        n = sizes[alike[0]]
        starts = counts.indptr[strata[alike]]
        members = np.sort(counts.indices[starts[:, None] + np.arange(n)], axis=1)
        dealt = np.full(n, -1, dtype=np.int64)
        _deal(np.arange(n), np.ones(n, dtype=np.int64), dealt, shares[strata[alike[0]]])
        part[members] = dealt


def _deal(members: np.ndarray, sizes: np.ndarray, part: np.ndarray, shares: np.ndarray) -> None:
    """Give the components of a stratum, largest first, that have no part yet to the parts; fills `part`."""
    dealt = part[members] >= 0
    rows = np.bincount(part[members[dealt]], weights=sizes[dealt], minlength=len(shares))
    missing = shares * sizes.sum() - rows
    members, sizes = members[~dealt], sizes[~dealt]

    wanted = np.flatnonzero(shares > 0)
    if len(members) + dealt.sum() >= len(wanted):
        # The smallest components open the parts that have none; the larger of these the larger part.
        empty = wanted[rows[wanted] == 0]
        empty = empty[np.argsort(-shares[empty], kind="stable")][: len(members)]
        if len(empty):
            part[members[-len(empty) :]] = empty
            np.subtract.at(missing, empty, sizes[-len(empty) :])
            members, sizes = members[: -len(empty)], sizes[: -len(empty)]

    n_large = int((sizes > 1).sum())
    scale = np.divide(1, shares, out=np.full(len(shares), np.inf), where=shares > 0)
    for member, size in zip(members[:n_large], sizes[:n_large], strict=True):
        # Relative to its share, and with the component counted in: so every part gets large and small ones
        # alike, and none gets one that is too large for it.
        to = int(np.argmax((missing - size) * scale))
        part[member] = to
        missing[to] -= size
    part[members[n_large:]] = np.repeat(np.arange(len(shares)), _whole(missing, len(members) - n_large))


def _whole(missing: np.ndarray, n: int) -> np.ndarray:
    """Return whole numbers that sum to `n`, in proportion to what is missing (largest remainders)."""
    wanted = np.maximum(missing, 0)
    if wanted.sum() == 0:
        wanted = np.ones_like(wanted)
    exact = wanted * (n / wanted.sum())
    whole = np.floor(exact).astype(np.int64)
    rest = np.argsort(whole - exact, kind="stable")[: n - int(whole.sum())]
    whole[rest] += 1
    return whole


def parted(corpus: Corpus, rows: np.ndarray, shares: Sequence[float], random: np.random.Generator) -> list[np.ndarray]:
    """Cut rows into parts, stratified, with groups and duplicates together."""
    part = cut(components(corpus)[rows], strata(corpus)[rows], np.array(shares), random)
    return [rows[part == number] for number in range(len(shares))]
