"""Saved models: a folder of safetensors and JSON, written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from multidomain.errors import ConfigError, ModelError, TrainingError
from multidomain.features.base import Featurizer, restored, stored
from multidomain.files import (
    COPY_AGAIN,
    complete,
    read_sealed,
    sha256_of,
    tensors_under,
    whole_file,
    write_json,
    write_sealed,
)
from multidomain.methods.base import Method
from multidomain.methods.divergence import not_finite, weights_are
from multidomain.methods.registry import METHODS
from multidomain.methods.task import Task

FORMAT_VERSION = 1
MANIFEST = "model.json"


def is_model_folder(path: Path) -> bool:
    """Whether a folder holds a saved model."""
    return (path / MANIFEST).exists()


def model_files(folder: Path) -> list[Path]:
    """Return the files of the model in a folder, and of models that it has replaced."""
    return [path for pattern in (MANIFEST, "weights-*.safetensors", "features-*.json") for path in folder.glob(pattern)]


def save_model(folder: Path, method_name: str, method: Method, features: Featurizer, classes: tuple[Any, ...]) -> None:
    """Write a model to a folder; the manifest comes last and names the other files by their hashes.

    A model with a weight that is not finite is refused before anything is written.
    """
    feature_settings, feature_arrays = stored(features)
    tensors = {f"method/{name}": value.contiguous() for name, value in method.state_dict().items()}
    tensors |= {f"features/{name}": torch.from_numpy(value) for name, value in feature_arrays.items()}
    _refuse_not_finite(method_name, tensors)
    with whole_file(folder / "weights.new") as temporary:
        save_file(tensors, temporary)
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
    _refuse_not_finite(method_name, method.state_dict())


def _refuse_not_finite(method_name: str, tensors: Mapping[str, Tensor]) -> None:
    bad = not_finite(tensors.items())
    if bad:
        raise TrainingError(
            f"'{method_name}' has diverged: {weights_are(bad)} not finite. Nothing was saved.",
            "Look for very large or very small values among features and settings.",
        )


def load_model(folder: Path, device: str | torch.device) -> tuple[str, Method, Featurizer, tuple[Any, ...]]:
    """Return the parts of a model written by `save_model`; a damaged, altered or newer one is rejected."""
    complete(folder)
    manifest = _read_manifest(folder)
    weights_file = _checked_file(folder, manifest, "weights")
    features_file = _checked_file(folder, manifest, "features")
    try:
        tensors = load_file(weights_file, device=str(device))
    except SafetensorError as error:
        raise ModelError(f"{weights_file} cannot be read: {error}.") from None
    arrays = {name: value.cpu().numpy() for name, value in tensors_under(tensors, "features/").items()}
    features = restored(json.loads(features_file.read_text(encoding="utf-8")), arrays)
    task = Task.from_json(manifest["task"])
    if features.n_inputs != task.n_inputs:
        raise ModelError(
            f"The vocabulary of {folder} has {features.n_inputs:,} entries and its network reads "
            f"{task.n_inputs:,}: they do not belong together.",
            "Save or copy the model again.",
        )
    if manifest["method"] not in METHODS:
        raise ModelError(
            f"{folder} holds a model of the method '{manifest['method']}', which no installed package has.",
            "Install the package that brings it, or give the file of the method again ({method=FILE.py:Class}).",
        )
    entry = METHODS[manifest["method"]]
    try:
        settings = entry.recorded_settings(manifest["settings"])
    except ConfigError as error:
        raise ModelError(f"{folder / MANIFEST} holds settings that are not valid here. {error}") from None
    with torch.device("meta"):  # spend no time or memory on weights that are about to be replaced
        method = entry.build(task, settings)
    try:
        method.load_state_dict(tensors_under(tensors, "method/"), assign=True)
    except RuntimeError as error:
        raise ModelError(
            f"The weights in {folder} do not fit the model it describes: {error}.", "Train it again."
        ) from None
    method.eval()
    return manifest["method"], method, features, tuple(manifest["classes"])


def _named_by_hash(path: Path, stem: str, suffix: str) -> dict[str, str]:
    digest = sha256_of(path)
    path.replace(path.with_name(f"{stem}-{digest[:12]}{suffix}"))
    return {"name": f"{stem}-{digest[:12]}{suffix}", "sha256": digest}


def _read_manifest(folder: Path) -> dict[str, Any]:
    if not is_model_folder(folder):
        what = "does not exist" if not folder.exists() else f"holds no {MANIFEST}"
        raise ModelError(f"{folder} is not a model folder: it {what}.", "'multidomain train' makes one.")
    return read_sealed(folder / MANIFEST, FORMAT_VERSION)


def _checked_file(folder: Path, manifest: dict[str, Any], kind: str) -> Path:
    path = folder / manifest["files"][kind]["name"]
    if not path.exists():
        raise ModelError(f"{path} is missing, so the model is incomplete.", COPY_AGAIN)
    if sha256_of(path) != manifest["files"][kind]["sha256"]:
        raise ModelError(f"{path} is cut short or was altered.", COPY_AGAIN)
    return path
