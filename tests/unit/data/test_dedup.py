"""Keys of documents: each row has its own, and they are the same on every machine and in every version.

A run keeps the keys of what it has seen, so a key may never change.
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import scipy.sparse as sp

from multidomain.data.dedup import canonical_rows, document_keys


def key(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def test_each_text_has_the_key_of_its_letters_and_digits():
    texts = np.array(["It's GREAT, 10/10!", "poor", " :-) ", "Élan vital"], dtype=object)
    expected = [b"itsgreat1010", b"poor", b":-)", "élanvital".encode()]
    assert document_keys(texts).tolist() == [key(content) for content in expected]


def test_keys_do_not_change():
    assert document_keys(np.array(["a", "b"], dtype=object)).tolist() == [3405396810240292928, 8453121595177857668]


def test_each_vector_has_the_key_of_its_columns_and_values():
    rows = sp.csr_matrix(np.array([[0, 2, 0, 3], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=np.float32))
    contents = [struct.pack("<qq", 1, 3) + struct.pack("<ff", 2, 3), struct.pack("<q", 0) + struct.pack("<f", 1), b""]
    assert document_keys(rows).tolist() == [key(content) for content in contents]


def test_equal_vectors_have_equal_rows_however_they_are_stored():
    data, columns = np.array([3.0, 2.0, 0.0, 1.0, 1.0]), np.array([3, 1, 2, 0, 0])
    untidy = sp.csr_matrix((data, columns, np.array([0, 3, 5])), shape=(2, 4))
    tidy = canonical_rows(untidy)
    assert tidy.toarray().tolist() == [[0, 2, 0, 3], [2, 0, 0, 0]]
    assert (tidy.indices.tolist(), tidy.indptr.tolist()) == ([1, 3, 0], [0, 2, 3])
    assert untidy.nnz == 5, "the given matrix stays as it was"
