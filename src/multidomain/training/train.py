"""From a corpus and a split to a trained model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.data.checks import check_trainable
from multidomain.data.corpus import Corpus
from multidomain.data.named.cache import cache_folder
from multidomain.data.splits import Split
from multidomain.devices import Device, check_there, cuda_devices, kind_of, seeded
from multidomain.errors import ConfigError, Note, TrainingError, quoted
from multidomain.features.base import FEATURIZERS, Documents, Featurizer
from multidomain.methods.base import FitContext, Method
from multidomain.methods.data import TrainingData
from multidomain.methods.history import History
from multidomain.methods.selection import NEVER_CHOSEN
from multidomain.model.calibration import align_to_priors, set_temperatures
from multidomain.model.compact import column_sizes, compact
from multidomain.model.joining import join_models
from multidomain.model.model import Model
from multidomain.model.storage import check_finite
from multidomain.processes import check_shares, is_first, number_of_processes, rank_on_machine, refuse_several
from multidomain.renamings import config_with_old_names, without_added
from multidomain.threads import threads_in_use
from multidomain.training.callbacks import Callback, prepare, progress_of_stages
from multidomain.training.data import EncodedRows, training_data
from multidomain.training.memory import check_fits
from multidomain.training.settings import ObjectiveSettings, RunSettings, with_method


@dataclass(frozen=True)
class Trained:
    """A trained model and its history.

    Attributes
    ----------
    encoded
        All rows of the run as the model reads them.
    notes
        Notes for the user.
    whole
        The same before n-grams were dropped, if the model is to be compact.
    """

    model: Model
    history: History
    encoded: EncodedRows
    notes: tuple[Note, ...] = ()
    whole: Trained | None = None

    def probabilities(self, corpus: Corpus, rows: np.ndarray) -> np.ndarray:
        """Return class probabilities of rows of the run, shape (rows, classes)."""
        domains = self.model.resolve_domains(list(corpus.domains[rows]), len(rows))
        return self.model.probabilities(self.encoded[rows], domains.codes)


def train_model(
    corpus: Corpus,
    split: Split,
    settings: RunSettings,
    *,
    device: Device = "auto",
    checkpoint_path: Path | None = None,
    callbacks: Sequence[Callback] = (),
    documents: Documents | None = None,
    also_encode: Sequence[int] | np.ndarray = (),
) -> Trained:
    """Fit features on training and unlabelled text, then train the method.

    Parameters
    ----------
    corpus, split
        Test rows are encoded, so that they can be predicted afterwards; nothing is learnt from them.
    checkpoint_path
        Path of the checkpoint. If the file exists, the run resumes from it.
    documents
        Those of the corpus, if several runs share their analysis.
    also_encode
        Rows outside the split to encode for later prediction.

    Examples
    --------
    >>> from multidomain import load_corpus
    >>> from multidomain.data.splits import default_split
    >>> corpus = load_corpus("demo")
    >>> split = default_split(corpus)
    >>> trained = train_model(corpus, split, RunSettings(method="fa-lr"))
    >>> trained.probabilities(corpus, split.test).shape == (len(split.test), 2)
    True
    """
    settings.check_compact()
    notes = _Notes(callbacks)
    for note in check_trainable(corpus, split):
        notes.add(note)
    also = np.asarray(also_encode, dtype=np.int64)
    training = _Training(
        corpus,
        split,
        rows=np.concatenate([split.train, split.unlabelled, split.dev, split.test, also]),
        documents=Documents(corpus.documents) if documents is None else documents,
        callbacks=callbacks,
        notes=notes,
    )
    with progress_of_stages(callbacks, in_epochs=settings.requirements.in_epochs):
        return training.run(settings, device, checkpoint_path)


class _Notes:
    """Notes of a run, each reported once."""

    def __init__(self, callbacks: Sequence[Callback]):
        self._callbacks = callbacks
        self.so_far: list[Note] = []

    def add(self, note: Note) -> None:
        if note not in self.so_far:
            self.so_far.append(note)
            for callback in self._callbacks:
                callback.on_note(note)


@dataclass(frozen=True, eq=False)
class _Training:
    """What a run and the members of an ensemble have in common."""

    corpus: Corpus
    split: Split
    rows: np.ndarray
    documents: Documents
    callbacks: Sequence[Callback]
    notes: _Notes

    def run(self, settings: RunSettings, device: Device, checkpoint_path: Path | None) -> Trained:
        """Train a method, or the members of an ensemble."""
        train = self._train_members if settings.requirements.members else self._train_one
        return train(settings, device, checkpoint_path)

    def _train_one(self, settings: RunSettings, device: Device, checkpoint_path: Path | None) -> Trained:
        entry, asks_for = settings.entry, settings.requirements
        device = resolved_device(device, settings)
        check_processes(settings)
        assert asks_for.featurizer is not None
        featurizer = FEATURIZERS.find(asks_for.featurizer)
        text = self.documents[np.concatenate([self.split.train, self.split.unlabelled])].analysed_for(featurizer)
        features = featurizer.from_settings(settings.of_featurizer(featurizer.name)).fit(text)
        encoded = EncodedRows(features, self.documents, self.rows, len(self.corpus))
        for note in features.notes:
            self.notes.add(note)
        check_fits(entry.name, asks_for, encoded)
        data = training_data(self.corpus, self.split, features, encoded, settings.objective.class_weight)
        if not len(data.dev):
            self.notes.add(_NO_DEV_SET)
        if settings.objective.compact is not None:
            self._check_compact(features)
        context = _Context(settings, self.callbacks, self.notes)
        if checkpoint_path and asks_for.in_epochs:
            from multidomain.training.checkpoint import Checkpoint  # imported here: it needs torch

            newest, *older = fingerprints(self.corpus, self.split, settings, device)
            context.checkpoint = Checkpoint(checkpoint_path, newest, tuple(older))
        with _for_epochs(settings, device) if asks_for.in_epochs else nullcontext():
            method = entry.build(data.task, entry.settings(settings.method_settings)).to(device)
            if asks_for.input_dimension and is_first():  # other processes get the weights of the first
                cache, on_epoch = cache_folder() / "vectors", partial(prepare, self.callbacks, "word vectors")
                vectors = features.input_vectors(text, asks_for.input_dimension, cache, on_epoch)
                if vectors is not None:
                    method.use_input_vectors(vectors)
            model = Model(entry.name, method, features, data.classes)
            for callback in self.callbacks:
                callback.on_model_built(model, encoded)
            history = _fitted(entry.name, method, data, context)
        if not asks_for.calibrated:
            assert data.dev.y is not None
            set_temperatures(method, data.dev.x, data.dev.y, data.dev.d)
            _align(method, data, history)
            check_finite(entry.name, method)
        trained = Trained(model, history, encoded, tuple(self.notes.so_far))
        if settings.objective.compact is None:
            return trained
        return self._compacted(trained, column_sizes(data.text.x), settings.objective.compact)

    def _check_compact(self, features: Featurizer) -> None:
        if not len(self.split.dev) or features.vocabulary is None:
            missing = "dev rows to decide by what can be dropped" if features.vocabulary else "texts, and not vectors"
            raise ConfigError(f"A compact model needs {missing}.", "Leave out {compact=...}.")

    def _compacted(self, whole: Trained, sizes: np.ndarray, tolerance: float) -> Trained:
        rows = self.split.dev
        documents = self.documents[rows].analysed_for(type(whole.model.features))
        model = compact(whole.model, documents, list(self.corpus.domains[rows]), sizes, tolerance)
        encoded = EncodedRows(model.features, self.documents, self.rows, len(self.corpus))
        return replace(whole, model=model, encoded=encoded, whole=whole)

    def _train_members(self, settings: RunSettings, device: Device, checkpoint_path: Path | None) -> Trained:
        """Train the members one by one, except saved ones, and join them.

        They are joined on the CPU, where every member can run.
        """
        models, chosen, earlier = [], {}, np.zeros(2)
        for number, member in enumerate(settings.requirements.members, start=1):
            if member.folder:
                models.append(Model.load(member.folder))
                continue
            own = with_method(settings, member.method, member.settings)
            checkpoint = checkpoint_path and checkpoint_path.with_stem(f"{checkpoint_path.stem}-{number}")
            trained = self.run(own, suited_device(own, device), checkpoint)
            trained.model.method.to("cpu")
            models.append(trained.model)
            earlier += trained.history.earlier
            chosen[f"{number} {member.method}"] = trained.history.chosen or {"epoch": trained.history.best_epoch}
        model = join_models(settings.entry.name, models, settings.entry.settings(settings.method_settings))
        encoded = EncodedRows(model.features, self.documents, self.rows, len(self.corpus))
        data = training_data(self.corpus, self.split, model.features, encoded, settings.objective.class_weight)
        data = _in_classes_of(model, data)
        fitted = _fitted(settings.entry.name, model.method, data, _Context(settings, self.callbacks, self.notes))
        history = History(chosen=chosen | fitted.chosen, earlier=(earlier[0], earlier[1]))
        return Trained(model, history, encoded, tuple(self.notes.so_far))


def _in_classes_of(model: Model, data: TrainingData) -> TrainingData:
    """Return data with the classes numbered as saved members have them, which may know more than there are here."""
    unknown = [name for name in data.classes if name not in model.classes]
    if unknown:
        raise ConfigError(
            f"The members know the classes {quoted(model.classes)}, and the data has {quoted(unknown)}.",
            "Join models of the same classes, or correct the labels.",
        )
    number = np.array([model.classes.index(name) for name in data.classes], dtype=np.int64)
    labelled, dev = (replace(part, y=None if part.y is None else number[part.y]) for part in (data.labelled, data.dev))
    task = replace(data.task, n_classes=len(model.classes))
    return replace(data, task=task, classes=model.classes, labelled=labelled, dev=dev)


def _fitted(name: str, method: Method, data: TrainingData, context: FitContext) -> History:
    """Fit a method, and refuse weights that are not finite and matrices that cannot be factorised."""
    try:
        history = method.fit(data, context)
    except np.linalg.LinAlgError as error:
        raise TrainingError(
            f"'{name}' has diverged: {error}", "Look for very large or very small values among features and settings."
        ) from None
    check_finite(name, method)
    return history


def _align(method: Method, data: TrainingData, history: History) -> None:
    """Align the predictions to the class priors that the method has estimated."""
    names = data.task.domains
    priors = {names.index(name): found for name, found in history.class_priors.items()}
    text = data.text.select(np.isin(data.text.d, list(priors)))
    shares = {d: np.array([found.prior[str(c)] for c in data.classes]) for d, found in priors.items()}
    align_to_priors(method, text.x, text.d, shares, {d: found.certainty for d, found in priors.items()})


_NO_DEV_SET = Note(
    "The dev set has no labelled rows: nothing can be selected on it, so the last epoch and the defaults are kept.",
    kind="no-dev-set",
)


class _Context(FitContext):
    """The context of fitting: callbacks, and the training loop."""

    def __init__(self, settings: RunSettings, callbacks: Sequence[Callback], notes: _Notes):
        self.metric = settings.objective.metric
        self._settings = settings.training
        self._callbacks = callbacks
        self._notes = notes
        self.checkpoint: Any = None

    def report(self, values: Mapping[str, Any], dev_score: float | None) -> None:
        if dev_score == NEVER_CHOSEN:
            dev_score = None
        for callback in self._callbacks:
            callback.on_candidate(values, dev_score)

    def note(self, note: Note) -> None:
        self._notes.add(note)

    def run_epochs(self, method: Any, data: TrainingData) -> History:
        from multidomain.training.loop import Trainer  # imported here: it needs torch

        trainer = Trainer(
            method,
            data,
            self._settings,
            metric=self.metric,
            checkpoint=self.checkpoint,
            callbacks=self._callbacks,
            on_note=self.note,
        )
        return trainer.run()


def saved_members(settings: RunSettings) -> list[Path]:
    """Return the folders of the saved models that a run joins, those inside inner ensembles too."""
    folders = []
    for member in settings.requirements.members:
        if member.folder:
            folders.append(Path(member.folder))
        else:
            folders += saved_members(RunSettings(method=member.method, method_settings=member.settings))
    return folders


def fingerprints(corpus: Corpus, split: Split, settings: RunSettings, device: str = "cpu") -> tuple[str, str]:
    """Return a hash of everything that a run depends on, and the hash as computed before settings were renamed.

    A checkpoint of another run is not resumed.
    """
    complete = settings.complete()
    defaults = settings.entry.settings({}).model_dump(mode="json")
    complete["method_settings"] = without_added(complete["method_settings"], defaults)
    del complete["objective"]["compact"]  # has no influence up to the checkpoint, nor on a choice
    if settings.objective.model_copy(update={"compact": None}) == ObjectiveSettings():
        del complete["objective"]  # a checkpoint may be older than these settings
    if settings.training.clip_norm is None:  # the same
        del complete["training"]["clip_norm"]
    del complete["training"]["recover"]  # has no influence up to the checkpoint, so a run that diverged can be resumed
    both = {name: settings.of_featurizer(name).model_dump(mode="json") for name in ("ngrams", "sequences")}
    for features in (both, complete["features"]):
        if features.get("ngrams", {}).get("min_df") == 1:  # the same
            del features["ngrams"]["min_df"]
    older = config_with_old_names({**complete, "features": both})
    rows = [np.ascontiguousarray(part, dtype=np.int64) for part in (split.train, split.dev, split.unlabelled)]
    content = corpus.content_hash().encode() + b"".join(part.tobytes() + b"|" for part in rows)
    featurizer = settings.featurizer()
    files = featurizer.files_digest() if featurizer else None
    hashes = []
    for config in (complete, older):
        what = {**config, "selection": split.selection}
        what["threads"] = threads_in_use()  # determines the order of summation
        if device != "cpu":  # optimisers of networks are others there
            what["device"] = kind_of(device)
        if number_of_processes() > 1:  # decides which random numbers a row gets
            what["processes"] = number_of_processes()
        if files is not None:  # a name or a folder stays the same when its files do not
            what["files"] = files
        hashes.append(hashlib.sha256(json.dumps(what, sort_keys=True).encode() + content).hexdigest())
    return hashes[0], hashes[1]


def suited_device(settings: RunSettings, device: Device) -> Device:
    """Return the device, or "auto" if the method does not run on it."""
    devices = settings.requirements.devices
    return device if not devices or kind_of(device) in devices else "auto"


def resolved_device(device: Device, settings: RunSettings | None = None) -> Device:
    """Return the device to use; "auto" is a CUDA device, if there is one and the method runs on it, or else the CPU.

    Of several processes each has a CUDA device of its own. Raises a `ConfigError` if the device is not there, or the
    method does not run on it.
    """
    devices = settings.requirements.devices if settings else ()
    if device == "auto":
        device = "cuda" if (not devices or "cuda" in devices) and cuda_devices() else "cpu"
    if settings and devices and kind_of(device) not in devices:
        raise ConfigError(
            f"'{settings.method}' with these settings runs on {' and '.join(devices)} only.",
            f"Use {{device={devices[0]}}}.",
        )
    several = number_of_processes() > 1
    if several and device not in ("cpu", "cuda"):
        raise ConfigError(
            f"Several processes cannot share the device '{device}'.",
            "Use {device=cuda}, one for each, or {device=cpu}.",
        )
    device = f"cuda:{rank_on_machine()}" if several and device == "cuda" else device
    check_there(device)
    return device


def check_processes(settings: RunSettings) -> None:
    """Raise a `ConfigError` if torchrun has started several processes, and they cannot train this together."""
    if not settings.requirements.several_processes:
        refuse_several(f"'{settings.method}' with these settings is trained by one process")
    elif settings.requirements.in_epochs:
        check_shares(settings.training.batch_size)


@contextmanager
def _for_epochs(settings: RunSettings, device: Device) -> Iterator[None]:
    """Seed torch, and connect the processes that train together, if there are several."""
    from multidomain.nn.collectives import joined

    with seeded(settings.training.seed, device), joined(device):
        yield
