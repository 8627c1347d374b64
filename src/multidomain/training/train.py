"""From a corpus and a split to a trained model."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, field_validator

from multidomain.data.checks import check_trainable
from multidomain.data.corpus import Corpus
from multidomain.data.named.cache import cache_folder
from multidomain.data.splits import Split
from multidomain.errors import ConfigError, NoDevelopmentRows
from multidomain.features.concat import Featurizer
from multidomain.features.ngrams import NgramFeaturizer, Weighting
from multidomain.features.prepared import word_vectors
from multidomain.features.sequences import SequenceFeaturizer
from multidomain.methods.adversarial.network import NetworkMethod
from multidomain.methods.base import FittedMethod, GradientMethod, Method
from multidomain.methods.data import TrainingData
from multidomain.methods.ensemble import EnsembleSettings, Member
from multidomain.methods.registry import RECOMMENDED, method_entry
from multidomain.model.model import Model, join_models
from multidomain.settings import Settings
from multidomain.training.callbacks import Callback, History
from multidomain.training.checkpoint import Checkpoint
from multidomain.training.data import training_data
from multidomain.training.loop import Trainer, TrainingSettings

Device = Literal["auto", "cpu", "cuda"]


class FeatureSettings(Settings):
    """What the network reads of a document; None is what the method asks for."""

    weighting: Weighting | None = Field(None, description="counts, tfidf or raw; by default what the method asks for")
    max_features: int | None = Field(
        None, ge=1, description="how many n-grams to keep, the most frequent; by default what the method asks for"
    )
    ngram_range: tuple[int, int] | None = Field(
        None, description="shortest and longest n-gram; by default what the method asks for"
    )

    @field_validator("ngram_range")
    @classmethod
    def _shortest_first(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and not 1 <= value[0] <= value[1]:
            raise ValueError("expected the shortest n-gram, at least 1, and the longest")
        return value


class WordSettings(Settings):
    """What extractors that read words in their order read of a document."""

    max_words: int = Field(50_000, ge=2, description="size of the vocabulary")
    min_count: int = Field(2, ge=1, description="leave rarer words out")
    max_length: int | None = Field(None, ge=1, description="read no more than so many words of a text; by default all")
    vectors: str | None = Field(
        None, description="a file, or 'random'; by default trained on the training and unlabelled text"
    )


class RunSettings(Settings):
    """Everything that decides the outcome of a run, but for the data and the split.

    `method_settings` holds what differs from the method's defaults.
    """

    method: str = RECOMMENDED
    method_settings: dict[str, Any] = Field(default_factory=dict)
    features: FeatureSettings = FeatureSettings()
    words: WordSettings = WordSettings()
    training: TrainingSettings = TrainingSettings()

    def complete(self) -> dict[str, Any]:
        """Return all settings that decide the outcome, those left at their defaults included, as JSON can hold them."""
        method = method_entry(self.method).settings(self.method_settings)
        settings = {
            **self.model_dump(mode="json"),
            "method_settings": method.model_dump(mode="json"),
            "features": self.resolved_features().model_dump(mode="json"),
        }
        del settings["training"]["checkpoint_seconds"]  # has no influence on the outcome
        return settings

    def resolved_features(self) -> FeatureSettings:
        """Return what is read of a document, the method's own wish filled in."""
        given, entry = self.features, method_entry(self.method)
        return FeatureSettings(
            weighting=given.weighting or entry.weighting,
            max_features=given.max_features or entry.max_features,
            ngram_range=given.ngram_range or entry.ngram_range,
        )


@dataclass(frozen=True)
class Trained:
    """A model and how its training went."""

    model: Model
    history: History


def train_model(
    corpus: Corpus,
    split: Split,
    settings: RunSettings,
    *,
    device: Device = "auto",
    checkpoint_path: Path | None = None,
    callbacks: Sequence[Callback] = (),
) -> Trained:
    """Fit features on training and unlabelled text, then train the method.

    Parameters
    ----------
    corpus, split
        Test rows are not looked at.
    checkpoint_path
        Where the state of the run is kept while it lasts. If the file is there, the run goes on from it.
    """
    entry = method_entry(settings.method)
    method_settings = entry.settings(settings.method_settings)
    check_trainable(corpus, split)
    if isinstance(method_settings, EnsembleSettings):
        return _train_ensemble(corpus, split, settings, method_settings.members, device, checkpoint_path, callbacks)
    on_cpu_only = _on_cpu_only(settings)
    torch_device = resolved_device("cpu" if on_cpu_only and device == "auto" else device)
    if on_cpu_only and torch_device.type != "cpu":
        raise ConfigError(f"'{settings.method}' with these settings runs on the CPU only: use the device 'cpu'.")
    texts = corpus.documents[np.concatenate([split.train, split.unlabelled])]
    features: Featurizer
    if reads_words := getattr(method_settings, "reads_words", False):
        features = SequenceFeaturizer(**settings.words.model_dump(exclude={"vectors"})).fit(texts)
    else:
        features = NgramFeaturizer(**settings.resolved_features().model_dump()).fit(texts)
    data = training_data(corpus, split, features, torch_device)
    if not len(data.dev):
        warnings.warn(
            "There are no labelled development rows: nothing can be chosen by them, so the last epoch and the default "
            "values are kept.",
            NoDevelopmentRows,
            stacklevel=2,
        )
    with torch.random.fork_rng():  # leave the caller's random state alone
        torch.manual_seed(settings.training.seed)
        method = entry.build(data.task, method_settings).to(torch_device)
        if reads_words:
            _start_from_vectors(method, features, texts, settings.words.vectors, callbacks)
        model = Model(settings.method, method, features, data.classes)
        for callback in callbacks:
            callback.on_model_built(model)
        if isinstance(method, FittedMethod):
            history = _fit(method, data, callbacks)
        else:
            assert isinstance(method, GradientMethod)
            checkpoint = Checkpoint(checkpoint_path, fingerprint(corpus, split, settings)) if checkpoint_path else None
            history = Trainer(method, data, settings.training, checkpoint=checkpoint, callbacks=callbacks).run()
    return Trained(model, history)


