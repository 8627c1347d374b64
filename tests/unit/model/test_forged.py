"""Model folders that were forged: all checksums are right, and still nothing happens but an error."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from multidomain import Model
from multidomain.errors import ModelError
from multidomain.saved import write_sealed

SAVED = Path(__file__).parents[2] / "compat" / "v0.1"
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copied("fa-lr", tmp_path)


def copied(name: str, tmp_path: Path) -> Path:
    shutil.copytree(SAVED / name, tmp_path / "model")
    return tmp_path / "model"


def manifest_of(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    del manifest["sha256"], manifest["format_version"], manifest["multidomain"]
    return manifest


def forge(folder: Path, change: Change) -> None:
    manifest = manifest_of(folder)
    change(manifest)
    write_sealed(folder / "model.json", manifest, 1)


def forge_file(folder: Path, kind: str, content: bytes) -> None:
    """Replace the weights or the features, and all checksums."""

    def name(manifest: dict[str, Any]) -> None:
        path = folder / manifest["files"][kind]["name"]
        path.write_bytes(content)
        manifest["files"][kind]["sha256"] = hashlib.sha256(content).hexdigest()

    forge(folder, name)


def weights_of(folder: Path) -> Path:
    return folder / str(manifest_of(folder)["files"]["weights"]["name"])


@pytest.mark.parametrize("how", ["relative", "absolute", "symlink", "folder", "separator"])
def test_files_outside_the_folder_are_not_read(how: str, folder: Path, tmp_path: Path):
    outside = tmp_path / "outside.safetensors"
    weights = weights_of(folder)
    if how == "symlink":
        weights.rename(outside)
        weights.symlink_to(outside)
    elif how == "folder":
        weights.unlink()
        weights.mkdir()
    else:
        shutil.copy(weights, outside)
        name = {"relative": "../outside.safetensors", "absolute": str(outside), "separator": f"./{weights.name}"}[how]
        forge(folder, lambda manifest: manifest["files"]["weights"].update(name=name))
    with pytest.raises(
        ModelError, match=r"leads out of it|cannot be used: 'files\.weights\.name': string should match"
    ):
        Model.load(folder)


def test_a_pipe_is_not_waited_for(folder: Path):
    (folder / "model.json").unlink()
    os.mkfifo(folder / "model.json")
    with pytest.raises(ModelError, match=r"model\.json is not a regular file"):
        Model.load(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("self-training", lambda m, evil: m["settings"].update(base=evil)),
        ("ensemble", lambda m, evil: m["settings"]["members"][0].update(method=evil)),
        ("ensemble", lambda m, evil: m["settings"]["members"][0].update(method=evil, task=None)),
        ("fa-lr", lambda m, evil: m.update(method=evil)),
    ],
)
def test_no_code_is_imported(name: str, change: Callable[[dict[str, Any], str], Any], tmp_path: Path):
    """Settings may name a method by its file, but not those of a saved model."""
    folder = copied(name, tmp_path)
    evil = folder / "evil.py"
    evil.write_text("from pathlib import Path\nPath(__file__).with_name('owned').touch()\nclass Evil: ...\n")
    forge(folder, lambda manifest: change(manifest, f"{evil}:Evil"))
    with pytest.raises(ModelError, match=r"[Tt]here is no method|which no installed package has"):
        Model.load(folder)
    assert not (folder / "owned").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m["task"].update(n_inputs=-1), r"'task\.n_inputs': input should be greater"),
        (lambda m: m["task"].update(n_inputs=10**30), r"'task\.n_inputs': input should be less"),
        (lambda m: m["task"].update(n_classes=3), r"2 classes are named and the model has 3"),
        (lambda m: m.update(classes=["a", "a"]), "2 classes are named"),
        (lambda m: m["task"].update(labelled=[7]), "labelled domains are not codes"),
        (lambda m: m["task"].update(domains=["a", "a", "b", "c"]), "a domain is named twice"),
        (lambda m: m["settings"].update(C=[[[1]]]), "holds settings that are not valid here"),
        (lambda m: m.update(settings=[]), r"'settings': input should be a valid dictionary"),
        (lambda m: m.pop("files"), r"'files': field required"),
    ],
)
def test_a_manifest_that_contradicts_itself(change: Change, said: str, folder: Path):
    forge(folder, change)
    with pytest.raises(ModelError, match=said):
        Model.load(folder)


def test_depth(folder: Path):
    (folder / "model.json").write_text("[" * 100_000)
    with pytest.raises(ModelError, match=r"model\.json is cut short or damaged \(nested more than 100 deep\)"):
        Model.load(folder)
    (folder / "model.json").write_text('{"a": ' * 100_000)
    with pytest.raises(ModelError, match="nested more than 100 deep"):
        Model.load(folder)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"w": {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 8]}}, "cut short or damaged"),
        ({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 2**60]}}, "cut short or damaged"),
        ({"w": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}, "cut short or damaged"),
        ({"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 8]}}, "cut short or damaged"),
        ({"method/x": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}}, "cut short or damaged"),
        ({"method/x": {"dtype": "I8", "shape": [8], "data_offsets": [0, 8]}}, "which no model has"),
        ({"method/x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, "contradict themselves"),
    ],
)
def test_headers_of_weights(header: dict[str, Any], said: str, folder: Path):
    head = json.dumps(header).encode()
    forge_file(folder, "weights", struct.pack("<Q", len(head)) + head + bytes(8))
    with pytest.raises(ModelError, match=said):
        Model.load(folder)


def test_weights_that_do_not_fit(folder: Path, tmp_path: Path):
    weights = load_file(weights_of(folder))
    name = "method/weight"
    wanted = rf"float32 of shape \({', '.join(map(str, weights[name].shape))}\)"

    def refused(changed: dict[str, np.ndarray], said: str) -> None:
        save_file(changed, tmp_path / "changed")
        forge_file(folder, "weights", (tmp_path / "changed").read_bytes())
        with pytest.raises(ModelError, match=said):
            Model.load(folder)

    refused(
        {**weights, name: weights[name][:1]},
        rf"do not fit the model it describes: 'weight' should be {wanted}, and is float32 of shape \(1, ",
    )
    refused(
        {**weights, name: weights[name].astype(np.float64)}, rf"'weight' should be {wanted}, and is float64 of shape"
    )
    refused({**weights, name: weights[name] * np.float32("nan")}, "'method/weight' is not finite")
    refused(
        {n: value for n, value in weights.items() if n != name},
        "do not fit the model it describes: 'weight' is missing",
    )
    refused({**weights, "method/more": weights[name]}, "do not fit the model it describes: 'more' is unexpected")
    refused({**weights, "features/idf": weights["features/idf"][:3]}, "should be equal")


@pytest.mark.parametrize("name", ["weight", "denoised_weight", "bias", "views.place", "views.projection"])
@pytest.mark.parametrize(
    "change",
    [
        lambda w: w[:0],
        lambda w: w[..., :0],
        lambda w: w[None],
        lambda w: w.ravel()[0],
        lambda w: np.concatenate([w, w]),
        lambda w: w.astype(np.float64),
        lambda w: w.astype(bool),
    ],
    ids=["no rows", "no columns", "one axis more", "a number", "twice", "float64", "bool"],
)
def test_earlier_weights_of_the_recommended_method_that_do_not_fit(
    name: str, change: Callable[[np.ndarray], np.ndarray], tmp_path: Path
):
    """They are converted first, which must not end in a traceback."""
    folder = copied("sped", tmp_path)
    weights = load_file(weights_of(folder))
    changed = np.array(change(weights[f"method/{name}"]))
    save_file({**weights, f"method/{name}": changed}, tmp_path / "changed")
    forge_file(folder, "weights", (tmp_path / "changed").read_bytes())
    with pytest.raises(ModelError, match=r"The weights in .* do not fit the model it describes: "):
        Model.load(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.update(vocabulary=["a b" * 1000], token_rules=None), "an n-gram has 1001 tokens"),
        (lambda f: f.update(ngram_range=[1, 10**9]), "ngram_range"),
        (lambda f: f.update(vocabulary=7), "vocabulary"),
        (lambda f: f.update(kind="none"), "There is no featurizer 'none'"),
        (lambda f: f.update(kind=["ngrams"]), "contradict themselves"),
        (lambda f: f.update(n_inputs=2**39), "should be equal"),
        (lambda f: f.pop("weighting"), "weighting"),
        (lambda f: f.update(kind="concat", parts=[{"kind": "ngrams"}] * 3), "contradict themselves"),
    ],
)
def test_features_that_contradict_themselves(change: Change, said: str, folder: Path):
    features = json.loads((folder / manifest_of(folder)["files"]["features"]["name"]).read_text(encoding="utf-8"))
    change(features)
    forge_file(folder, "features", json.dumps(features).encode())
    with pytest.raises(ModelError, match=said):
        Model.load(folder)
