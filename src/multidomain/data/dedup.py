"""Deduplication keys: equal for documents with the same text."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from multidomain.data.texts import Texts

_NOT_LETTER_OR_DIGIT = re.compile(r"[\W_]+")
_NOT_ASCII_ALNUM = bytes(b for b in range(128) if not chr(b).isalnum())


def letters_and_digits(text: str) -> bytes:
    """Return the letters and digits of `text` in lower case, as UTF-8.

    A text with no letter or digit at all is compared as it stands: otherwise all texts of emoji, and the
    empty text, would be one and the same.

    Examples
    --------
    >>> letters_and_digits("It's GREAT, 10/10!")
    b'itsgreat1010'
    >>> letters_and_digits(" :-) ")
    b':-)'
    """
    if text.isascii():  # the usual case, and several times faster than the regular expression
        kept = text.lower().encode().translate(None, _NOT_ASCII_ALNUM)
    else:
        composed = unicodedata.normalize("NFC", text).lower()
        kept = _NOT_LETTER_OR_DIGIT.sub("", composed).encode("utf-8", "surrogatepass")
    return kept or text.strip().encode("utf-8", "surrogatepass")


def document_keys(documents: np.ndarray | Texts | sp.csr_matrix) -> np.ndarray:
    """Return a 64-bit key for each document: equal when the normalised text, or the row, is equal.

    The keys are digests, the same on every machine and for every corpus, so parts of different corpora can
    be compared. Two different texts among a million share a key with a chance of about 3 in 10^8.
    """
    contents = _row_contents(documents) if sp.issparse(documents) else map(letters_and_digits, documents)
    digests = (int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little") for content in contents)
    return np.fromiter(digests, dtype=np.uint64, count=documents.shape[0])


def canonical_rows(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Return `matrix` with sorted indices, no duplicates and no stored zeros: equal rows, equal bytes."""
    rows = matrix.copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def _row_contents(matrix: sp.csr_matrix) -> Iterator[bytes]:
    rows = canonical_rows(matrix)
    indices, values = rows.indices.astype("<i8"), rows.data.astype("<f4")
    for start, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        yield indices[start:end].tobytes() + values[start:end].tobytes()
