"""Documents as words in their order."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError

from multidomain.errors import ConfigError, DataError
from multidomain.features.sequences import SequenceFeaturizer

TEXTS = ["The plot is good, the cast is not", "not good", "is it?", ""]


def test_words_keep_their_order_and_their_repeats():
    sequences = SequenceFeaturizer(min_count=1).fit(TEXTS)
    rows = sequences.transform(["not the plot, the CAST", "unheard of", ""])
    words = [[sequences.vocabulary[i] for i in rows[r].indices] for r in range(3)]
    assert words == [["not", "the", "plot", "the", "cast"], ["<unknown>", "<unknown>"], []]


def test_raw_and_tokenised_text_are_one():
    sequences = SequenceFeaturizer(min_count=1).fit(["i ca n't read it", "It's good"])
    raw, tokenised = sequences.transform(["I can't read it! It's good", "i ca n't read it ! it 's good"])
    assert raw.indices.tolist() == tokenised.indices.tolist()


def test_rare_words_and_a_full_vocabulary():
    assert SequenceFeaturizer(min_count=2).fit(TEXTS).vocabulary == ["<unknown>", "is", "good", "not", "the"]
    assert SequenceFeaturizer(min_count=1, max_words=3).fit(TEXTS).vocabulary == ["<unknown>", "is", "good"]


def test_truncation():
    sequences = SequenceFeaturizer(min_count=1, max_length=2).fit(TEXTS)
    assert np.diff(sequences.transform(TEXTS).indptr).tolist() == [2, 2, 2, 0]
    assert "cast" not in sequences.vocabulary


def test_state_is_json_and_whole():
    sequences = SequenceFeaturizer(min_count=1, max_length=5).fit(TEXTS)
    settings, arrays = sequences.to_state()
    again = SequenceFeaturizer.from_state(json.loads(json.dumps(settings)), arrays)
    assert again.n_inputs == sequences.n_inputs
    np.testing.assert_array_equal(again.transform(TEXTS).indices, sequences.transform(TEXTS).indices)


def test_what_cannot_be_read():
    expected = r"reads token sequences, and the documents are vectors\. Use extractor='mlp'\."
    with pytest.raises(ConfigError, match=expected):
        SequenceFeaturizer().fit(csr_matrix((2, 3)))
    with pytest.raises(DataError, match="No word occurs 2 times or more in 2 texts"):
        SequenceFeaturizer().fit(["one", "two"])
    with pytest.raises(DataError, match=r"row 1 \(counted from 0\) is of type float"):
        SequenceFeaturizer(min_count=1).fit(["one", 2.0])
    with pytest.raises(DataError, match="got a single text"):
        SequenceFeaturizer().fit("one two")
    with pytest.raises(NotFittedError, match="call fit"):
        SequenceFeaturizer().transform(["one"])
