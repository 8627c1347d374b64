"""The paper's protocols: what one run trains on, selects on and is tested on."""

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
"""The split of a run within its protocol, as in its record: a fold, or a target and how it is treated.

On a new split it has a ``split_seed`` too.
"""


class Protocol(ABC):
    """An experiment's runs and their splits.

    A run uses the given split, or a new one: the data re-split by a seed, at the given sizes, with duplicates kept
    together. All else is the same on both.
    """

    corpus: str

    def split_specs(self, *, reads_text: bool, split_seed: int | None = None) -> list[dict[str, Any]]:
        """Return all runs of one system and seed.

        Parameters
        ----------
        reads_text
            Whether unlabelled text can change them.
        split_seed
            Of a new split; None for the one that is given.
        """
        new_split = {} if split_seed is None else {"split_seed": split_seed}
        return [{**spec, **new_split} for spec in self._split_specs(reads_text)]

    def split(self, corpus: Corpus, spec: SplitSpec) -> Split:
        """Split the corpus for one run."""
        seed = spec.get("split_seed")
        if seed is None:
            return self._split(corpus, spec)
        split = self._split(self._resplit(corpus, np.random.default_rng(seed)), spec)
        return replace(split, rule=f"{split.rule}; re-split with seed {seed}")

    @abstractmethod
    def _split_specs(self, reads_text: bool) -> list[dict[str, Any]]:
        """Return all runs of one system and seed on one split."""

    @abstractmethod
    def _split(self, corpus: Corpus, spec: SplitSpec) -> Split:
        """Split the corpus by its parts and folds."""

    @abstractmethod
    def _resplit(self, corpus: Corpus, rng: np.random.Generator) -> Corpus:
        """Return the corpus with its rows, in the same order, re-split into its parts and folds."""


@dataclass(frozen=True)
class FiveFold(Protocol):
    """Table 1: run i selects on fold i and tests on the next one; the other three train.

    A new split re-splits the labelled rows into folds.
    """

    corpus: str = "amazon"
    folds: int = 5

    def _split_specs(self, reads_text: bool) -> list[dict[str, Any]]:
        return [{"fold": fold} for fold in range(self.folds)]

    def _split(self, corpus: Corpus, spec: SplitSpec) -> Split:
        return kfold_split(corpus, spec["fold"], self.folds)

    def _resplit(self, corpus: Corpus, rng: np.random.Generator) -> Corpus:
        return resplit_folds(corpus, rng)


@dataclass(frozen=True)
class UnlabelledTarget(Protocol):
    """Table 2: each domain in turn has no labels; its second file is the test set.

    ``selection`` is ``source-dev`` (the last 400 of each source's 2,000 select, no label of the target is seen) or
    ``oracle`` (sources train on all 2,000; the labels of the target's first file select, as the authors did).
    ``target_text`` is the target's file that serves as unlabelled text: ``train``, or ``test`` (transductive). A
    system that reads no unlabelled text gives the same under both and is run once.

    A new split pools both files of a domain and draws a new first file with balanced classes; the rest is the second
    file.
    """

    corpus: str = "amazon"
    targets: tuple[str, ...] = ("books", "dvd", "electronics", "kitchen")

    def _split_specs(self, reads_text: bool) -> list[dict[str, Any]]:
        texts = get_args(TargetText) if reads_text else ("train",)
        return [
            {"target": target, "selection": selection, "target_text": text}
            for selection in get_args(Selection)
            for text in texts
            for target in self.targets
        ]

    def _split(self, corpus: Corpus, spec: SplitSpec) -> Split:
        assert corpus.parts is not None and corpus.folds is not None
        is_target, is_first = corpus.domains == spec["target"], corpus.parts == "train"
        first, test = np.flatnonzero(is_target & is_first), np.flatnonzero(is_target & ~is_first)
        sources, oracle = is_first & ~is_target, spec["selection"] == "oracle"
        last_fold = corpus.folds == corpus.folds.max()
        return Split(
            train=np.flatnonzero(sources if oracle else sources & ~last_fold),
            dev=first if oracle else np.flatnonzero(sources & last_fold),
            test=test,
            unlabelled=first if spec["target_text"] == "train" else test,
            rule=f"target {spec['target']}, {spec['selection']}, text of its {spec['target_text']} file",
            selection=spec["selection"],
            transductive=spec["target_text"] == "test",
        )

    def _resplit(self, corpus: Corpus, rng: np.random.Generator) -> Corpus:
        return resplit_folds(resplit_parts(corpus, ["train"], "unlabelled", rng), rng)


@dataclass(frozen=True)
class GivenParts(Protocol):
    """Table 3: train, dev, test and unlabelled text as given by the files.

    A new split pools the labelled rows of a domain and re-splits them into all three parts; unlabelled text stays.
    """

    corpus: str = "fdu-mtl"

    def _split_specs(self, reads_text: bool) -> list[dict[str, Any]]:
        return [{"parts": "given"}]

    def _split(self, corpus: Corpus, spec: SplitSpec) -> Split:
        return given_split(corpus)

    def _resplit(self, corpus: Corpus, rng: np.random.Generator) -> Corpus:
        return resplit_parts(corpus, ["dev", "test"], "train", rng)


PROTOCOLS: dict[str, Protocol] = {
    "five-fold": FiveFold(),
    "unlabelled-target": UnlabelledTarget(),
    "given-parts": GivenParts(),
}
"""The paper's."""
