"""A trained model: encode, predict, save, load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.data.values import ONLY_DOMAIN, domain_name, plain_form
from multidomain.devices import usable
from multidomain.errors import DataError, Note, did_you_mean, quoted, warn
from multidomain.features.base import Featurizer, stored
from multidomain.methods.base import Method, Requirements
from multidomain.methods.registry import method_entry
from multidomain.model.prediction import predicted_probabilities
from multidomain.model.settings import UnknownDomain
from multidomain.model.storage import load_model, save_model


@dataclass(frozen=True)
class ResolvedDomains:
    """Domains resolved to a model's domain codes.

    Attributes
    ----------
    codes
        Code of each row's domain, masked where it was not in training.
    notes
        Notes on names that are unknown, or known under another spelling.
    """

    codes: np.ma.MaskedArray
    notes: tuple[Note, ...]

    @property
    def unexpected(self) -> list[Note]:
        """Return the notes, except those on missing domains."""
        return [note for note in self.notes if note.kind != "no-domain"]


@dataclass
class Model:
    """A trained method with its featurizer and class names.

    Attributes
    ----------
    method_name
        Name in the registry.
    method
        The trained method.
    features
        Turns documents into the method's input.
    classes
        Class names, in the order of the probability columns.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts, domains = ["fine", "poor", "fine pan", "poor pan"] * 3, ["books", "books", "pans", "pans"] * 3
    >>> model = MultiDomainClassifier("fa-lr").fit(texts, ["good", "bad"] * 6, domains=domains).model_
    >>> model.predict(["a fine book"], ["books"])
    array(['good'], dtype='<U4')
    >>> model.domains, model.requirements.unseen_domains
    (('books', 'pans'), True)
    """

    method_name: str
    method: Method
    features: Featurizer
    classes: tuple[Any, ...]

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the names of the training domains, labelled or not."""
        return self.method.task.domains

    @property
    def labelled_domains(self) -> tuple[str, ...]:
        """Return the names of the labelled training domains."""
        return tuple(self.domains[d] for d in self.method.task.labelled)

    @property
    def n_bytes(self) -> int:
        """Return the size of all weights and of the vocabulary."""
        return sum(array.nbytes for array in (*self.method.weights().values(), *stored(self.features)[1].values()))

    @property
    def requirements(self) -> Requirements:
        """Return what the method needs and can do."""
        return method_entry(self.method_name).requirements(self.method.settings)

    def predict(
        self,
        documents: Any,
        domains: Sequence[str | None] | None = None,
        unknown_domain: UnknownDomain = "shared",
    ) -> np.ndarray:
        """Return the most probable class of each document; see `predict_proba`."""
        resolved = self.resolve_domains(domains, _number_of(documents), unknown_domain)
        warn(resolved.unexpected)
        best = self.probabilities(self.encode(documents), resolved.codes).argmax(axis=1)
        return np.array(self.classes)[best]

    def predict_proba(
        self,
        documents: Any,
        domains: Sequence[str | None] | None = None,
        unknown_domain: UnknownDomain = "shared",
    ) -> np.ndarray:
        """Return class probabilities, shape (documents, classes).

        Parameters
        ----------
        documents
            Texts, or a sparse matrix for a model trained on vectors.
        domains
            Domain of each document. None, for all or for one, means a domain that was not in training.
        unknown_domain
            What to do with such a document: "shared" predicts from the shared features alone and warns
            once about unknown names; "error" raises an error.
        """
        resolved = self.resolve_domains(domains, _number_of(documents), unknown_domain)
        warn(resolved.unexpected)
        return self.probabilities(self.encode(documents), resolved.codes)

    def encode(self, documents: Any) -> csr_matrix:
        """Return documents as the method's input rows, which the other methods take."""
        return self.features.transform(documents)

    def probabilities(self, x: csr_matrix, codes: np.ndarray) -> np.ndarray:
        """Return class probabilities of encoded rows, shape (rows, classes).

        Parameters
        ----------
        codes
            Domain code of each row, masked (`numpy.ma`) where it was not in training; see `resolve_domains`.
        """
        return predicted_probabilities(self.method, x, codes)

    def shared_features(self, x: csr_matrix) -> np.ndarray | None:
        """Return the shared features of encoded rows, shape (rows, size), or None if the method has none."""
        if not self.requirements.shared_features or not x.shape[0]:
            return None
        return self.method.shared_features(x)

    def private_features(self, x: csr_matrix, domain: str) -> np.ndarray | None:
        """Return the private features of encoded rows of one domain, or None if it has none."""
        if not self.requirements.private_features or domain not in self.domains or not x.shape[0]:
            return None
        return self.method.private_features(x, self.domains.index(domain))

    def resolve_domains(
        self, domains: Sequence[str | None] | None, n_rows: int, unknown_domain: UnknownDomain = "shared"
    ) -> ResolvedDomains:
        """Return the code of each row's domain, with notes on names that are not known exactly.

        Parameters
        ----------
        domains, unknown_domain
            As for `predict_proba`.
        """
        if domains is None:
            domains = [None] * n_rows
        if len(domains) != n_rows:
            raise DataError(f"Expected a domain for each of {n_rows} documents, got {len(domains)}.")
        names = [domain_name(value) for value in domains]
        notes: list[Note] = []
        code_of: dict[str | None, int | None] = {}
        for name in dict.fromkeys(names):
            code_of[name], note = self._domain_code(name, unknown_domain)
            notes += [note] if note else []
        codes = [code_of[name] for name in names]
        masked = np.ma.masked_array([c or 0 for c in codes], mask=[c is None for c in codes], dtype=np.int64)
        return ResolvedDomains(masked, tuple(notes))

    def _domain_code(self, name: str | None, unknown_domain: UnknownDomain) -> tuple[int | None, Note | None]:
        """Return the domain's code, or None if it was not in training, and a note if there is one."""
        if name is None and self.domains == (ONLY_DOMAIN,):  # the model was trained without domains, too
            return 0, None
        if name in self.domains:
            return self.domains.index(name), None
        if name is not None:
            # Training rejects names that differ only in case or whitespace, so there is at most one.
            for code, known in enumerate(self.domains):
                if plain_form(known) == plain_form(name):
                    said = f"Domain '{name}' is taken for '{known}', which differs by case or blanks."
                    return code, Note(said, kind="other-spelling")
        if unknown_domain == "error":
            what = "A document has no domain" if name is None else f"Domain '{name}' was not in training"
            raise DataError(f"{what}.{did_you_mean(name or '', self.domains)}")
        what = "No domain given" if name is None else f"Domain '{name}' was not in training"
        said = f"{what}: answered from the shared features alone. Known domains: {quoted(self.domains)}."
        return None, Note(said, kind="no-domain" if name is None else "unknown-domain")

    def save(self, folder: Path | str) -> None:
        """Write the model to a folder: safetensors and JSON.

        The manifest is written last and names the other files by their hashes, so whatever happens the folder
        holds either the old model or the new one, complete.
        """
        save_model(Path(folder), self.method_name, self.method, self.features, self.classes)

    @classmethod
    def load(cls, folder: Path | str, device: str = "cpu", *, method: str | None = None) -> Self:
        """Load a model written by `save`; a damaged, altered or newer one is rejected.

        Parameters
        ----------
        device
            Where a network predicts: ``cpu``, ``cuda``, ``cuda:1``, ``mps`` or ``auto``.
        method
            File and class of a method that is not in an installed package: ``my_method.py:MyMethod``. Code named in
            the folder is never imported.
        """
        if method is not None:
            method_entry(method)
        return cls(*load_model(Path(folder), usable(device)))


def _number_of(documents: Any) -> int:
    return documents.shape[0] if hasattr(documents, "shape") else len(documents)
