"""Every network on a pretrained encoder: it learns, is saved, and resumes to the bit."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from multidomain import Corpus
from multidomain.data.encoders.folder import open_encoder
from multidomain.data.encoders.named import ENCODERS
from multidomain.data.splits import holdout_split
from multidomain.data.values import corpus_from_rows
from multidomain.errors import ConfigError, ModelError
from multidomain.methods.registry import method_entry
from multidomain.methods.task import Task
from multidomain.model.joining import join_models
from multidomain.model.model import Model
from multidomain.model.storage import FORMAT_VERSION, MANIFEST
from multidomain.nn.encoders.trunk import Trunk
from multidomain.saved import write_sealed
from multidomain.training.callbacks import Callback
from multidomain.training.settings import RunSettings
from multidomain.training.train import Trained, fingerprints, train_model

SMALL = {"extractor": "encoder", "shared_size": 16, "lr": 0.01}
PRIVATE = {"private_size": 8}


def reviews(rows_of_each: int = 48) -> Corpus:
    """Texts of three domains in words that the small encoder knows; the third domain turns one word around."""
    random = np.random.default_rng(0)
    texts, labels, domains = [], [], []
    for domain, thing in (("books", "book"), ("films", "film"), ("shoes", "shoe")):
        for i in range(rows_of_each):
            good = bool(random.integers(2))
            words = ["great", "fine", "good"] if good else ["awful", "poor", "bad"]
            if domain == "shoes":
                words = ["light"] if good else ["heavy"]
            filler = " ".join(random.choice(["the", "a", "so", "was", "it", "such"], 3))
            texts.append(f"{filler} {thing} is {random.choice(words)} {'and ' * (i % 5)}{i}")
            labels.append("good" if good else "bad")
            domains.append(domain)
    return corpus_from_rows(np.array(texts, dtype=object), np.array(labels, dtype=object), domains, name="reviews")


def settings_of(method: str, source: Path, own: dict[str, Any] | None = None, **encoder: Any) -> RunSettings:
    known = method_entry(method).open_settings
    given = {**SMALL, **{name: value for name, value in PRIVATE.items() if name in known}, **(own or {})}
    return RunSettings(
        method=method,
        method_settings={**given, "encoder": {"source": str(source), "lr": 2e-3, "private_layers": 1, **encoder}},
        training={"max_epochs": 4, "patience": 4, "seed": 1},
    )


def train(settings: RunSettings, **options: Any) -> Trained:
    corpus = reviews()
    split = holdout_split(corpus)
    if settings.method in ("dann", "mdan-smax"):
        split = split.hide_labels(corpus, ["shoes"])
    return train_model(corpus, split, settings, device="cpu", **options)


ABLATIONS = [
    ("man-nll", {}, {}),
    ("man-nll", {}, {"private": "lora", "frozen_layers": 1}),
    ("man-l2", {"k": 2}, {"private": "adapter"}),
    ("sp", {}, {"private": "lora", "private_gradient": False}),
    ("mlp", {"category": "shared"}, {"frozen_layers": 0}),
    ("mlp", {"category": "domain-specific"}, {}),
    ("mlp", {"category": "domain-specific"}, {"private": "lora"}),
    ("can", {}, {"private": "lora"}),
    ("dann", {}, {}),
    ("mdan-smax", {}, {"frozen_layers": 2}),
    ("asp-mtl", {}, {"private": "adapter"}),
    ("fs-mtl", {}, {}),
]


@pytest.mark.parametrize(("method", "own", "encoder"), ABLATIONS)
def test_it_trains_and_a_saved_model_needs_no_encoder(
    method: str, own: dict[str, Any], encoder: dict[str, Any], tiny_encoder: Path, tmp_path: Path
):
    source = tmp_path / "encoder"
    source.symlink_to(tiny_encoder)
    trained = train(settings_of(method, source, own, **encoder))
    assert all(np.isfinite(list(epoch.log.values())).all() for epoch in trained.history.epochs)
    trained.model.save(tmp_path / "model")
    source.unlink()
    again = Model.load(tmp_path / "model")
    texts = ["the book is great", "a heavy shoe", "", "so so"]
    domains = ["books", "shoes", "films", "books"]
    assert np.array_equal(again.predict_proba(texts, domains), trained.model.predict_proba(texts, domains))
    assert {path.suffix for path in (tmp_path / "model").iterdir()} == {".json", ".safetensors"}
    if again.requirements.unseen_domains:
        assert np.isfinite(again.predict_proba(texts)).all()


def test_it_learns(tiny_encoder: Path):
    """What tells the classes apart in one domain is of no use in another."""
    settings = settings_of("sp", tiny_encoder).model_copy(
        update={"training": RunSettings(training={"max_epochs": 25, "patience": 25}).training}
    )
    trained = train(settings)
    found = trained.model.predict(
        ["the book is great", "a book is awful", "the shoe is light", "it was a heavy shoe"],
        ["books", "books", "shoes", "shoes"],
    )
    assert found.tolist() == ["good", "bad", "good", "bad"]


@pytest.mark.parametrize(("k", "reads"), [(1, 1), (3, 2)])
def test_with_one_update_of_D_the_encoder_reads_a_step_once(
    k: int, reads: int, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
):
    sizes: list[int] = []
    read = Trunk._read

    def counted(trunk: Trunk, x: Any) -> Any:
        if trunk.training:
            sizes.append(len(x))
        return read(trunk, x)

    monkeypatch.setattr(Trunk, "_read", counted)
    steps = []

    class Count(Callback):
        def on_step_end(self, *_: Any) -> None:
            steps.append(len(sizes))

    train(settings_of("man-nll", tiny_encoder, {"k": k}), callbacks=[Count()])
    assert steps[-1] == reads * len(steps)
    assert sizes[-1] == 2 * 3 * 8  # labelled rows and text of three domains


def test_a_domain_specific_model_leaves_the_encoder_alone(tiny_encoder: Path):
    from multidomain.nn.encoders.pretrained import pretrained

    folder = open_encoder(str(tiny_encoder))
    before = pretrained(folder.config, folder.weights).state_dict()
    trained = train(settings_of("mlp", tiny_encoder, {"category": "domain-specific"}, private="lora"))
    after = trained.model.method.trunk.encoder.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert trained.model.method.F_d.updates.query.up.abs().max() > 0


class _Stop(Exception):
    pass


class StopAt(Callback):
    def __init__(self, step: int):
        self.left = step

    def on_step_end(self, *_: Any) -> None:
        self.left -= 1
        if not self.left:
            raise _Stop


@pytest.mark.parametrize("encoder", [{}, {"private": "lora", "frozen_layers": 1}])
def test_a_run_that_was_stopped_ends_in_the_same_bits(encoder: dict[str, Any], tiny_encoder: Path, tmp_path: Path):
    settings = settings_of("man-nll", tiny_encoder, **encoder)
    quick = settings.training.model_copy(update={"checkpoint_seconds": 0.0, "clip_norm": 1.0})
    settings = settings.model_copy(update={"training": quick})
    straight = train(settings).model.method.state_dict()
    checkpoint = tmp_path / "checkpoint"
    for steps in (4, 9):
        with pytest.raises(_Stop):
            train(settings, checkpoint_path=checkpoint, callbacks=[StopAt(steps)])
    resumed = train(settings, checkpoint_path=checkpoint).model.method.state_dict()
    assert straight.keys() == resumed.keys()
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)


def test_a_checkpoint_is_of_the_encoder_that_the_folder_held(tiny_encoder: Path, tmp_path: Path):
    """Whatever of its files is another now: a network would go on with other frozen layers or subwords."""
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, folder)
    (tmp_path / "link").symlink_to(folder)
    settings, corpus = settings_of("sp", tmp_path / "link"), reviews()
    split = holdout_split(corpus)
    found = [fingerprints(corpus, split, settings)[0]]
    assert fingerprints(corpus, split, settings)[0] == found[0]
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        with (folder / name).open("ab") as file:
            file.write(b" ")
        found.append(fingerprints(corpus, split, settings)[0])
    assert len(set(found)) == 4


def test_the_fingerprint_of_a_named_encoder_fetches_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("multidomain.data.encoders.folder.fetch_encoder", lambda name: pytest.fail("fetched"))
    corpus = reviews()
    split, of = holdout_split(corpus), []
    for content in (ENCODERS["minilm"].files, {**ENCODERS["minilm"].files, "config.json": "0" * 64}):
        monkeypatch.setitem(ENCODERS, "minilm", replace(ENCODERS["minilm"], files=content))
        of.append(fingerprints(corpus, split, settings_of("sp", Path("minilm")))[0])
    assert of[0] != of[1]


def test_features_are_those_of_the_encoder(tiny_encoder: Path):
    """A source among the settings of features would be another encoder's subwords."""
    settings = settings_of("sp", tiny_encoder).model_copy(update={"features": {"subwords": {"source": "minilm"}}})
    assert settings.of_featurizer("subwords").source == str(tiny_encoder)
    assert settings.complete()["features"]["subwords"]["source"] == str(tiny_encoder)


