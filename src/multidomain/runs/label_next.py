"""Active learning: which rows to label next, and in which domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.data.corpus import Corpus
from multidomain.data.values import check_domain_names
from multidomain.errors import DataError, Note, counted
from multidomain.features.ngrams import NgramFeaturizer
from multidomain.metrics import rows_of_each
from multidomain.model.model import Model

_FEW_LABELS = 100  # at which a further label of a domain is expected to gain half as much as its first
_POOL = 2000  # the most uncertain rows of a domain, which are compared pair by pair
_COMPARED = 1000  # of them at most are chosen so; then uncertainty decides
_CHUNK = 1024  # rows whose similarities are in memory at once


@dataclass(frozen=True)
class DomainShare:
    """How many rows of a domain to label, and why.

    Attributes
    ----------
    candidates
        Rows with a text and no label, duplicates counted once.
    labels
        Labels of the domain in the training data; None: it has some, their number is not known.
    confidence
        Mean confidence of the candidates.
    gain
        Share of the expected gain; the rows are divided in proportion.
    chosen
        Rows to label.
    """

    domain: str
    candidates: int
    labels: int | None
    confidence: float
    gain: float
    chosen: int


@dataclass(frozen=True, eq=False)
class ToLabel:
    """Rows to label, most valuable first.

    Attributes
    ----------
    rows
        Row numbers of the corpus.
    predictions, confidence
        Predicted class of each, and its probability.
    domains
        The division between domains.
    notes
        Notes on domains that are not known.
    """

    rows: np.ndarray
    predictions: np.ndarray
    confidence: np.ndarray
    domains: tuple[DomainShare, ...]
    notes: tuple[Note, ...] = ()


def label_next(
    model: Model, corpus: Corpus, n: int, *, labels: Mapping[str, int] | None = None, domain: str | None = None
) -> ToLabel:
    """Choose the rows of a corpus whose labels are expected to help the model most.

    Rows that have a label, or whose text has one in their domain, are skipped, and so are dev and test rows.

    Parameters
    ----------
    n
        How many.
    labels
        Number of labels in the training data by domain; by default those of the corpus.
    domain
        Choose from this domain only.

    Raises
    ------
    DataError
        No row is left to label.
    """
    rows = _candidates(corpus, domain)
    resolved = model.resolve_domains(list(corpus.domains[rows]), len(rows))
    p = model.probabilities(model.encode(corpus.documents[rows]), resolved.codes)
    labels_of = _label_counts(model, corpus, labels)
    of_domain = rows_of_each(corpus.domains[rows])
    names = [name for name in corpus.domain_names if name in of_domain]
    here = [of_domain[name] for name in names]
    gains = np.array([expected_gain(p[i], labels_of.get(name, 0)) for name, i in zip(names, here, strict=True)])
    sizes = divided(n, gains, np.array([len(i) for i in here]))
    order = np.concatenate(_picked(corpus, rows, p, here, sizes))[in_proportion(sizes)]
    confidence = p.max(axis=1)
    shares = [
        DomainShare(name, len(i), labels_of.get(name, 0), float(confidence[i].mean()), float(gain), int(size))
        for name, i, gain, size in zip(names, here, gains / gains.sum(), sizes, strict=True)
    ]
    return ToLabel(
        rows=rows[order],
        predictions=np.array(model.classes, dtype=object)[p[order].argmax(axis=1)],
        confidence=confidence[order],
        domains=tuple(shares),
        notes=resolved.notes,
    )


def _picked(
    corpus: Corpus, rows: np.ndarray, p: np.ndarray, here: Sequence[np.ndarray], sizes: np.ndarray
) -> list[np.ndarray]:
    """Return the choice of each domain, as places in `rows`."""
    # Of the text alone, so that any method's uncertainty can be combined with it.
    features = NgramFeaturizer("tfidf", max_features=50_000, ngram_range=(1, 1)).fit(corpus.documents)
    picked = []
    for i, size in zip(here, sizes, strict=True):
        uncertain = i[np.argsort(-uncertainty(p[i]), kind="stable")]
        pool = uncertain[:_POOL]
        known = np.flatnonzero(corpus.labelled & (corpus.domains == corpus.domains[rows[i[0]]]))
        x, labelled = (features.transform(corpus.documents[which]) for which in (rows[pool], known))
        compared = pool[choose(p[pool], x, min(size, _COMPARED), labelled)]
        others = uncertain[~np.isin(uncertain, compared)]
        picked.append(np.concatenate([compared, others[: size - len(compared)]]))
    return picked


def uncertainty(p: np.ndarray) -> np.ndarray:
    """Return 1 minus the margin between the two most probable classes, row by row.

    Examples
    --------
    >>> uncertainty(np.array([[0.5, 0.5, 0.0], [0.1, 0.1, 0.8]])).round(2)
    array([1. , 0.3])
    """
    if p.shape[1] < 2:
        return np.zeros(len(p))
    second, first = np.sort(p, axis=1)[:, -2:].T
    return 1 - (first - second)


def expected_gain(p: np.ndarray, labels: int | None) -> float:
    r"""Return what further labels of a domain are expected to gain.

    .. math:: \frac{\sum_i u_i}{1 + m / 100}

    where `u` is the uncertainty of its rows without labels, whose sum is their number times their mean, and `m` is the
    number of labels that it has, 100 if that is not known: the more, the less one more of them tells.
    """
    return float(uncertainty(p).sum() + 1e-9) / (1 + (_FEW_LABELS if labels is None else labels) / _FEW_LABELS)


def divided(n: int, gains: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Divide n rows between domains in proportion to gains (largest remainders), none getting more than it has.

    Examples
    --------
    >>> divided(10, np.array([3.0, 2.0, 1.0]), np.array([4, 100, 100]))
    array([4, 4, 2])
    """
    given = np.zeros(len(sizes), dtype=np.int64)
    n = min(n, int(sizes.sum()))
    while given.sum() < n:
        gains = np.where(given < sizes, gains, 0)
        exact = gains / gains.sum() * (n - given.sum())
        more = np.floor(exact).astype(np.int64)
        more[np.argsort(more - exact, kind="stable")[: n - given.sum() - more.sum()]] += 1
        given = np.minimum(given + more, sizes)
    return given


