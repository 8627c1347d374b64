"""Saved models: a folder of safetensors and JSON, written atomically."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, Field, ValidationError, model_validator
from safetensors.numpy import save_file

from multidomain.errors import ConfigError, ModelError, TrainingError, missing_package
from multidomain.features.base import Featurizer, restored, stored
from multidomain.files import complete, sha256_of, whole_file, write_json
from multidomain.methods.base import Method
from multidomain.methods.finite import not_finite, weights_are
from multidomain.methods.registry import METHODS, MethodEntry, registered_methods_only
from multidomain.methods.task import SavedTask, Task
from multidomain.saved import COPY_AGAIN, read_json, read_sealed, read_tensors, tensors_under, write_sealed
from multidomain.settings import Settings

FORMAT_VERSION = 1
MANIFEST = "model.json"
_NAMED_DIGITS = 12  # of the hash in the name of a file
_DTYPES = ("float16", "float32", "float64", "bool", "uint8", "int32", "int64", "uint64")


class NamedFile(BaseModel):
    """A file beside the manifest; its name cannot lead out of the folder."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class ModelFiles(BaseModel):
    """The files of a model."""

    weights: NamedFile
    features: NamedFile


class Manifest(BaseModel):
    """The contents of the manifest."""

    method: str
    settings: dict[str, Any]
    task: SavedTask
    classes: tuple[str | int | float | bool, ...]
    files: ModelFiles

    @model_validator(mode="after")
    def _a_class_for_each_column(self) -> Self:
        if not len(set(map(str, self.classes))) == len(self.classes) == self.task.n_classes:
            raise ValueError(f"{len(self.classes)} classes are named and the model has {self.task.n_classes}")
        return self


def is_model_folder(path: Path) -> bool:
    """Whether a folder holds a saved model."""
    return (path / MANIFEST).exists()


def model_files(folder: Path) -> list[Path]:
    """Return the files of the model in a folder, and of models that it has replaced."""
    digest = "[0-9a-f]" * _NAMED_DIGITS  # and no others: the folder may hold files of the user
    patterns = (MANIFEST, f"weights-{digest}.safetensors", f"features-{digest}.json")
    return [path for pattern in patterns for path in folder.glob(pattern)]


def save_model(folder: Path, method_name: str, method: Method, features: Featurizer, classes: tuple[Any, ...]) -> None:
    """Write a model to a folder; the manifest comes last and names the other files by their hashes.

    A model with a weight that is not finite is refused before anything is written.
    """
    feature_settings, feature_arrays = stored(features)
    arrays = {f"method/{name}": np.ascontiguousarray(value) for name, value in method.weights().items()}
    arrays |= {f"features/{name}": value for name, value in feature_arrays.items()}
    _refuse_not_finite(method_name, arrays)
    with whole_file(folder / "weights.new") as temporary:
        save_file(arrays, temporary)
    weights = _named_by_hash(folder / "weights.new", "weights", ".safetensors")
    write_json(folder / "features.new", feature_settings)
    features_file = _named_by_hash(folder / "features.new", "features", ".json")
    manifest = {
        "method": method_name,
        "settings": method.settings.model_dump(mode="json"),
        "task": asdict(method.task),
        "classes": list(classes),
        "files": {"weights": weights, "features": features_file},
    }
    write_sealed(folder / MANIFEST, manifest, FORMAT_VERSION)
    for path in model_files(folder):
        if path.name not in (MANIFEST, weights["name"], features_file["name"]):
            path.unlink()


def check_finite(method_name: str, method: Method) -> None:
    """Refuse a method with weights that are not finite, however it was trained."""
    _refuse_not_finite(method_name, method.weights())


def _refuse_not_finite(method_name: str, arrays: Mapping[str, np.ndarray]) -> None:
    bad = not_finite(arrays.items())
    if bad:
        raise TrainingError(
            f"'{method_name}' has diverged: {weights_are(bad)} not finite. Nothing was saved.",
            "Look for very large or very small values among features and settings.",
        )


