"""A trained model: predict, save, load."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from multidomain.data.values import ONLY_DOMAIN, domain_name, plain_form
from multidomain.errors import (
    ConfigError,
    DataError,
    ModelError,
    MultidomainWarning,
    NoDomainGiven,
    did_you_mean,
    quoted,
)
from multidomain.features.concat import ConcatFeaturizer, Featurizer, restored, stored
from multidomain.files import COPY_AGAIN, read_sealed, sha256_of, whole_file, write_json, write_sealed
from multidomain.methods.base import Method, Task
from multidomain.methods.ensemble import Ensemble
from multidomain.methods.registry import method_entry
from multidomain.model.prediction import features_in_parts, predicted_probabilities
from multidomain.nn.sparse import SparseMatrix

FORMAT_VERSION = 1
MANIFEST = "model.json"

UnknownDomain = Literal["shared", "error"]


@dataclass
class Model:
    """A network together with the features it reads and the names it answers with.

    Attributes
    ----------
    method_name
        Name in the registry.
    method
        The trained network.
    features
        From documents to the network's input.
    classes
        Class names in the order of the probabilities' columns.
    """

    method_name: str
    method: Method
    features: Featurizer
    classes: tuple[Any, ...]

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the names of the domains that were in training, labelled or not."""
        return self.method.task.domains

    @property
    def labelled_domains(self) -> tuple[str, ...]:
        """Return the names of the domains that had labels in training."""
        return tuple(self.domains[d] for d in self.method.task.labelled)

    def predict(
        self,
        documents: Any,
        domains: Sequence[str | None] | None = None,
        unknown_domain: UnknownDomain = "shared",
    ) -> np.ndarray:
        """Return the most probable class of each document; see `predict_proba`."""
        best = self.predict_proba(documents, domains, unknown_domain).argmax(axis=1)
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
            Texts, or a sparse matrix for a model that was trained on vectors.
        domains
            Domain of each document. None, for all or for one, is a domain that was not in training.
        unknown_domain
            What to do with such a document: "shared" answers from the shared features alone and warns
            once about names it does not know; "error" refuses.
        """
        x = SparseMatrix(self.features.transform(documents), self.device)
        return predicted_probabilities(self.method, x, self.domain_codes(domains, len(x), unknown_domain))

    def shared_features(self, documents: Any) -> np.ndarray | None:
        """Return the shared features, shape (documents, size), or None if the method has none."""
        x = SparseMatrix(self.features.transform(documents), self.device)
        return features_in_parts(self.method, x, self.method.shared_features)

    def private_features(self, documents: Any, domain: str) -> np.ndarray | None:
        """Return the private features of documents of one domain, or None if it has none."""
        if domain not in self.domains:
            return None
        code = self.domains.index(domain)
        return features_in_parts(
            self.method,
            SparseMatrix(self.features.transform(documents), self.device),
            lambda x: self.method.private_features(x, code),
        )

    def domain_codes(
        self, domains: Sequence[str | None] | None, n_rows: int, unknown_domain: UnknownDomain
    ) -> np.ma.MaskedArray:
        """Return the code of each row's domain as `predict_proba` takes it, masked where it was not in training."""
        if domains is None:
            domains = [None] * n_rows
        if len(domains) != n_rows:
            raise DataError(f"Expected a domain for each of {n_rows} documents, got {len(domains)}.")
        names = [domain_name(value) for value in domains]
        code_of = {name: self._domain_code(name, unknown_domain) for name in dict.fromkeys(names)}
        codes = [code_of[name] for name in names]
        return np.ma.masked_array([c or 0 for c in codes], mask=[c is None for c in codes], dtype=np.int64)

    @property
    def device(self) -> torch.device:
        """Return where the model computes."""
        return next(self.method.parameters()).device

    def _domain_code(self, name: str | None, unknown_domain: UnknownDomain) -> int | None:
        """Return the domain's code, or None if it was not in training."""
        if name is None and self.domains == (ONLY_DOMAIN,):  # training knew no domains either
            return 0
        if name in self.domains:
            return self.domains.index(name)
        if name is not None:
            # Training refuses names that differ by case or blanks only, so there is at most one.
            for code, known in enumerate(self.domains):
                if plain_form(known) == plain_form(name):
                    _warn(f"Domain '{name}' is taken for '{known}', which differs by case or blanks.")
                    return code
        if unknown_domain == "error":
            what = "A document has no domain" if name is None else f"Domain '{name}' was not in training"
            raise DataError(f"{what}.{did_you_mean(name or '', self.domains)}")
        what = "No domain given" if name is None else f"Domain '{name}' was not in training"
        category = NoDomainGiven if name is None else MultidomainWarning
        _warn(f"{what}: answered from the shared features alone. Known domains: {quoted(self.domains)}.", category)
        return None

    def save(self, folder: Path | str) -> None:
        """Write the model into a folder: safetensors and JSON.

        The manifest is written last and names the other files by their hashes, so a folder holds the old
        model or the new one, whole, whatever happens in between.
        """
        folder = Path(folder)
        task = self.method.task
        feature_settings, feature_arrays = stored(self.features)
        tensors = {f"method/{name}": value.contiguous() for name, value in self.method.state_dict().items()}
        tensors |= {f"features/{name}": torch.from_numpy(value) for name, value in feature_arrays.items()}
        with whole_file(folder / "weights.new") as temporary:
            save_file(tensors, temporary)
        weights = _named_by_hash(folder / "weights.new", "weights", ".safetensors")
        write_json(folder / "features.new", feature_settings)
        features = _named_by_hash(folder / "features.new", "features", ".json")
        manifest = {
            "method": self.method_name,
            "settings": self.method.settings.model_dump(mode="json"),
            "task": asdict(task),
            "classes": list(self.classes),
            "files": {"weights": weights, "features": features},
        }
        write_sealed(folder / MANIFEST, manifest, FORMAT_VERSION)
        kept = {weights["name"], features["name"]}
        for pattern in ("weights-*.safetensors", "features-*.json"):
            for path in folder.glob(pattern):
                if path.name not in kept:
                    path.unlink()

    @classmethod
    def load(cls, folder: Path | str, device: str | torch.device = "cpu") -> Self:
        """Read a model that `save` wrote; a damaged, altered or newer one is refused."""
        folder = Path(folder)
        manifest = _read_manifest(folder)
        weights_file = _checked_file(folder, manifest, "weights")
        features_file = _checked_file(folder, manifest, "features")
        try:
            tensors = load_file(weights_file, device=str(device))
        except SafetensorError as error:
            raise ModelError(f"{weights_file} cannot be read: {error}.") from None
        arrays = {name: value.cpu().numpy() for name, value in _under(tensors, "features/").items()}
        features = restored(json.loads(features_file.read_text(encoding="utf-8")), arrays)
        task = Task.from_json(manifest["task"])
        if features.n_inputs != task.n_inputs:
            raise ModelError(
                f"The vocabulary of {folder} has {features.n_inputs:,} entries and its network reads "
                f"{task.n_inputs:,}: they do not belong together. Save or copy the model again."
            )
        entry = method_entry(manifest["method"])
        settings = entry.method.settings_type.parse(manifest["settings"], f"settings in {folder / MANIFEST}")
        with torch.device("meta"):  # no time and memory for weights that are replaced at once
            method = entry.build(task, settings)
        try:
            method.load_state_dict(_under(tensors, "method/"), assign=True)
        except RuntimeError as error:
            raise ModelError(
                f"The weights in {folder} do not fit the model it describes: {error}. Train it anew."
            ) from None
        method.eval()
        return cls(manifest["method"], method, features, tuple(manifest["classes"]))