def test_an_encoder_of_another_vocabulary_is_refused(tiny_encoder: Path):
    settings = settings_of("sp", tiny_encoder)
    with pytest.raises(ConfigError, match=r"The encoder knows \d+ subwords, and the features have 3"):
        settings.entry.build(Task(3, 2, ("a", "b"), (0, 1)), settings.entry.settings(settings.method_settings))


def test_which_encoder_must_be_said(tiny_encoder: Path):
    with pytest.raises(ConfigError, match="needs to know which: encoder=minilm, mpnet or a folder"):
        method_entry("sp").settings({"extractor": "encoder"})
    with pytest.raises(ConfigError, match="'encoder' has no effect with extractor 'cnn'"):
        method_entry("sp").settings({"extractor": "cnn", "encoder": "minilm"})
    with pytest.raises(ConfigError, match=r"'encoder\.rank': input should be greater"):
        method_entry("sp").settings({"extractor": "encoder", "encoder": {"source": "minilm", "rank": 0}})
    given = method_entry("man-nll").settings({"extractor": "encoder", "encoder": "minilm", "dropout": 0.3})
    assert (given.encoder.source, given.lr, given.k, given.dropout) == ("minilm", 1e-3, 1, 0.3)


def test_the_shape_of_an_encoder_is_none_of_the_users_settings(tiny_encoder: Path):
    """With it the network would start from random weights."""
    shape = open_encoder(str(tiny_encoder)).config.model_dump()
    own = {"extractor": "encoder", "encoder": {"source": str(tiny_encoder), "config": shape}}
    for method, given in (("sp", own), ("ensemble", {"members": [{"method": "sp", "settings": own}, "sped"]})):
        with pytest.raises(ConfigError, match=r"'config' is read from the encoder's own config\.json; leave it out"):
            _ = RunSettings(method=method, method_settings=given).requirements