def load_model(folder: Path, device: str) -> tuple[str, Method, Featurizer, tuple[Any, ...]]:
    """Return the parts of a model written by `save_model`; a damaged, altered or newer one is rejected.

    If another model is saved in the folder meanwhile, it is that one.
    """
    complete(folder)
    manifest = _read_manifest(folder)
    try:
        return _loaded(folder, manifest, device)
    except (ModelError, FileNotFoundError):
        complete(folder)
        if _read_manifest(folder) == manifest:
            raise
    return load_model(folder, device)


def _loaded(folder: Path, manifest: Manifest, device: str) -> tuple[str, Method, Featurizer, tuple[Any, ...]]:
    weights_file = _checked_file(folder, manifest.files.weights)
    features_file = _checked_file(folder, manifest.files.features)
    arrays, _ = read_tensors(weights_file, "numpy", COPY_AGAIN)
    _check_saved_arrays(weights_file, arrays)
    own = tensors_under(arrays, "features/")
    features = restored(read_json(features_file, dict[str, Any], COPY_AGAIN), own)
    task = manifest.task.restored()
    if features.n_inputs != task.n_inputs:
        raise ModelError(
            f"The vocabulary of {folder} has {features.n_inputs:,} entries and its network reads "
            f"{task.n_inputs:,}: they do not belong together.",
            "Save or copy the model again.",
        )
    method = _restored_method(folder, manifest, task, tensors_under(arrays, "method/"))
    return manifest.method, method.to(device), features, manifest.classes


def _restored_method(folder: Path, manifest: Manifest, task: Task, weights: dict[str, np.ndarray]) -> Method:
    if needed := METHODS.needed_for(manifest.method):
        raise missing_package(f"The model in {folder}, of the method '{manifest.method}',", needed)
    if manifest.method not in METHODS:
        raise ModelError(
            f"{folder} holds a model of the method '{manifest.method}', which no installed package has.",
            "Install the package that brings it, or give the file of the method again ({method=FILE.py:Class}).",
        )
    with registered_methods_only():
        method = _untrained(folder, METHODS[manifest.method], task, manifest.settings)
    try:
        method.load_weights(weights)
    except ValueError as error:
        raise ModelError(
            f"The weights in {folder} do not fit the model it describes: {error}.", "Train it again."
        ) from None
    return method


def _untrained(folder: Path, entry: MethodEntry, task: Task, values: Mapping[str, Any]) -> Method:
    """Return a method without weights, which are about to be loaded: no time or memory is spent on them."""
    try:
        settings: Settings = entry.recorded_settings(values)
        return entry.method.untrained(task, settings)
    except (ConfigError, ValidationError) as error:
        raise ModelError(f"{folder / MANIFEST} holds settings that are not valid here. {error}") from None
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:  # of sizes that no tensor can have
        raise ModelError(f"{folder / MANIFEST} describes a model that cannot be built: {error}.", COPY_AGAIN) from None


def _check_saved_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    for name, value in arrays.items():
        if value.dtype.name not in _DTYPES:
            raise ModelError(f"{path}: '{name}' is {value.dtype}, which no model has.", COPY_AGAIN)
    bad = not_finite(arrays.items())
    if bad:
        raise ModelError(f"{path}: {weights_are(bad)} not finite.", "Train the model again.")


def _named_by_hash(path: Path, stem: str, suffix: str) -> dict[str, str]:
    digest = sha256_of(path)
    named = path.replace(path.with_name(f"{stem}-{digest[:_NAMED_DIGITS]}{suffix}"))
    return {"name": named.name, "sha256": digest}


def _read_manifest(folder: Path) -> Manifest:
    if not is_model_folder(folder):
        what = "does not exist" if not folder.exists() else f"holds no {MANIFEST}"
        raise ModelError(f"{folder} is not a model folder: it {what}.", "'multidomain train' makes one.")
    return read_sealed(folder / MANIFEST, Manifest, FORMAT_VERSION)


def _checked_file(folder: Path, named: NamedFile) -> Path:
    path = folder / named.name
    if not path.exists():
        raise ModelError(f"{path} is missing, so the model is incomplete.", COPY_AGAIN)
    if path.resolve().parent != folder.resolve() or not path.is_file():
        raise ModelError(f"{path} is not a file in the folder of the model, but leads out of it.", COPY_AGAIN)
    if sha256_of(path) != named.sha256:
        raise ModelError(f"{path} is cut short or was altered.", COPY_AGAIN)
    return path
