"""Folders of encoders: what is missing, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub.utils import filter_repo_objects
from safetensors.torch import load_file, save_file

from multidomain.data.encoders.config import EncoderConfig
from multidomain.data.encoders.folder import open_encoder
from multidomain.data.encoders.hub import fetch_from_hub
from multidomain.errors import ConfigError, FetchError, ModelError
from multidomain.nn.encoders.pretrained import pretrained


@pytest.fixture
def folder(tiny_encoder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_encoder, tmp_path / "own"))


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_a_folder_that_lacks_something(folder: Path, name: str):
    (folder / name).unlink()
    with pytest.raises(ConfigError, match=f"The encoder in .*own lacks '{name}'"):
        open_encoder(str(folder))


def test_pickled_weights_are_refused(folder: Path):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"no weights as safetensors\. Get it with a model\.safetensors"):
        open_encoder(str(folder))
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(ConfigError, match=r"but pickled ones \('pytorch_model.bin'\), which can run code"):
        open_encoder(str(folder))


def test_weights_in_several_files(folder: Path):
    whole = load_file(folder / "model.safetensors")
    names = sorted(whole)
    parts = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    for file, own in parts.items():
        save_file({name: whole[name] for name in own}, folder / file)
    index = {"weight_map": {name: file for file, own in parts.items() for name in own}}
    expected = pretrained(open_encoder(str(folder)).config, open_encoder(str(folder)).weights).state_dict()
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    opened = open_encoder(str(folder))
    found = pretrained(opened.config, opened.weights).state_dict()
    assert all((found[name] == value).all() for name, value in expected.items())
    (folder / "b.safetensors").rename(folder.parent / "b.safetensors")
    for lost in ("b.safetensors", "../b.safetensors"):
        index["weight_map"][names[-1]] = lost
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        with pytest.raises(ConfigError, match="which the folder does not hold"):
            _ = open_encoder(str(folder)).weights


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ({"weight_map": ["a.safetensors"]}, "does not say which file holds which weights"),
        ({}, "does not say which file holds which weights"),
        ({"weight_map": {}}, "names no files"),
    ],
)
def test_an_index_that_is_none(folder: Path, index: dict[str, object], said: str):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ConfigError, match=said):
        _ = open_encoder(str(folder)).weights


def test_no_name():
    for source in ("", "  "):
        with pytest.raises(ConfigError, match="The encoder has no name"):
            open_encoder(source, allow_download=True)


def test_copies_in_subfolders_are_not_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The hub's own selection of files, for a repository as they often are."""
    wanted = [
        "config.json",
        "tokenizer.json",
        "model.safetensors",
        "model-00001-of-00002.safetensors",
        "model.safetensors.index.json",
    ]
    others = ["onnx/model.safetensors", "openvino/config.json", "model.fp16.safetensors", "modeling_x.py", "x.bin"]
    asked: dict[str, list[str]] = {}

    def snapshot(name: str, *, allow_patterns: list[str], **_: object) -> str:
        asked["files"] = [*filter_repo_objects([*wanted, *others], allow_patterns=allow_patterns)]
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert fetch_from_hub("owner/name") == tmp_path
    assert asked["files"] == wanted


def test_weights_of_a_model_with_heads_and_of_half_precision(folder: Path):
    whole = load_file(folder / "model.safetensors")
    expected = pretrained(open_encoder(str(folder)).config, [folder / "model.safetensors"]).state_dict()
    other = {f"bert.{name}".replace("LayerNorm.weight", "LayerNorm.gamma"): w.half() for name, w in whole.items()}
    save_file(other | {"cls.bias": whole["embeddings.LayerNorm.bias"].clone()}, folder / "model.safetensors")
    found = pretrained(open_encoder(str(folder)).config, [folder / "model.safetensors"]).state_dict()
    assert all((found[name] == value.half().float()).all() for name, value in expected.items())


def test_weights_that_do_not_fit_the_config(folder: Path):
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, "num_hidden_layers": 3}))
    with pytest.raises(ModelError, match=r"lacks 'encoder\.layer\.2\."):
        pretrained(open_encoder(str(folder)).config, open_encoder(str(folder)).weights)
    (folder / "config.json").write_text(json.dumps({**content, "intermediate_size": 8}))
    with pytest.raises(ModelError, match=r"has the shape \(64, 32\), not what its config.json says"):
        pretrained(open_encoder(str(folder)).config, open_encoder(str(folder)).weights)
    (folder / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(ModelError, match="cut short or damaged"):
        pretrained(open_encoder(str(folder)).config, open_encoder(str(folder)).weights)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "deberta-v2"}, "of the type 'deberta-v2', which cannot be read. Use an encoder of one of"),
        ({"position_embedding_type": "relative_key"}, "positions of the type 'relative_key'"),
        ({"hidden_act": "mish"}, "the activation 'mish'"),
        ({"num_attention_heads": 5}, "5 attention heads cannot share a width of 32"),
        (
            {"model_type": "mpnet", "relative_attention_num_buckets": 3},
            "3 buckets of relative positions; there can be 4",
        ),
        ({"model_type": "mpnet", "relative_attention_num_buckets": 512}, "there can be 4 to 511"),
        ({"hidden_size": None}, "width: Input should be a valid integer"),
        ({"vocab_size": "many"}, "vocabulary: Input should be a valid integer"),
    ],
)
def test_a_config_that_cannot_be_read(folder: Path, change: dict[str, object], said: str):
    content = json.loads((folder / "config.json").read_text())
    with pytest.raises(ConfigError, match=said):
        EncoderConfig.of({**content, **change}, "config.json")


def test_names_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match=r"There is no encoder 'minilmm'.* Did you mean 'minilm'\? Valid: 'minilm'"):
        open_encoder("minilmm")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("MULTIDOMAIN_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(FetchError, match=r"'nobody/none@abc' could not be downloaded from the Hugging Face Hub"):
        open_encoder("nobody/none@abc", allow_download=True)
