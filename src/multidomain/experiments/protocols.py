"""How the paper's experiments cut their corpora: what one run trains on, selects on and is tested on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.resplit import resplit_folds, resplit_parts
from multidomain.data.splits import Selection, Split, given_split, kfold_split

TargetText: TypeAlias = Literal["train", "test"]

SplitSpec: TypeAlias = Mapping[str, Any]
"""Where a run stands in its protocol, as its record says it: a fold, or a target and how it is treated.

On a new split it has a ``split_seed`` too.
"""


class Protocol(ABC):
    """An experiment's runs and their splits.

    A run is on the split that the files give, or on a new one: the rows dealt anew by a seed, at the sizes given, with
    equal texts kept together. All else is the same on both.
    """

    corpus: str

    def places(self, *, reads_text: bool, split_seed: int | None = None) -> list[dict[str, Any]]:
        """Return all runs of one system and seed.

        Parameters
        ----------
        reads_text
            Whether unlabelled text can change them.
        split_seed
            Of a new split; None for the one that is given.
        """
        new_split = {} if split_seed is None else {"split_seed": split_seed}
        return [{**place, **new_split} for place in self._places(reads_text)]

    def split(self, corpus: Corpus, place: SplitSpec) -> Split:
        """Cut the corpus for one run."""
        seed = place.get("split_seed")
        if seed is None:
            return self._split(corpus, place)
        split = self._split(self._resplit(corpus, np.random.default_rng(seed)), place)
        return replace(split, rule=f"{split.rule}; dealt anew, split seed {seed}")

    @abstractmethod
    def _places(self, reads_text: bool) -> list[dict[str, Any]]:
        """Return all runs of one system and seed on one split."""

    @abstractmethod
    def _split(self, corpus: Corpus, place: SplitSpec) -> Split:
        """Cut the corpus by the parts and folds it has."""

    @abstractmethod
    def _resplit(self, corpus: Corpus, rng: np.random.Generator) -> Corpus:
        """Return the corpus with other rows, in the same order, in its parts and folds."""


@dataclass(frozen=True)
class FiveFold(Protocol):
    """Table 1: run i selects on fold i and tests on the next one; the other three train.

    A new split deals the labelled rows to folds anew.
    """

    corpus: str = "amazon"
    folds: int = 5

    def _places(self, reads_text: bool) -> list[dict[str, Any]]:
        return [{"fold": fold} for fold in range(self.folds)]

    def _split(self, corpus: Corpus, place: SplitSpec) -> Split:
        return kfold_split(corpus, place["fold"], self.folds)

    def _resplit(self, corpus: Corpus, rng: np.random.Generator) -> Corpus:
        return resplit_folds(corpus, rng)


@dataclass(frozen=True)
class UnlabelledTarget(Protocol):
    """Table 2: each domain in turn has no labels; its second file is the test set.

    ``selection`` is ``source-dev`` (the last 400 of each source's 2,000 select, no label of the target is seen) or
    ``oracle`` (sources train on all 2,000; the labels of the target's first file select, as the authors did).
    ``target_text`` is the target's file that serves as unlabelled text: ``train``, or ``test`` (transductive). A
    system that reads no unlabelled text gives the same under both and is run once.

    A new split pools both files of a domain and draws the first file anew, as many rows of each class as of the others;
    the rest is the second file.
    """

    corpus: str = "amazon"
    targets: tuple[str, ...] = ("books", "dvd", "electronics", "kitchen")

    def _places(self, reads_text: bool) -> list[dict[str, Any]]:
        texts = get_args(TargetText) if reads_text else ("train",)
        return [
            {"target": target, "selection": selection, "target_text": text}
            for selection in get_args(Selection)
            for text in texts
            for target in self.targets
        ]

    def _split(self, corpus: Corpus, place: SplitSpec) -> Split:
        assert corpus.parts is not None and corpus.folds is not None
        is_target, is_first = corpus.domains == place["target"], corpus.parts == "train"
        first, test = np.flatnonzero(is_target & is_first), np.flatnonzero(is_target & ~is_first)
        sources, oracle = is_first & ~is_target, place["selection"] == "oracle"
        last_fold = corpus.folds == corpus.folds.max()
        return Split(
            train=np.flatnonzero(sources if oracle else sources & ~last_fold),
            dev=first if oracle else np.flatnonzero(sources & last_fold),
            test=test,
            unlabelled=first if place["target_text"] == "train" else test,
            rule=f"target {place['target']}, {place['selection']}, text of its {place['target_text']} file",
            selection=place["selection"],
            transductive=place["target_text"] == "test",
        )

    def _resplit(self, corpus: Corpus, rng: np.random.Generator) -> Corpus:
        return resplit_folds(resplit_parts(corpus, ["train"], "unlabelled", rng), rng)


@dataclass(frozen=True)
class GivenParts(Protocol):
    """Table 3: train, development, test and unlabelled text as the files give them.

    A new split pools the labelled rows of a domain and draws all three parts anew; unlabelled text stays.
    """

    corpus: str = "fdu-mtl"

    def _places(self, reads_text: bool) -> list[dict[str, Any]]:
        return [{"parts": "given"}]

    def _split(self, corpus: Corpus, place: SplitSpec) -> Split:
        return given_split(corpus)

    def _resplit(self, corpus: Corpus, rng: np.random.Generator) -> Corpus:
        return resplit_parts(corpus, ["dev", "test"], "train", rng)


PROTOCOLS: dict[str, Protocol] = {
    "five-fold": FiveFold(),
    "unlabelled-target": UnlabelledTarget(),
    "given-parts": GivenParts(),
}
