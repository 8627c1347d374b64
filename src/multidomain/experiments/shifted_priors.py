"""Protocols of domains without labels as they are in the wild: other class priors, and a few labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.data.stratify import parted
from multidomain.errors import ConfigError
from multidomain.experiments.protocols import Protocol, SplitSpec, TargetText

PREVALENCES = (10, 25, 50, 75, 90)
"""Per cent of the last class, the positive one."""

Labels: TypeAlias = int | Literal["all"]
Prevalence: TypeAlias = int | None
"""Per cent of the last class; None: the class prior that a domain has."""


class _DrawnRows(Protocol):
    """Draws its rows itself, so that there is no given split to replace."""

    def split_specs(self, *, reads_text: bool, split_seed: int | None = None) -> list[dict[str, Any]]:
        if split_seed is not None:
            self._refuse()
        return super().split_specs(reads_text=reads_text)

    def _resplit(self, corpus: Corpus, rng: np.random.Generator) -> Corpus:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ConfigError(
            "This experiment draws its rows itself, by the number of the draw; it cannot be re-split.",
            "Leave out the split seed.",
        )


@dataclass(frozen=True)
class ShiftedPriors(_DrawnRows):
    """Each target in turn, its class prior resampled: unlabelled text and test rows alike.

    All sizes that a target has are the largest that all prevalences allow, so that they differ in the prior alone.
    Models are selected on the dev rows of the sources. Draws are numbered from 1; the same draw of a target has the
    same test rows whatever else differs.

    Attributes
    ----------
    target_texts
        Which text of the target serves as unlabelled text: ``train``, or the test rows themselves (``test``).
    target_labels
        How many rows of the target's text, at random, have labels.
    """

    corpus: str
    targets: tuple[str, ...]
    draws: int = 3
    prevalences: tuple[Prevalence, ...] = PREVALENCES
    target_texts: tuple[TargetText, ...] = ("train", "test")
    target_labels: tuple[Labels, ...] = (0,)

    def _split_specs(self, reads_text: bool) -> list[dict[str, Any]]:
        return [
            {"target": target, "prevalence": prevalence, "draw": draw, "target_text": text, "target_labels": labels}
            for draw in range(1, self.draws + 1)
            for text in (self.target_texts if reads_text else self.target_texts[:1])
            for labels in self.target_labels
            for target in self.targets
            for prevalence in self.prevalences
        ]

    def _split(self, corpus: Corpus, spec: SplitSpec) -> Split:
        target, prevalence, draw = spec["target"], spec["prevalence"], spec["draw"]
        random = np.random.default_rng([draw, prevalence or 0, self.targets.index(target)])
        pools = self._target_pools(corpus, target, np.random.default_rng([draw, self.targets.index(target)]))
        text, test = (resampled(corpus, pool, prevalence, random) for pool in pools)
        transductive = spec["target_text"] == "test"
        text = random.permutation(test if transductive else text)
        n = len(text) if spec["target_labels"] == "all" else spec["target_labels"]
        train, dev = self._sources(corpus, target)
        return Split(
            train=np.concatenate([train, np.sort(text[:n])]),
            dev=dev,
            test=test,
            unlabelled=np.sort(text[n:]),
            rule=f"target {target}, {_prior(corpus, prevalence)}, draw {draw}, text of its {spec['target_text']} rows, "
            f"{spec['target_labels']} labels",
            transductive=transductive,
        )

    @abstractmethod
    def _sources(self, corpus: Corpus, target: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the training and dev rows of all domains but the target."""

    @abstractmethod
    def _target_pools(self, corpus: Corpus, target: str, random: np.random.Generator) -> Sequence[np.ndarray]:
        """Return the rows of the target to draw text and test rows from."""


@dataclass(frozen=True)
class AmazonShiftedPriors(ShiftedPriors):
    """On Amazon: text of the target's first file, tested on its second; the sources' last fold is the dev set."""

    corpus: str = "amazon"
    targets: tuple[str, ...] = ("books", "dvd", "electronics", "kitchen")

    def _sources(self, corpus: Corpus, target: str) -> tuple[np.ndarray, np.ndarray]:
        assert corpus.parts is not None and corpus.folds is not None
        sources, is_dev = (corpus.parts == "train") & (corpus.domains != target), corpus.folds == corpus.folds.max()
        return np.flatnonzero(sources & ~is_dev), np.flatnonzero(sources & is_dev)

    def _target_pools(self, corpus: Corpus, target: str, random: np.random.Generator) -> Sequence[np.ndarray]:
        assert corpus.parts is not None
        here, first = corpus.domains == target, corpus.parts == "train"
        return np.flatnonzero(here & first), np.flatnonzero(here & ~first)


