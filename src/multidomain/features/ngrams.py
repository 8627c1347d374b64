"""Documents as sparse rows of n-gram weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multidomain.errors import ConfigError, DataError, ModelError, counted, did_you_mean
from multidomain.features.base import Featurizer, State, register
from multidomain.features.ngram_counts import frequent_ngrams
from multidomain.features.ngram_state import NgramState, read_vocabulary, stored_vocabulary
from multidomain.features.ngram_table import NgramTable, with_tfidf
from multidomain.features.settings import LONGEST_NGRAM, NgramSettings, Weighting
from multidomain.features.token_rules import RULES
from multidomain.features.tokens import TokenSequences, checked_texts, tokenise
from multidomain.features.vocabulary import Vocabulary

Documents: TypeAlias = Sequence[str] | NDArray[Any] | TokenSequences | sp.spmatrix | sp.sparray


@register("ngrams")
class NgramFeaturizer(Featurizer):
    r"""Documents to sparse rows of n-gram weights. Fitted on training and unlabelled text, never on test.

    ``counts`` is how often an n-gram occurs in the document. ``tfidf`` is, before each row is scaled to
    Euclidean length 1,

    .. math:: (1 + \log \mathit{count}) \cdot \left(1 + \log \frac{1 + n}{1 + \mathit{df}}\right)

    where `df` of the `n` fitted documents contain the n-gram. ``raw`` leaves given vectors unchanged.

    Documents are texts, or the rows of a precomputed sparse matrix: its columns are kept, and `max_features`
    and `ngram_range` have no effect.

    Parameters
    ----------
    weighting : {"counts", "tfidf", "raw"}, default="counts"
        Values of the cells.
    max_features : int, default=5000
        Keep the most frequent n-grams, at most this many; ties are broken alphabetically.
    ngram_range : (int, int), default=(1, 2)
        Shortest and longest n-gram, in tokens.
    min_df : int, default=1
        Drop n-grams of fewer documents.

    Attributes
    ----------
    n_inputs : int
        Width of a row; 0 before `fit`.
    vocabulary : sequence of str or None
        The n-gram of each column, most frequent first; None for vectors.

    Examples
    --------
    >>> features = NgramFeaturizer(max_features=3, ngram_range=(1, 1)).fit(["good, good book", "not a good film"])
    >>> features.vocabulary
    ['good', 'a', 'book']
    >>> features.transform(["A GOOD, good read"]).toarray()
    array([[2., 1., 0.]], dtype=float32)
    """

    settings_type = NgramSettings
    defaults: ClassVar[Mapping[str, Any]] = {"weighting": "counts", "max_features": 5000, "ngram_range": (1, 2)}
    analyse = staticmethod(tokenise)

    def __init__(
        self,
        weighting: Weighting = "counts",
        max_features: int = 5000,
        ngram_range: tuple[int, int] = (1, 2),
        min_df: int = 1,
    ) -> None:
        shortest, longest = ngram_range
        problems = []
        if weighting not in get_args(Weighting):
            problems.append(f"Unknown weighting '{weighting}'.{did_you_mean(weighting, get_args(Weighting))}")
        if max_features < 1:
            problems.append(f"max_features must be at least 1, got {max_features}.")
        if min_df < 1:
            problems.append(f"min_df must be at least 1, got {min_df}.")
        if not 1 <= shortest <= longest <= LONGEST_NGRAM:
            problems.append(
                f"ngram_range must be (shortest, longest), from 1 to {LONGEST_NGRAM}, got {tuple(ngram_range)}."
            )
        if problems:
            raise ConfigError(" ".join(problems))
        self.weighting = weighting
        self.max_features = max_features
        self.ngram_range = (shortest, longest)
        self.min_df = min_df
        self.vocabulary: Vocabulary | None = None
        self._table: NgramTable | None = None
        self._idf: NDArray[np.float32] | None = None

    @classmethod
    def from_settings(cls, settings: NgramSettings) -> Self:
        return cls(**settings.model_dump())

    @property
    def description(self) -> str:
        return f"{'given vectors' if self.vocabulary is None else 'n-grams'}, {self.weighting}"

    @property
    def idf(self) -> NDArray[np.float32] | None:
        """Return the inverse document frequencies that tfidf weights by; None for other weightings."""
        return self._idf

    def fit(self, documents: Documents) -> Self:
        """Select the n-grams and, for tfidf, compute their document frequencies.

        Parameters
        ----------
        documents : sequence of str, TokenSequences, or sparse matrix of shape (documents, columns)
            Training and unlabelled documents.
        """
        documents = tokenise(documents)
        if not isinstance(documents, TokenSequences):
            self._set_columns(documents.shape[1])
            if self.n_inputs == 0:
                raise DataError("Expected vectors with at least 1 column, got 0 columns.")
        elif self.weighting == "raw":
            raise ConfigError(
                "Weighting 'raw' is for vectors, and the documents are texts.",
                "Use {weighting=counts} or {weighting=tfidf}.",
            )
        else:
            vocabulary, hashes = frequent_ngrams(documents, self.ngram_range, self.max_features, self.min_df)
            if not len(vocabulary):
                rare = f", or none is in {self.min_df:,} of them" if self.min_df > 1 else ""
                raise DataError(
                    f"No n-gram found in {counted(len(documents), 'text')}: they are empty, hold only punctuation, "
                    f"or are shorter than {counted(self.ngram_range[0], 'token')}{rare}.",
                    "Check the text column ({text_column=NAME}).",
                )
            self._set_columns(len(vocabulary), vocabulary, hashes)
        if self.weighting == "tfidf":
            if self._table:
                n, document_frequency = len(documents), self._table.document_frequencies(documents)
            else:
                n = documents.shape[0]
                document_frequency = np.bincount(self._rows(documents).indices, minlength=self.n_inputs)
            idf = 1 + np.log((1 + n) / (1 + document_frequency))
            self._idf = idf.astype(np.float32)
        elif self.vocabulary is None:
            self._rows(documents)  # report bad values now, not at the first transform
        return self

    def transform(self, documents: Documents) -> sp.csr_matrix:
        """Return one row of weights for each document.

        Parameters
        ----------
        documents : sequence of str, TokenSequences, or sparse matrix of shape (documents, n_inputs)
            Of the same kind as given to `fit`.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (documents, n_inputs)
            float32, indices sorted, no zeros stored. A document without known n-grams is an empty row.
        """
        self._check_fitted()
        return self._rows(documents, self._idf)

    def narrowed(self, columns: np.ndarray) -> NgramFeaturizer:
        """Return a featurizer of some of the n-grams; tf-idf is scaled to length 1 over these alone."""
        if self.vocabulary is None or self._table is None:
            raise ConfigError(
                "Vectors have the columns that they have, and only texts can do with fewer words.",
                "Leave out {compact=...}, or train on texts.",
            )
        narrow = NgramFeaturizer(self.weighting, self.max_features, self.ngram_range, self.min_df)
        narrow._set_columns(len(columns), self.vocabulary.take(columns), self._table.hashes_of(columns))
        narrow._idf = None if self._idf is None else self._idf[columns]
        return narrow

    def to_state(self) -> State:
        self._check_fitted()
        settings = {
            "weighting": self.weighting,
            "max_features": self.max_features,
            "ngram_range": list(self.ngram_range),
            "min_df": self.min_df,
            "n_inputs": self.n_inputs,
            "token_rules": None if self.vocabulary is None else RULES,
        }
        arrays = {} if self._idf is None else {"idf": self._idf}
        if self.vocabulary is not None and self._table is not None:
            arrays |= stored_vocabulary(self.vocabulary, self._table)
        return settings, arrays

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        state = NgramState.model_validate(settings)
        features = cls(state.weighting, state.max_features, state.ngram_range, state.min_df)
        widths = {"n_inputs": state.n_inputs}
        vocabulary, hashes = read_vocabulary(state, arrays)
        if vocabulary is not None and hashes is not None:
            widths |= {"vocabulary": len(vocabulary), "hashes": len(hashes)}
        idf = None
        if state.weighting == "tfidf":
            idf = np.asarray(arrays["idf"], dtype=np.float32)
            widths["idf"] = idf.size if idf.ndim == 1 else -1
        if len(set(widths.values())) > 1:
            raise ModelError(
                f"The saved features contradict themselves: the widths {widths} should be equal.",
                "The model was altered or damaged; save it again.",
            )
        features._set_columns(state.n_inputs, vocabulary, hashes)
        features._idf = idf
        return features

    def _set_columns(
        self, n_inputs: int, vocabulary: Vocabulary | None = None, hashes: np.ndarray | None = None
    ) -> None:
        self.n_inputs = n_inputs
        self.vocabulary = vocabulary
        self._table = None if hashes is None else NgramTable(hashes, self.ngram_range[1])
        self._idf = None

    def _check_fitted(self) -> None:
        if self.n_inputs == 0:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("NgramFeaturizer is not fitted: call fit() first.")

    def _rows(self, documents: Documents, idf: NDArray[np.float32] | None = None) -> sp.csr_matrix:
        """Return counts of texts, or validated values of vectors, in canonical form; or their tf-idf."""
        if sp.issparse(documents):
            rows = self._rows_of_vectors(documents)
            return rows if idf is None else with_tfidf(rows, idf)
        if self._table is None:
            raise DataError(
                f"Expected vectors of {counted(self.n_inputs, 'column')}, as in training; got texts.",
                "Give a sparse matrix, or train on texts.",
            )
        return self._table.rows(documents if isinstance(documents, TokenSequences) else checked_texts(documents), idf)

    def _rows_of_vectors(self, documents: Any) -> sp.csr_matrix:
        if self.vocabulary is not None:
            raise DataError(
                f"Expected texts, as in training; got vectors of {counted(documents.shape[1], 'column')}.",
                "Give a list of texts, or train on vectors.",
            )
        if documents.shape[1] != self.n_inputs:
            raise DataError(
                f"The model expects {counted(self.n_inputs, 'column')}, got {documents.shape[1]:,}: "
                "the vocabulary does not match.",
                "Count the n-grams with the vocabulary of the training data.",
            )
        rows = sp.csr_matrix(documents, dtype=np.float32, copy=True)
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
            # Below 1 the logarithm of tf could make an n-gram's weight negative.
            bad, expected = ~(np.isfinite(rows.data) & (rows.data >= 1)), "counts: 0, or 1 and more"
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            row = int(np.searchsorted(rows.indptr, first, side="right")) - 1
            raise DataError(
                f"Weighting '{self.weighting}' expects {expected}; row {row} (counted from 0) has "
                f"{rows.data[first]:g} in column {rows.indices[first]}.",
                "" if self.weighting == "raw" else "If the vectors are not counts, use {weighting=raw}.",
            )
