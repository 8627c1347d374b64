"""Small corpora for the protocols, and their splits. Imports no torch: a process that deals rows starts at once."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import CORPORA, NamedCorpus
from multidomain.data.splits import Split
from multidomain.experiments.protocols import PROTOCOLS

DOMAINS = ("books", "dvd", "electronics", "kitchen")
SCORED = ("train", "dev", "test")


@cache
def small_amazon() -> Corpus:
    """Shaped like Amazon: 50 labelled rows with folds and 24 others in each domain; some texts repeat."""
    rng = np.random.default_rng(3)
    domains = np.repeat(DOMAINS, 74)
    is_first = np.tile(np.arange(74) < 50, 4)
    y = rng.integers(0, 2, len(domains))
    x = rng.poisson(0.3 + (np.arange(20) < 8) * (np.arange(20) % 2 == y[:, None]))
    x[rng.random(len(domains)) < 0.4] = x[0]
    folds = np.where(is_first, np.concatenate([rng.permutation(74) for _ in range(4)]) % 5, -1)
    labels, parts = np.where(y, "positive", "negative"), np.where(is_first, "train", "unlabelled")
    return Corpus(sp.csr_matrix(x), labels, domains, parts=parts, folds=folds, name="amazon")


@cache
def small(protocol: str) -> Corpus:
    """Shaped like the protocol's own corpus; many texts stand more than once, in all parts."""
    if protocol != "given-parts":
        return small_amazon()
    rng = np.random.default_rng(8)
    part = np.tile(np.repeat(["train", "dev", "test", "unlabelled"], (70, 10, 20, 30)), 2)
    labels = np.where(part == "unlabelled", None, rng.choice(["negative", "positive"], len(part)))
    x = rng.poisson(1, (len(part), 30))
    repeated = rng.random(len(part)) < 0.3
    x[repeated] = rng.integers(0, 2, (repeated.sum(), 30)) * (np.arange(30) < 5)
    x[:, -1] = labels == "positive"  # an equal text has an equal label
    return Corpus(sp.csr_matrix(x), labels, np.repeat(["books", "dvd"], 130), parts=part, name="small")


def put_in_place_of_amazon(patch: pytest.MonkeyPatch, corpus: NamedCorpus) -> None:
    """Let the name mean another corpus for a while."""
    CORPORA.find("amazon")  # what registers by itself comes first
    patch.setitem(CORPORA._entries, "amazon", corpus)


def splits(protocol: str, corpus: Corpus, split_seed: int | None) -> list[Split]:
    split_specs = PROTOCOLS[protocol].split_specs(reads_text=True, split_seed=split_seed)
    return [PROTOCOLS[protocol].split(corpus, spec) for spec in split_specs]


def rows(split: Split) -> list[list[int]]:
    return [getattr(split, part).tolist() for part in (*SCORED, "unlabelled")]
