"""Word vectors: trained on a corpus, or read from a file."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.errors import ConfigError, DataError
from multidomain.files import lock, whole_file

EPOCHS = 5
WINDOW = 5
RANDOM = "random"


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors, shape (words, dimension)."""

    words: tuple[str, ...]
    matrix: np.ndarray

    @property
    def dimension(self) -> int:
        """Return the length of a vector."""
        return self.matrix.shape[1]

    def of(self, vocabulary: Sequence[str], seed: int = 0) -> np.ndarray:
        """Return a vector for each word of a vocabulary; missing words get random vectors of the same variance."""
        place = {word: i for i, word in enumerate(self.words)}
        random = np.random.default_rng(seed)
        matrix = random.normal(0.0, float(self.matrix.std()), (len(vocabulary), self.dimension)).astype(np.float32)
        known = [(row, place[word]) for row, word in enumerate(vocabulary) if word in place]
        if known:
            rows, places = np.array(known).T
            matrix[rows] = self.matrix[places]
        return matrix


def word_vectors(
    vocabulary: Sequence[str],
    texts: Sequence[Sequence[str]],
    dimension: int,
    given: str | None,
    min_count: int,
    cache: Path,
    on_epoch: Callable[[int, int], None] = lambda done, total: None,
) -> np.ndarray | None:
    """Return a vector for each word of a vocabulary; None for random ones.

    Parameters
    ----------
    texts, min_count
        Tokenised texts to train vectors on if none are given, and the minimum count of a word.
    given
        A file of vectors, ``random``, or None to train them; trained vectors are cached in the folder `cache`.
    """
    if given == RANDOM:
        return None
    if given is not None:
        vectors = read_vectors(Path(given))
        if vectors.dimension != dimension:
            raise ConfigError(
                f"The vectors in {given} have {vectors.dimension} numbers each, and the extractor expects {dimension}.",
                f"Set {{settings.dimension={vectors.dimension}}}, or give other vectors.",
            )
        return vectors.of(vocabulary)
    path = cache / f"{vectors_key(texts, dimension, min_count)[:32]}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as guard:
        lock(guard, wait=True)  # concurrent runs that need the same vectors train them once
        if not path.exists():
            trained = train_vectors(texts, dimension=dimension, min_count=min_count, on_epoch=on_epoch)
            write_vectors(trained, path)
    return read_vectors(path).of(vocabulary)


def train_vectors(
    texts: Sequence[Sequence[str]],
    *,
    dimension: int = 100,
    min_count: int = 2,
    on_epoch: Callable[[int, int], None] = lambda done, of: None,
) -> WordVectors:
    """Train word2vec (skip-gram) on tokenised texts; the same texts give the same vectors."""
    try:
        from gensim.models import Word2Vec
        from gensim.models.callbacks import CallbackAny2Vec
    except ModuleNotFoundError:
        raise ConfigError(
            "Word vectors are trained with gensim, which is not installed.",
            "Install 'multidomain[vectors]', give a file of vectors ({vectors=FILE}), or start from random ones "
            "({vectors=random}).",
        ) from None

    if not any(count >= min_count for count in Counter(word for words in texts for word in words).values()):
        raise DataError(f"No word occurs {min_count} times or more: there is nothing to train word vectors on.")

    class Told(CallbackAny2Vec):
        done = 0

        def on_epoch_end(self, model: Any) -> None:
            self.done += 1
            on_epoch(self.done, EPOCHS)

    model = Word2Vec(
        texts,
        vector_size=dimension,
        window=WINDOW,
        min_count=min_count,
        sg=1,
        epochs=EPOCHS,
        seed=1,
        workers=1,  # more would make the result non-deterministic
        callbacks=[Told()],
    )
    return WordVectors(tuple(model.wv.index_to_key), np.asarray(model.wv.vectors, dtype=np.float32))


def vectors_key(texts: Iterable[Sequence[str]], dimension: int, min_count: int) -> str:
    """Return a hash of everything the trained vectors depend on."""
    settings = {"dimension": dimension, "min_count": min_count, "epochs": EPOCHS, "window": WINDOW}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for words in texts:
        digest.update(" ".join(words).encode() + b"\n")
    return digest.hexdigest()


