"""Word vectors: trained, written, read, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from multidomain.errors import ConfigError, DataError
from multidomain.features.sequences import SequenceFeaturizer
from multidomain.features.word_vectors import WordVectors, read_vectors, train_vectors, write_vectors

VECTORS = WordVectors(("good", "bad", "naïve"), np.array([[1, 2, 3], [-1, 0.5, 2e-7], [0, 0, 9]], dtype=np.float32))
PAIRS = [["red", "apple"], ["red", "cherry"], ["blue", "sky"], ["blue", "sea"]]
# Among other words: word2vec skips words that make up much of the text.
OTHERS = np.random.default_rng(0).integers(400, size=(2000, 12))
TEXTS = [[*PAIRS[i % 4], *(f"word{n}" for n in OTHERS[i])] for i in range(2000)]


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.bin"])
def test_round_trip(name: str, tmp_path: Path):
    write_vectors(VECTORS, tmp_path / name)
    read = read_vectors(tmp_path / name)
    assert read.words == VECTORS.words
    np.testing.assert_allclose(read.matrix, VECTORS.matrix, rtol=1e-5)


def test_files_of_gensim_and_glove(tmp_path: Path):
    gensim = pytest.importorskip("gensim.models")
    keyed = gensim.KeyedVectors(3)
    keyed.add_vectors(list(VECTORS.words), VECTORS.matrix)
    for name, binary in (("a.bin", True), ("a.txt", False)):
        keyed.save_word2vec_format(str(tmp_path / name), binary=binary)
        read = read_vectors(tmp_path / name)
        assert read.words == VECTORS.words
        np.testing.assert_allclose(read.matrix, VECTORS.matrix, rtol=1e-5)
    glove = tmp_path / "glove.txt"
    glove.write_text("".join((tmp_path / "a.txt").read_text("utf-8").splitlines(keepends=True)[1:]), "utf-8")
    assert read_vectors(glove).words == VECTORS.words
    keyed.save(str(tmp_path / "a.kv"))
    with pytest.raises(DataError, match="is a pickle, as gensim's own save"):
        read_vectors(tmp_path / "a.kv")


def test_files_that_are_cut_or_wrong(tmp_path: Path):
    text, binary = tmp_path / "v.txt", tmp_path / "v.bin"
    write_vectors(VECTORS, text)
    write_vectors(VECTORS, binary)
    text.write_bytes(text.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"v\.txt, line 4: expected a word and 3 numbers, got 1"):
        read_vectors(text)
    binary.write_bytes(binary.read_bytes()[:-6])
    with pytest.raises(DataError, match="ends within word 3 of 3: it is cut short"):
        read_vectors(binary)
    binary.write_bytes(b"hello\n")
    with pytest.raises(DataError, match="expected the number of words and their dimension in the first line"):
        read_vectors(binary)
    text.write_text("")
    with pytest.raises(DataError, match="holds no word vectors"):
        read_vectors(text)
    with pytest.raises(DataError, match="There is no file"):
        read_vectors(tmp_path / "none.txt")


def test_lines_that_end_in_a_blank_and_a_file_cut_between_lines(tmp_path: Path):
    path = tmp_path / "v.vec"
    path.write_text("2 3\ngood 1 2 3 \nbad 4 5 6 \n")
    assert read_vectors(path).matrix.tolist() == [[1, 2, 3], [4, 5, 6]]
    path.write_text("3 3\ngood 1 2 3\nbad 4 5 6\n")
    with pytest.raises(DataError, match="promises 3 words in its first line and holds 2: it is cut short"):
        read_vectors(path)


def test_words_that_are_all_rare_are_refused():
    with pytest.raises(DataError, match="No word occurs 2 times or more"):
        train_vectors([["one", "two"], ["three"]])


def test_a_vector_for_every_word_of_a_vocabulary():
    matrix = VECTORS.of(["<unknown>", "bad", "new", "good"], seed=1)
    np.testing.assert_array_equal(matrix[[1, 3]], VECTORS.matrix[[1, 0]])
    assert matrix[0].any() and matrix[2].any()
    np.testing.assert_array_equal(matrix, VECTORS.of(["<unknown>", "bad", "new", "good"], seed=1))


def test_training_is_repeatable_and_tells_words_apart():
    pytest.importorskip("gensim")
    told: list[tuple[int, int]] = []
    a = train_vectors(TEXTS, dimension=8, on_epoch=lambda done, of: told.append((done, of)))
    b = train_vectors(TEXTS, dimension=8)
    assert a.words == b.words and {w for pair in PAIRS for w in pair} <= set(a.words)
    np.testing.assert_array_equal(a.matrix, b.matrix)
    assert told == [(i, 5) for i in range(1, 6)]
    unit = a.matrix / np.linalg.norm(a.matrix, axis=1, keepdims=True)
    at = {word: unit[i] for i, word in enumerate(a.words)}
    assert at["apple"] @ at["cherry"] > at["apple"] @ at["sea"] + 0.1


def test_vectors_are_trained_once_and_kept(tmp_path: Path):
    pytest.importorskip("gensim")
    texts = np.array([" ".join(words) for words in TEXTS], dtype=object)
    sequences = SequenceFeaturizer().fit(texts)
    epochs: list[int] = []

    def prepare(given: str | None, dimension: int = 8) -> np.ndarray | None:
        sequences.vectors = given
        return sequences.input_vectors(texts, dimension, tmp_path, lambda done, of: epochs.append(done))

    first, second = prepare(None), prepare(None)
    assert len(epochs) == 5 and len(list(tmp_path.glob("*.bin"))) == 1
    np.testing.assert_array_equal(first, second)
    assert prepare("random") is None
    write_vectors(VECTORS, tmp_path / "given.txt")
    assert prepare(str(tmp_path / "given.txt"), dimension=3).shape == (sequences.n_inputs, 3)
    with pytest.raises(ConfigError, match="have 3 numbers each, and the extractor expects 8"):
        prepare(str(tmp_path / "given.txt"))