def join_models(models: Sequence[Model]) -> Model:
    """Return several models of the same classes as one, which answers with the mean of their probabilities."""
    first = models[0]
    for model in models:
        if model.classes != first.classes:
            raise ConfigError(
                f"Models of different classes cannot be joined: {quoted(first.classes)} and {quoted(model.classes)}."
            )
    features = ConcatFeaturizer([model.features for model in models])
    named = [(model.method_name, model.method) for model in models]
    return Model("ensemble", Ensemble.joined(named, features.starts, features.n_inputs), features, first.classes)


def is_model_folder(path: Path) -> bool:
    """Tell whether a folder holds a saved model."""
    return (path / MANIFEST).exists()


def _warn(message: str, category: type[Warning] = MultidomainWarning) -> None:
    warnings.warn(message, category, stacklevel=5)


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _named_by_hash(path: Path, stem: str, suffix: str) -> dict[str, str]:
    digest = sha256_of(path)
    path.replace(path.with_name(f"{stem}-{digest[:12]}{suffix}"))
    return {"name": f"{stem}-{digest[:12]}{suffix}", "sha256": digest}


def _read_manifest(folder: Path) -> dict[str, Any]:
    if not is_model_folder(folder):
        what = "does not exist" if not folder.exists() else f"holds no {MANIFEST}"
        raise ModelError(f"{folder} is not a model folder: it {what}. 'multidomain train' makes one.")
    return read_sealed(folder / MANIFEST, FORMAT_VERSION)


def _checked_file(folder: Path, manifest: dict[str, Any], kind: str) -> Path:
    path = folder / manifest["files"][kind]["name"]
    if not path.exists():
        raise ModelError(f"{path} is missing, so the model is incomplete. Copy the model again, or train it anew.")
    if sha256_of(path) != manifest["files"][kind]["sha256"]:
        raise ModelError(f"{path} is cut short or was altered. {COPY_AGAIN}")
    return path