def _on_cpu_only(settings: RunSettings) -> bool:
    entry = method_entry(settings.method)
    method_settings = entry.settings(settings.method_settings)
    return issubclass(entry.method, FittedMethod) or getattr(method_settings, "runs_on_cpu_only", False)


def suited_device(settings: RunSettings, device: Device) -> Device:
    """Return the device, or "auto" for a method that runs on the CPU only, for runs of which some can use it."""
    return "auto" if _on_cpu_only(settings) else device


def saved_members(settings: RunSettings) -> list[Path]:
    """Return the folders of the saved models that a run joins, those inside inner ensembles too."""
    method_settings = method_entry(settings.method).settings(settings.method_settings)
    folders = []
    for member in method_settings.members if isinstance(method_settings, EnsembleSettings) else ():
        if member.folder:
            folders.append(Path(member.folder))
        else:
            folders += saved_members(RunSettings(method=member.method, method_settings=member.settings))
    return folders


def _train_ensemble(
    corpus: Corpus,
    split: Split,
    settings: RunSettings,
    members: Sequence[Member],
    device: Device,
    checkpoint_path: Path | None,
    callbacks: Sequence[Callback],
) -> Trained:
    """Train the members one after the other, but for those that are saved, and join them.

    They are joined on the CPU, where every member can run.
    """
    models, chosen = [], {}
    for number, member in enumerate(members, start=1):
        if member.folder:
            models.append(Model.load(member.folder))
            continue
        own = settings.model_copy(update={"method": member.method, "method_settings": member.settings})
        checkpoint = checkpoint_path and checkpoint_path.with_stem(f"{checkpoint_path.stem}-{number}")
        where = suited_device(own, device)
        trained = train_model(corpus, split, own, device=where, checkpoint_path=checkpoint, callbacks=callbacks)
        trained.model.method.to("cpu")
        models.append(trained.model)
        chosen[f"{number} {member.method}"] = trained.history.chosen or {"epoch": trained.history.best_epoch}
    return Trained(join_models(models), History(chosen=chosen))


def _start_from_vectors(
    method: Method, sequences: Featurizer, texts: np.ndarray, given: str | None, callbacks: Sequence[Callback]
) -> None:
    assert isinstance(method, NetworkMethod) and isinstance(sequences, SequenceFeaturizer)

    def told(done: int, of: int) -> None:
        for callback in callbacks:
            callback.on_prepare("word vectors", done, of)

    dimension = method.extractors[0].table.shape[1]
    vectors = word_vectors(sequences, texts, dimension, given, cache_folder() / "vectors", told)
    if vectors is not None:
        method.use_vectors(torch.from_numpy(vectors))


def _fit(method: FittedMethod, data: TrainingData, callbacks: Sequence[Callback]) -> History:
    def tried(values: Mapping[str, Any], dev_accuracy: float | None) -> None:
        for callback in callbacks:
            callback.on_candidate(values, dev_accuracy)

    return History(chosen=method.fit(data, tried))


def fingerprint(corpus: Corpus, split: Split, settings: RunSettings) -> str:
    """Return a hash of all that a run depends on, so that a checkpoint of another run is not taken up."""
    what = {**settings.complete(), "selection": split.selection}
    what["threads"] = torch.get_num_threads()  # which decide the order of sums
    digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode())
    digest.update(corpus.content_hash().encode())
    for rows in (split.train, split.dev, split.unlabelled):
        digest.update(np.ascontiguousarray(rows, dtype=np.int64).tobytes() + b"|")
    return digest.hexdigest()


def resolved_device(device: Device) -> torch.device:
    """Turn "auto" into an accelerator where there is one."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("Device 'cuda' was asked for and there is none. Use --device cpu or auto.")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)
