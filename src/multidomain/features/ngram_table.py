"""From tokens to the columns of their n-grams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from multidomain.arrays import ArrayWriter
from multidomain.features.tokens import TokenSequences, are_few, hashed_tokens, tokenise
from multidomain.kernels.hashing import extended
from multidomain.kernels.parallel import chunks, map_ahead
from multidomain.stages import stage


class NgramTable:
    """Columns of n-grams by their hashes.

    Parameters
    ----------
    hashes : ndarray of uint64
        Hash of the n-gram of each column.
    longest : int
        Longest n-gram, in tokens.

    Raises
    ------
    ValueError
        Two columns have the same hash, or one has the hash 0, which marks what is empty.
    """

    def __init__(self, hashes: np.ndarray, longest: int):
        self.columns = np.argsort(hashes).astype(np.int32)
        self.hashes = hashes[self.columns]
        self.longest = longest
        if (self.hashes[1:] == self.hashes[:-1]).any() or not self.hashes.all():
            raise ValueError("two n-grams are the same or have the same hash, or one has the hash 0")

    def hashes_of(self, columns: np.ndarray) -> np.ndarray:
        """Return the hashes of the n-grams of some columns."""
        hashes = np.empty_like(self.hashes)
        hashes[self.columns] = self.hashes
        return hashes[columns]

    def rows(self, documents: Sequence[str] | TokenSequences, idf: np.ndarray | None = None) -> sp.csr_matrix:
        """Return how often each n-gram occurs in each document, or tf-idf if there is an `idf`, in canonical form."""
        return self._rows(tokenise(documents), idf) if are_few(documents) else self._rows_compiled(documents, idf)

    def document_frequencies(self, documents: Sequence[str] | TokenSequences) -> np.ndarray:
        """Return in how many documents the n-gram of each column occurs."""
        if are_few(documents):
            return np.bincount(self.rows(documents).indices, minlength=len(self.columns))
        found = np.zeros(len(self.columns), dtype=np.int64)
        for _, columns, _ in self._some_rows(documents, None):
            found += np.bincount(columns, minlength=len(self.columns))
        return found

    def _rows(self, documents: TokenSequences, idf: np.ndarray | None) -> sp.csr_matrix:
        found = list(self._found(documents))
        row = np.concatenate([row for row, _ in found] or [np.empty(0, dtype=np.int64)])
        column = np.concatenate([column for _, column in found] or [np.empty(0, dtype=np.int32)])
        shape = (len(documents), len(self.columns))
        matrix = sp.csr_matrix((np.ones(len(row), dtype=np.float32), (row, column)), shape=shape)
        matrix.sum_duplicates()  # also sorts the indices
        return matrix if idf is None else with_tfidf(matrix, idf)

    def _found(self, documents: TokenSequences) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows and columns of the n-grams of each length."""
        tokens, row_of_token = documents.hashes, documents.row_of_token
        end_of_row = documents.offsets[1:]
        at, ngrams = np.arange(len(tokens)), tokens
        for n in range(1, self.longest + 1):
            if n > 1:
                inside = at + n <= end_of_row[row_of_token[at]]
                at = at[inside]
                ngrams = extended(ngrams[inside], tokens[at + n - 1])
            if not (len(at) and len(self.hashes)):
                return
            place = np.minimum(np.searchsorted(self.hashes, ngrams), len(self.hashes) - 1)
            known = self.hashes[place] == ngrams
            yield row_of_token[at[known]], self.columns[place[known]]

    @cached_property
    def _slots(self) -> tuple[np.ndarray, np.ndarray]:
        from multidomain.kernels.ngrams import hash_table

        return hash_table(self.hashes, self.columns)

    def _rows_compiled(self, documents: Sequence[str] | TokenSequences, idf: np.ndarray | None) -> sp.csr_matrix:
        values, columns, lengths = ArrayWriter(np.float32), ArrayWriter(np.int32), []
        for some_values, some_columns, starts in self._some_rows(documents, idf):
            values.append(some_values)
            columns.append(some_columns)
            lengths.append(np.diff(starts))
        indptr = np.r_[0, np.cumsum(np.concatenate(lengths))]
        return sp.csr_matrix((values.finish(), columns.finish(), indptr), shape=(len(documents), len(self.columns)))

    def _some_rows(
        self, documents: Sequence[str] | TokenSequences, idf: np.ndarray | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield the values, columns and starts of some rows after others."""
        from multidomain.kernels.ngrams import ngram_rows

        slots, column_of_slot = self._slots

        def some_rows(rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            some = documents[rows]
            tokens = some if isinstance(some, TokenSequences) else hashed_tokens(some)
            longest_text = int(np.diff(tokens.offsets).max(initial=0))
            tf = _tf(np.arange(longest_text + 1, dtype=np.float32))
            idf_or_none = np.empty(0, dtype=np.float32) if idf is None else idf
            return ngram_rows(tokens.hashes, tokens.offsets, self.longest, slots, column_of_slot, tf, idf_or_none)

        parts = chunks(len(documents))
        yield from stage("rows of n-grams", map_ahead(some_rows, parts), len(parts))


def with_tfidf(counts: sp.csr_matrix, idf: np.ndarray) -> sp.csr_matrix:
    """Return tf-idf of counts, each row of Euclidean length 1."""
    weights = _tf(counts.data) * idf[counts.indices]
    row_of = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    lengths = np.sqrt(np.bincount(row_of, weights=np.square(weights), minlength=counts.shape[0]))
    counts.data = (weights / lengths[row_of]).astype(np.float32)
    return counts


def _tf(counts: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):  # of 0, which no n-gram of a document has
        return 1 + np.log(counts)
