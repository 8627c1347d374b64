"""Word vectors for a run: from a file, from the cache, or trained on the run's own text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from multidomain.errors import ConfigError
from multidomain.features.sequences import SequenceFeaturizer
from multidomain.features.word_vectors import read_vectors, train_vectors, vectors_key, write_vectors
from multidomain.files import lock

RANDOM = "random"


def word_vectors(
    sequences: SequenceFeaturizer,
    texts: np.ndarray,
    dimension: int,
    given: str | None,
    cache: Path,
    on_epoch: Callable[[int, int], None],
) -> np.ndarray | None:
    """Return a vector for each word of fitted sequences; None for random ones.

    Parameters
    ----------
    texts
        What vectors are trained on when none are given.
    given
        A file of vectors, ``random``, or None to train them; trained ones are kept in the folder `cache`.
    """
    assert sequences.vocabulary is not None
    if given == RANDOM:
        return None
    if given is not None:
        vectors = read_vectors(Path(given))
        if vectors.dimension != dimension:
            raise ConfigError(
                f"The vectors in {given} have {vectors.dimension} numbers each, and the extractor expects {dimension}. "
                f"Set dimension={vectors.dimension}, or give other vectors."
            )
        return vectors.of(sequences.vocabulary)
    words = list(sequences.words(texts))
    path = cache / f"{vectors_key(words, dimension, sequences.min_count)[:32]}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as guard:
        lock(guard, wait=True)  # two runs that need the same vectors at once train them once
        if not path.exists():
            trained = train_vectors(words, dimension=dimension, min_count=sequences.min_count, on_epoch=on_epoch)
            write_vectors(trained, path)
    return read_vectors(path).of(sequences.vocabulary)
