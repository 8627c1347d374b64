"""Documents as sparse rows of n-gram weights."""

from __future__ import annotations

import heapq
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from multidomain.errors import ConfigError, DataError, ModelError, counted, did_you_mean
from multidomain.features.tokens import TOKEN_PATTERN, normalise

Weighting: TypeAlias = Literal["counts", "tfidf", "raw"]
Documents: TypeAlias = Sequence[str] | NDArray[Any] | sp.spmatrix | sp.sparray

# An n-gram while it is counted: the token itself or, from bigrams on, a tuple of tokens. Joining every n-gram
# of a text into a string only to look it up took as long as finding the tokens.
_Ngram: TypeAlias = str | tuple[str, ...]

_find_tokens = re.compile(TOKEN_PATTERN).findall


class NgramFeaturizer:
    r"""Documents to sparse rows of n-gram weights. Fitted on training and unlabelled text, never on test.

    ``counts`` is how often an n-gram occurs in the document. ``tfidf`` is, before each row is scaled to
    Euclidean length 1,

    .. math:: (1 + \log \mathit{count}) \cdot \left(1 + \log \frac{1 + n}{1 + \mathit{df}}\right)

    where `df` of the `n` fitted documents hold the n-gram. ``raw`` leaves given vectors as they are.

    Documents are texts, or the rows of a sparse matrix that was counted elsewhere: its columns stay as they
    are, and `max_features` and `ngram_range` have no effect.

    Parameters
    ----------
    weighting : {"counts", "tfidf", "raw"}, default="counts"
        What stands in the cells.
    max_features : int, default=5000
        Keep the n-grams that occur most often, at most this many; the alphabet decides between equals.
    ngram_range : (int, int), default=(1, 2)
        Shortest and longest n-gram, in tokens.

    Attributes
    ----------
    n_inputs : int
        Width of a row; 0 before `fit`.
    vocabulary : list of str or None
        The n-gram of each column, most frequent first; None for vectors.

    Examples
    --------
    >>> features = NgramFeaturizer(max_features=3, ngram_range=(1, 1)).fit(["good, good book", "not a good film"])
    >>> features.vocabulary
    ['good', 'a', 'book']
    >>> features.transform(["A GOOD, good read"]).toarray()
    array([[2., 1., 0.]], dtype=float32)
    """

    def __init__(
        self,
        weighting: Weighting = "counts",
        max_features: int = 5000,
        ngram_range: tuple[int, int] = (1, 2),
    ) -> None:
        shortest, longest = ngram_range
        faults = []
        if weighting not in get_args(Weighting):
            faults.append(f"Unknown weighting '{weighting}'.{did_you_mean(weighting, get_args(Weighting))}")
        if max_features < 1:
            faults.append(f"max_features must be at least 1, got {max_features}.")
        if not 1 <= shortest <= longest:
            faults.append(f"ngram_range must be (shortest, longest), 1 or more, got {tuple(ngram_range)}.")
        if faults:
            raise ConfigError(" ".join(faults))
        self.weighting = weighting
        self.max_features = max_features
        self.ngram_range = (shortest, longest)
        self.n_inputs = 0
        self.vocabulary: list[str] | None = None
        self._column_of: dict[_Ngram, int] = {}
        self._idf: NDArray[np.float32] | None = None

    def fit(self, documents: Documents) -> Self:
        """Choose the n-grams and, for tfidf, learn how many documents hold each.

        Parameters
        ----------
        documents : sequence of str, or sparse matrix of shape (documents, columns)
            Training and unlabelled documents.

        Returns
        -------
        NgramFeaturizer
            This object.
        """
        if sp.issparse(documents):
            self._set_columns(None, np.shape(documents)[1])
            if self.n_inputs == 0:
                raise DataError("Expected vectors with at least 1 column, got 0 columns.")
        elif self.weighting == "raw":
            raise ConfigError("Weighting 'raw' is for vectors, and the documents are texts. Use 'counts' or 'tfidf'.")
        else:
            vocabulary = self._most_frequent(documents)
            self._set_columns(vocabulary, len(vocabulary))
        if self.weighting == "tfidf":
            counts = self._rows(documents)
            document_frequency = np.bincount(counts.indices, minlength=self.n_inputs)
            idf = 1 + np.log((1 + counts.shape[0]) / (1 + document_frequency))
            self._idf = idf.astype(np.float32)
        elif self.vocabulary is None:
            self._rows(documents)  # bad values must be found now, not at the first transform
        return self

    def transform(self, documents: Documents) -> sp.csr_matrix:
        """Return one row of weights for each document.

        Parameters
        ----------
        documents : sequence of str, or sparse matrix of shape (documents, n_inputs)
            Of the kind that `fit` was given.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (documents, n_inputs)
            float32, indices sorted, no zeros stored. A document without known n-grams is an empty row.
        """
        self._check_fitted()
        rows = self._rows(documents)
        if self._idf is not None:
            weights = (1 + np.log(rows.data)) * self._idf[rows.indices]
            row_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            lengths = np.sqrt(np.bincount(row_of, weights=np.square(weights), minlength=rows.shape[0]))
            rows.data = (weights / lengths[row_of]).astype(np.float32)
        return rows

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all that `from_state` needs: settings that JSON can hold, and arrays."""
        self._check_fitted()
        settings = {
            "weighting": self.weighting,
            "max_features": self.max_features,
            "ngram_range": list(self.ngram_range),
            "n_inputs": self.n_inputs,
            "vocabulary": self.vocabulary,
        }
        return settings, {} if self._idf is None else {"idf": self._idf}

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return features that transform exactly as those which gave this state."""
        shortest, longest = settings["ngram_range"]
        features = cls(settings["weighting"], settings["max_features"], (shortest, longest))
        features._set_columns(settings["vocabulary"], settings["n_inputs"])
        widths = {"n_inputs": features.n_inputs}
        if features.vocabulary is not None:
            widths["vocabulary"] = len(features._column_of)
        if features.weighting == "tfidf":
            features._idf = np.asarray(arrays["idf"], dtype=np.float32)
            widths["idf"] = len(features._idf)
        if len(set(widths.values())) > 1:
            raise ModelError(
                f"The saved features contradict themselves: the widths {widths} should be equal. "
                "The model was altered or damaged; save it again."
            )
        return features

    def _set_columns(self, vocabulary: list[str] | None, n_inputs: int) -> None:
        self.vocabulary = vocabulary
        self.n_inputs = n_inputs
        self._column_of = {_split(ngram): column for column, ngram in enumerate(vocabulary or [])}
        self._idf = None

    def _check_fitted(self) -> None:
        if self.n_inputs == 0:
            raise NotFittedError("NgramFeaturizer is not fitted: call fit() first.")

    def _most_frequent(self, texts: Sequence[str] | NDArray[Any]) -> list[str]:
        counts: Counter[_Ngram] = Counter()
        for ngrams in self._ngrams(texts):
            counts.update(ngrams)
        if not counts:
            raise DataError(
                f"No n-gram found in {counted(len(texts), 'text')}: they are empty, hold only punctuation, "
                f"or are shorter than {counted(self.ngram_range[0], 'token')}. Check the text column."
            )
        least = heapq.nlargest(self.max_features, counts.values())[-1]
        candidates = [(-count, _join(ngram)) for ngram, count in counts.items() if count >= least]
        return [ngram for _, ngram in sorted(candidates)[: self.max_features]]

    def _ngrams(self, texts: Sequence[str] | NDArray[Any]) -> Iterator[list[_Ngram]]:
        """Yield the n-grams of each text, repeats included."""
        if isinstance(texts, str):
            raise DataError("Expected a list of texts, got a single text. Put it into a list.")
        shortest, longest = self.ngram_range
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise DataError(
                    f"Expected texts; row {row} (counted from 0) is of type {type(text).__name__}. "
                    "Drop the row, or give a sparse matrix if the documents are vectors."
                )
            tokens: list[str] = _find_tokens(normalise(text))
            ngrams: list[_Ngram] = [*tokens] if shortest == 1 else []
            for n in range(max(2, shortest), longest + 1):
                ngrams += zip(*(tokens[start:] for start in range(n)), strict=False)
            yield ngrams

    def _rows(self, documents: Documents) -> sp.csr_matrix:
        """Return counts of texts, or the checked values of vectors, in canonical form."""
        if sp.issparse(documents):
            rows = self._vector_rows(documents)
        elif self.vocabulary is None:
            raise DataError(
                f"Expected vectors of {counted(self.n_inputs, 'column')}, as in training; got texts. "
                "Give a sparse matrix, or train on texts."
            )
        else:
            rows = self._text_rows(documents)
        return rows

    def _text_rows(self, texts: Sequence[str] | NDArray[Any]) -> sp.csr_matrix:
        find_column = self._column_of.get
        columns, ends = array("i"), array("q", [0])
        for ngrams in self._ngrams(texts):
            columns.extend([column for column in map(find_column, ngrams) if column is not None])
            ends.append(len(columns))
        ones = np.ones(len(columns), dtype=np.float32)
        rows = sp.csr_matrix((ones, np.array(columns), np.array(ends)), shape=(len(ends) - 1, self.n_inputs))
        rows.sum_duplicates()  # here the ones become counts; it also sorts the indices
        return rows

    def _vector_rows(self, vectors: sp.spmatrix | sp.sparray) -> sp.csr_matrix:
        if self.vocabulary is not None:
            raise DataError(
                f"Expected texts, as in training; got vectors of {counted(vectors.shape[1], 'column')}. "
                "Give a list of texts, or train on vectors."
            )
        if vectors.shape[1] != self.n_inputs:
            raise DataError(
                f"The model expects {counted(self.n_inputs, 'column')}, got {vectors.shape[1]:,}: "
                "the vocabulary does not match. Count the n-grams with the vocabulary of the training data."
            )
        rows = sp.csr_matrix(vectors, dtype=np.float32, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        self._check_values(rows)
        return rows

    def _check_values(self, rows: sp.csr_matrix) -> None:
        if self.weighting == "raw":
            bad, expected = ~np.isfinite(rows.data), "finite numbers"
        elif self.weighting == "counts":
            bad, expected = ~(np.isfinite(rows.data) & (rows.data > 0)), "counts of 0 or more"
        else:
            # Below 1 the logarithm of tf would turn the weight of an n-gram down to negative.
            bad, expected = ~(np.isfinite(rows.data) & (rows.data >= 1)), "counts: 0, or 1 and more"
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            row = int(np.searchsorted(rows.indptr, first, side="right")) - 1
            way_out = "" if self.weighting == "raw" else " If the vectors are not counts, use weighting 'raw'."
            raise DataError(
                f"Weighting '{self.weighting}' expects {expected}; row {row} (counted from 0) has "
                f"{rows.data[first]:g} in column {rows.indices[first]}.{way_out}"
            )


def _split(ngram: str) -> _Ngram:
    return tuple(ngram.split(" ")) if " " in ngram else ngram


def _join(ngram: _Ngram) -> str:
    return ngram if isinstance(ngram, str) else " ".join(ngram)