def write_vectors(vectors: WordVectors, path: Path) -> None:
    """Write vectors in word2vec format: text, or binary if the name ends in ``.bin``."""
    header = f"{len(vectors.words)} {vectors.dimension}\n".encode()
    with whole_file(path) as temporary, temporary.open("wb") as file:
        file.write(header)
        for word, vector in zip(vectors.words, vectors.matrix, strict=True):
            if path.suffix == ".bin":
                file.write(word.encode() + b" " + vector.astype("<f4").tobytes() + b"\n")
            else:
                file.write(f"{word} {' '.join(f'{value:.6g}' for value in vector)}\n".encode())


def read_vectors(path: Path) -> WordVectors:
    """Read vectors in word2vec format, text or binary, or in GloVe format, which is text without a header."""
    if not path.is_file():
        raise DataError(f"There is no file {path} with word vectors.")
    with path.open("rb") as file:
        start = file.read(2)
    if start[:1] == b"\x80":
        raise DataError(
            f"{path} is a pickle, as gensim's own save() writes it, which could run anything when loaded. Write it "
            "with save_word2vec_format() instead."
        )
    vectors = _read_binary(path) if path.suffix == ".bin" else _read_text(path)
    bad = np.flatnonzero(~np.isfinite(vectors.matrix).all(axis=1))
    if len(bad):
        raise DataError(f"{path}: the vector of word {bad[0] + 1} is not finite. Fetch or write it again.")
    return vectors


def _read_binary(path: Path) -> WordVectors:
    content = path.read_bytes()
    header, _, rest = content.partition(b"\n")
    try:
        count, dimension = (int(number) for number in header.split())
        if min(count, dimension) < 1:
            raise ValueError
    except ValueError:
        raise DataError(
            f"{path}: expected the number of words and their dimension in the first line, got {header[:40]!r}."
        ) from None
    if count * (4 * dimension + 2) > len(rest) + 1:  # before memory is taken for what the header promises
        raise DataError(
            f"{path} promises {count:,} words of {dimension:,} numbers, and is too short for that: it is cut short. "
            "Fetch or write it again."
        )
    words, matrix, at = [], np.empty((count, dimension), dtype=np.float32), 0
    for row in range(count):
        blank = rest.find(b" ", at)
        end = blank + 1 + 4 * dimension
        if blank < 0 or end > len(rest):
            raise DataError(f"{path} ends within word {row + 1} of {count}: it is cut short. Fetch or write it again.")
        words.append(rest[at:blank].lstrip(b"\n").decode("utf-8", errors="replace"))
        matrix[row] = np.frombuffer(rest, dtype="<f4", count=dimension, offset=blank + 1)
        at = end
    return WordVectors(tuple(words), matrix)


def _read_text(path: Path) -> WordVectors:
    words: list[str] = []
    rows: list[np.ndarray] = []
    dimension: int | None = None
    wanted: int | None = None
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            parts = line.rstrip().split(" ")
            if number == 1 and len(parts) == 2 and all(part.isdecimal() and len(part) < 20 for part in parts):
                wanted, dimension = (int(part) for part in parts)
                continue
            dimension = dimension or len(parts) - 1
            word, values = " ".join(parts[:-dimension]), parts[-dimension:]
            try:
                if len(parts) <= dimension:
                    raise ValueError
                rows.append(np.array(values, dtype=np.float32))
            except ValueError:
                raise DataError(
                    f"{path}, line {number}: expected a word and {dimension} numbers, got {len(parts) - 1}. The file "
                    "is cut short or holds vectors of several lengths."
                ) from None
            words.append(word)
    if not rows:
        raise DataError(f"{path} holds no word vectors.")
    if wanted is not None and wanted != len(rows):
        raise DataError(
            f"{path} promises {wanted:,} words in its first line and holds {len(rows):,}: it is cut short. Fetch or "
            "write it again."
        )
    return WordVectors(tuple(words), np.stack(rows))