@dataclass(frozen=True)
class FduShiftedPriors(ShiftedPriors):
    """On four domains of FDU-MTL: the target's labelled rows are halved, duplicates together, by each draw."""

    corpus: str = "fdu-mtl"
    targets: tuple[str, ...] = ("books", "electronics", "imdb", "baby")

    def _sources(self, corpus: Corpus, target: str) -> tuple[np.ndarray, np.ndarray]:
        assert corpus.parts is not None
        sources = corpus.labelled & np.isin(corpus.domains, self.targets) & (corpus.domains != target)
        return np.flatnonzero(sources & (corpus.parts == "train")), np.flatnonzero(sources & (corpus.parts == "dev"))

    def _target_pools(self, corpus: Corpus, target: str, random: np.random.Generator) -> Sequence[np.ndarray]:
        return parted(corpus, np.flatnonzero(corpus.labelled & (corpus.domains == target)), (0.5, 0.5), random)


@dataclass(frozen=True)
class ThreeClasses(ShiftedPriors):
    """On vader with neutral texts: targets with the class priors that they have, halved by each draw.

    A tenth of the rows of the other domains is the dev set.
    """

    corpus: str = "vader-3"
    targets: tuple[str, ...] = ("nyt", "tweets")
    prevalences: tuple[Prevalence, ...] = (None,)

    def _sources(self, corpus: Corpus, target: str) -> tuple[np.ndarray, np.ndarray]:
        rows = np.flatnonzero(corpus.domains != target)
        train, dev = parted(corpus, rows, (0.9, 0.1), np.random.default_rng(0))
        return train, dev

    def _target_pools(self, corpus: Corpus, target: str, random: np.random.Generator) -> Sequence[np.ndarray]:
        return parted(corpus, np.flatnonzero(corpus.domains == target), (0.5, 0.5), random)


def _prior(corpus: Corpus, prevalence: Prevalence) -> str:
    return "class prior as it is" if prevalence is None else f"{prevalence} % {corpus.class_names[-1]}"


def resampled(corpus: Corpus, rows: np.ndarray, prevalence: Prevalence, random: np.random.Generator) -> np.ndarray:
    """Return as many of the rows as all prevalences allow, so many per cent of them of the last class."""
    if prevalence is None:
        return rows
    is_last = corpus.labels[rows] == corpus.class_names[-1]
    rarest, most = min(is_last.sum(), (~is_last).sum()), max(*PREVALENCES, prevalence, 100 - prevalence)
    n = int(100 * rarest / most)
    wanted = round(n * prevalence / 100)
    drawn = [
        random.choice(rows[mask], size, replace=False) for mask, size in ((is_last, wanted), (~is_last, n - wanted))
    ]
    return np.sort(np.concatenate(drawn))


@dataclass(frozen=True)
class FewLabels(_DrawnRows):
    """Amazon with so many labels in every domain, half of each class, and no dev set.

    The rest of each first file is unlabelled text; the second files are the test set.
    """

    corpus: str = "amazon"
    labels: tuple[int, ...] = (5, 10, 20, 50, 200)
    draws: int = 3

    def _split_specs(self, reads_text: bool) -> list[dict[str, Any]]:
        return [{"labels": n, "draw": draw} for draw in range(1, self.draws + 1) for n in self.labels]

    def _split(self, corpus: Corpus, spec: SplitSpec) -> Split:
        assert corpus.parts is not None
        random = np.random.default_rng(spec["draw"])
        first = corpus.parts == "train"
        train = []
        for domain in corpus.domain_names:
            by_class = [
                random.permutation(np.flatnonzero(first & (corpus.domains == domain) & (corpus.labels == c)))
                for c in corpus.class_names
            ]
            rarest = min(map(len, by_class))
            alternating = np.stack([rows[:rarest] for rows in by_class], axis=1).ravel()
            train.append(alternating[: spec["labels"]])
        rows = np.sort(np.concatenate(train))
        return Split(
            train=rows,
            dev=rows[:0],
            test=np.flatnonzero(~first),
            unlabelled=np.setdiff1d(np.flatnonzero(first), rows),
            rule=f"{spec['labels']} labels in every domain, draw {spec['draw']}",
        )


SHIFTED: dict[str, Protocol] = {
    "priors": AmazonShiftedPriors(),
    "priors-fdu": FduShiftedPriors(target_texts=("train",)),
    "target-labels": AmazonShiftedPriors(draws=10, target_texts=("train",), target_labels=(0, 5, 10, 20, 50, "all")),
    "few-labels": FewLabels(),
    "three-classes": ThreeClasses(target_texts=("train",)),
}
