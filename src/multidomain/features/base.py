"""The featurizer protocol: documents to sparse rows of numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from multidomain.errors import ConfigError, ModelError, Note
from multidomain.registry import Registry
from multidomain.renamings import featurizer_renamed
from multidomain.settings import Settings

_SAVE_AGAIN = "The model was altered or damaged; save it again."

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]
"""Settings that JSON can hold, and arrays."""


class Featurizer(ABC):
    """Documents to sparse rows. Fitted on training and unlabelled text, never on test.

    What a document must go through whatever is fitted, such as tokenisation, is its analysis. It is done once for each
    document, and shared by all featurizers that have the same `analyse`.

    Attributes
    ----------
    n_inputs : int
        Width of a row; 0 before `fit`.
    vocabulary : sequence of str or None
        What each column stands for; None if that is not known.
    """

    name: ClassVar[str]
    settings_type: ClassVar[type[Settings]]
    defaults: ClassVar[Mapping[str, Any]] = {}  # of settings that stand at None, unless the method has its own
    of_method: ClassVar[tuple[str, ...]] = ()  # settings that the method alone decides

    n_inputs: int = 0
    vocabulary: Sequence[str] | None = None

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: Any) -> Self:
        """Return a featurizer that is not fitted; no setting is None that the method is asked for."""

    @staticmethod
    def analyse(documents: Any) -> Any:
        """Return the documents in a form that can be indexed by rows; what is analysed already stays as it is."""
        return documents

    def check(self) -> None:  # noqa: B027  # most have nothing to check
        """Raise the errors that `fit` would raise whatever the documents are, without fetching anything."""

    def files_digest(self) -> str | None:
        """Return a digest of files that the outcome depends on, and that settings name; None if there are none."""
        return None

    @abstractmethod
    def fit(self, documents: Any) -> Self:
        """Learn from documents, analysed or not."""

    @abstractmethod
    def transform(self, documents: Any) -> csr_matrix:
        """Return a row for each document, analysed or not."""

    def narrowed(self, columns: np.ndarray) -> Featurizer:
        """Return a featurizer of some of the columns; called if the method is `prunable`."""
        raise NotImplementedError(f"The method can do with fewer columns, and {type(self).__name__} has all or none.")

    @abstractmethod
    def to_state(self) -> State:
        """Return the state for `from_state`."""

    @classmethod
    @abstractmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return a featurizer that transforms exactly as the one which gave this state."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Describe the columns."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return what the user should know of the last documents that were transformed."""
        return ()

    @property
    def stand_in(self) -> str | None:
        """Return a word that means nothing, with which explanations replace others; None: any that is unknown."""
        return None

    def input_vectors(
        self, documents: Any, dimension: int, cache: Path, on_epoch: Callable[[int, int], None]
    ) -> np.ndarray | None:
        """Return a vector for each column that a network may start from, shape (n_inputs, dimension), if there are any.

        Parameters
        ----------
        documents
            What vectors are trained on if need be.
        cache
            Folder for vectors that were trained.
        on_epoch
            Called with the number of epochs done, and of all.
        """
        return None


Featurizers = TypeVar("Featurizers", bound=type[Featurizer])

FEATURIZERS: Registry[type[Featurizer]] = Registry("featurizer", __package__, "multidomain.featurizers")


def register(name: str) -> Callable[[Featurizers], Featurizers]:
    """Register a featurizer under a name, as a decorator beside its class."""

    def registered(featurizer: Featurizers) -> Featurizers:
        featurizer.name = name
        FEATURIZERS.add(name, featurizer)
        return featurizer

    return registered


class Documents:
    """Documents that are analysed once and shared by several featurizers."""

    def __init__(self, documents: Any):
        self._documents = documents
        self._analysed: dict[Callable[[Any], Any], Any] = {}

    def analysed_for(self, featurizer: type[Featurizer]) -> Any:
        """Return all documents as a featurizer reads them."""
        if featurizer.analyse is as_documents:
            return self
        if featurizer.analyse not in self._analysed:
            self._analysed[featurizer.analyse] = featurizer.analyse(self._documents)
        return self._analysed[featurizer.analyse]

    def __getitem__(self, rows: np.ndarray) -> Documents:
        """Return some of the documents; what is analysed for them is analysed for all."""
        return _Selected(self, rows)


class _Selected(Documents):
    def __init__(self, documents: Documents, rows: np.ndarray):
        super().__init__(documents)
        self._rows = rows

    def analysed_for(self, featurizer: type[Featurizer]) -> Any:
        if featurizer.analyse is as_documents:
            return self
        return self._documents.analysed_for(featurizer)[self._rows]


def as_documents(documents: Any) -> Documents:
    """Return documents for several featurizers to read."""
    return documents if isinstance(documents, Documents) else Documents(documents)


def stored(featurizer: Featurizer) -> State:
    """Return all that `restored` needs: settings that JSON can hold, and arrays."""
    settings, arrays = featurizer.to_state()
    return {"kind": featurizer.name, **settings}, arrays


def restored(settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Featurizer:
    """Return a featurizer that transforms exactly as the one which was stored.

    Raises
    ------
    ModelError
        The state is damaged or was forged, or no installed package has such a featurizer.
    """
    try:
        settings = featurizer_renamed(settings)
        return FEATURIZERS.find(settings["kind"]).from_state(settings, arrays)
    except ConfigError as error:
        raise ModelError(f"The saved features cannot be used. {error}", _SAVE_AGAIN) from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ModelError(f"The saved features contradict themselves ({why[:300]}).", _SAVE_AGAIN) from None