def test_an_ensemble_of_encoders_that_are_to_be_trained(tiny_encoder: Path):
    own = {"method": "sp", "settings": {"extractor": "encoder", "encoder": str(tiny_encoder)}}
    assert RunSettings(method="ensemble", method_settings={"members": [own, "sped"]}).requirements.in_epochs


@pytest.mark.parametrize("joined", [False, True])
def test_a_saved_model_without_the_shape_of_its_encoder(
    joined: bool, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Nothing is looked for elsewhere, whatever the model says."""
    model = train(settings_of("mlp", tiny_encoder, {"category": "shared"})).model
    (join_models("ensemble", [model, model]) if joined else model).save(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    settings = manifest["settings"]["members"][1]["settings"] if joined else manifest["settings"]
    settings["encoder"]["config"] = None
    settings["encoder"] |= {"source": "minilm", "allow_download": True}
    for name in ("multidomain", "format_version", "sha256"):
        manifest.pop(name)
    write_sealed(tmp_path / MANIFEST, manifest, FORMAT_VERSION)
    for name in ("fetch_encoder", "fetch_from_hub"):
        monkeypatch.setattr(f"multidomain.data.encoders.folder.{name}", lambda *_: pytest.fail("fetched"))
    with pytest.raises(ModelError, match="a saved model has the shape of its encoder, and this 'config' is missing"):
        Model.load(tmp_path)


def test_defaults_of_other_extractors_stay(tiny_encoder: Path):
    given = method_entry("man-nll").settings({})
    assert (given.lr, given.k, given.dropout, given.encoder) == (1e-4, 5, 0.4, None)
