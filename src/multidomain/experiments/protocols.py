"""How the paper's experiments cut their corpora: what one run trains on, selects on and is tested on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from multidomain.corpus import Corpus, Selection, Split, given_split, kfold_split

TargetText: TypeAlias = Literal["train", "test"]

Place: TypeAlias = Mapping[str, Any]
"""Where a run stands in its protocol, as its record says it: a fold, or a target and how it is treated."""


class Protocol(ABC):
    """An experiment's runs and their splits."""

    corpus: str

    @abstractmethod
    def places(self, *, reads_text: bool) -> list[dict[str, Any]]:
        """Return all runs of one system and seed; `reads_text` tells whether unlabelled text can change them."""

    @abstractmethod
    def split(self, corpus: Corpus, place: Place) -> Split:
        """Cut the corpus for one run."""


@dataclass(frozen=True)
class FiveFold(Protocol):
    """Table 1: run i selects on fold i and tests on the next one; the other three train."""

    corpus: str = "amazon"
    folds: int = 5

    def places(self, *, reads_text: bool) -> list[dict[str, Any]]:
        return [{"fold": fold} for fold in range(self.folds)]

    def split(self, corpus: Corpus, place: Place) -> Split:
        return kfold_split(corpus, place["fold"], self.folds)


@dataclass(frozen=True)
class UnlabelledTarget(Protocol):
    """Table 2: each domain in turn has no labels; its second file is the test set.

    ``selection`` is ``source-dev`` (the last 400 of each source's 2,000 select, no label of the target is seen) or
    ``oracle`` (sources train on all 2,000; the labels of the target's first file select, as the authors did).
    ``target_text`` is the target's file that serves as unlabelled text: ``train``, or ``test`` (transductive). A
    system that reads no unlabelled text gives the same under both and is run once.
    """

    corpus: str = "amazon"
    targets: tuple[str, ...] = ("books", "dvd", "electronics", "kitchen")

    def places(self, *, reads_text: bool) -> list[dict[str, Any]]:
        texts = get_args(TargetText) if reads_text else ("train",)
        return [
            {"target": target, "selection": selection, "target_text": text}
            for selection in get_args(Selection)
            for text in texts
            for target in self.targets
        ]

    def split(self, corpus: Corpus, place: Place) -> Split:
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


@dataclass(frozen=True)
class GivenParts(Protocol):
    """Table 3: train, development, test and unlabelled text as the files give them."""

    corpus: str = "fdu-mtl"

    def places(self, *, reads_text: bool) -> list[dict[str, Any]]:
        return [{"parts": "given"}]

    def split(self, corpus: Corpus, place: Place) -> Split:
        return given_split(corpus)


PROTOCOLS: dict[str, Protocol] = {
    "five-fold": FiveFold(),
    "unlabelled-target": UnlabelledTarget(),
    "given-parts": GivenParts(),
}