def in_proportion(sizes: np.ndarray) -> np.ndarray:
    """Return an order of groups that stand one after the other: each beginning of it holds about its share of each.

    Examples
    --------
    >>> in_proportion(np.array([4, 2]))  # rows 0 to 3, and 4 and 5
    array([0, 4, 1, 2, 5, 3])
    """
    place = np.concatenate([(np.arange(size) + 0.5) / size for size in sizes])
    return np.argsort(place, kind="stable")


def choose(p: np.ndarray, x: csr_matrix, n: int, labelled: csr_matrix | None = None) -> np.ndarray:
    r"""Choose rows that stand for the uncertain ones, best first.

    Row by row, the one that adds most to

    .. math:: \sum_i u_i \max_{j \in S} x_i \cdot x_j

    where `u` is the uncertainty, `i` runs over all rows, and `S` holds the rows chosen so far and those that have
    labels (facility location). A near-duplicate of a row in `S` adds nothing.

    Parameters
    ----------
    p
        Class probabilities, shape (rows, classes).
    x
        The rows as vectors of length 1, or empty.
    labelled
        Rows that have labels, as vectors.

    References
    ----------
    K. Wei, R. Iyer and J. Bilmes. Submodularity in Data Subset Selection and Active Learning. ICML 2015.
    """
    u = uncertainty(p)
    similarity = (x @ x.T).toarray()
    nearest = np.zeros(len(u), dtype=np.float32) if labelled is None else _largest_cosine(x, labelled)
    chosen: list[int] = []
    left = np.ones(len(u), dtype=bool)
    for _ in range(min(n, len(u))):
        added = u @ np.maximum(similarity - nearest[:, None], 0)
        best = int(np.argmax(np.where(left, added, -1)))
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, similarity[best])
    return np.array(chosen, dtype=np.int64)


def _largest_cosine(x: csr_matrix, others: csr_matrix) -> np.ndarray:
    """Return for each row its largest cosine with one of the others, 0 if there are none."""
    largest = np.zeros(x.shape[0], dtype=np.float32)
    for start in range(0, others.shape[0], _CHUNK):
        cosines = (x @ others[start : start + _CHUNK].T).max(axis=1)
        largest = np.maximum(largest, cosines.toarray().ravel())
    return largest


def _candidates(corpus: Corpus, domain: str | None) -> np.ndarray:
    """Return the rows that may be chosen: without a label, not held out, one of each text and domain."""
    free = ~corpus.labelled
    if domain is not None:
        check_domain_names([domain], corpus)
        free &= corpus.domains == domain
    if corpus.parts is not None:
        free &= ~np.isin(corpus.parts.astype(str), ("dev", "test"))
    text = np.stack([corpus.text_keys(), corpus.domain_codes.astype(np.uint64)], axis=1)
    _, text_of_row = np.unique(text, axis=0, return_inverse=True)
    text_of_row = text_of_row.ravel()
    rows = np.flatnonzero(free & ~np.isin(text_of_row, text_of_row[corpus.labelled]))
    if not len(rows):
        of = f"of the domain '{domain}' " if domain is not None else ""
        raise DataError(
            f"'{corpus.name}' has no row {of}to label: {counted(len(corpus), 'row')}, all with a label or held out.",
            "Give a file with texts that have no label.",
        )
    _, first = np.unique(text_of_row[rows], return_index=True)
    return rows[np.sort(first)]


def _label_counts(model: Model, corpus: Corpus, labels: Mapping[str, int] | None) -> dict[str, int | None]:
    """Return the number of labels of each labelled domain, None where it is not known."""
    if labels is None:
        names, numbers = np.unique(corpus.domains[corpus.labelled].astype(str), return_counts=True)
        labels = dict(zip(names.tolist(), numbers.tolist(), strict=True))
    return {name: labels.get(name) or None for name in model.labelled_domains}
