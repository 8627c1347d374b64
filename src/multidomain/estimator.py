"""The scikit-learn estimator: fit, predict, score, save and load."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from inspect import Parameter, Signature
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from pydantic import Field
from rich.console import Console
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from multidomain.data.corpus import Corpus, object_array
from multidomain.data.splits import Split, holdout_split
from multidomain.data.values import ONLY_DOMAIN, class_name, corpus_from_rows, is_missing
from multidomain.devices import Device
from multidomain.errors import ConfigError, DataError, ModelError, quoted, warn
from multidomain.features.ngrams import NgramFeaturizer
from multidomain.features.settings import SECTIONS
from multidomain.files import sha256_of
from multidomain.methods.registry import RECOMMENDED, method_entry
from multidomain.model.estimator_file import EstimatorFile
from multidomain.model.model import Model
from multidomain.model.settings import UnknownDomain
from multidomain.model.storage import MANIFEST
from multidomain.renamings import estimator_renamed
from multidomain.runs.auto import choose_method, chosen_settings
from multidomain.runs.config import AUTO, AutoSettings, train_options
from multidomain.saved import COPY_AGAIN, read_sealed, write_sealed
from multidomain.settings import Settings
from multidomain.training.callbacks import Callback
from multidomain.training.progress import progress_on
from multidomain.training.settings import RunSettings
from multidomain.training.train import resolved_device, suited_device, train_model

Estimator = TypeVar("Estimator")

FORMAT_VERSION = 1
OWN_FILE = "estimator.json"
# With fewer dev rows a single row moves the accuracy by more than ten points, too noisy to select an epoch.
_FEWEST_DEV_ROWS = 10
# Grid search cannot reach into a dict, so the most common settings of methods are parameters too.
_METHOD_PARAMETERS = ("category", "extractor", "lam", "k", "hidden", "dropout", "lr")


class EstimatorSettings(Settings):
    """What only the estimator has."""

    method: str = Field(RECOMMENDED, description="name in the registry; ``multidomain methods`` lists them")
    method_settings: dict[str, Any] | None = Field(None, description="the method's other settings")
    validation_fraction: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="fraction of the labelled rows that is the dev set, stratified by domain and class, duplicates "
        "together; if that is fewer than 10 rows, all rows are trained on for `max_epochs`",
    )
    unknown_domain: UnknownDomain = Field(
        "shared",
        description="for a domain that was not in training, predict from the shared features, with a "
        "warning, or raise an error",
    )
    device: Device = Field("auto", description="where to train")
    random_state: Any = Field(
        None,
        description="the same int gives the same model; None draws the seed from numpy's global state, as everywhere "
        "in scikit-learn",
    )
    verbose: bool = Field(False, description="show progress on standard error")


class _Declared(NamedTuple):
    """A parameter: where its setting stands, its default, and what it is."""

    path: tuple[str, ...]
    default: Any
    about: str


def _declared() -> dict[str, _Declared]:
    """Return every parameter; the method comes first, what only the estimator has last."""
    own = {
        name: _Declared((name,), field.get_default(), field.description or "")
        for name, field in EstimatorSettings.model_fields.items()
    }
    shared = {
        option.name: _Declared(option.path, option.default, option.field.description or "")
        for option in train_options()
        if option.path[0] in ("features", "training", "objective", "auto") and option.name != "checkpoint_seconds"
    }
    about = "setting of the method; None is the method's default"
    of_method = {name: _Declared(("method_settings", name), None, about) for name in _METHOD_PARAMETERS}
    return {"method": own.pop("method"), **shared, **of_method, **own}


_PARAMETERS = _declared()


def _with_parameters(estimator: type[Estimator]) -> type[Estimator]:
    """Give an estimator's constructor and documentation the declared parameters."""
    signature = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for name, declared in _PARAMETERS.items():
        kind = Parameter.POSITIONAL_OR_KEYWORD if name == "method" else Parameter.KEYWORD_ONLY
        signature.append(Parameter(name, kind, default=declared.default))
    estimator.__init__.__signature__ = Signature(signature)  # type: ignore[attr-defined]
    lines = [f"    {name} : default={one.default!r}\n        {one.about}." for name, one in _PARAMETERS.items()]
    estimator.__doc__ = (estimator.__doc__ or "").replace("    <parameters>", "\n".join(lines))
    return estimator


@_with_parameters
class MultiDomainClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of documents from several domains.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_, domains_ : ndarray
        Classes and domains of the training data, sorted, as they were given. Without domains there is one,
        ``all``.
    model_ : multidomain.Model
        The trained model, which knows classes and domains by name.
    history_ : History
        The training history.
    choice_ : AutoChoice or None
        How ``method="auto"`` chose the method.
    n_iter_ : int
        Epochs run.
    n_features_in_ : int
        Columns of the vectors; not there after training on texts.

    Examples
    --------
    >>> texts = ["a light shoe", "a heavy shoe", "a heavy pan", "a light pan"] * 5
    >>> labels = ["good", "bad", "good", "bad"] * 5
    >>> domains = ["shoes", "shoes", "kitchen", "kitchen"] * 5
    >>> classifier = MultiDomainClassifier(random_state=0)
    >>> classifier.fit(texts, labels, domains=domains).predict(["so light"] * 2, domains=["shoes", "kitchen"])
    array(['good', 'bad'], dtype='<U4')
    """

    if TYPE_CHECKING:  # parameters are attributes

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, *args: Any, **parameters: Any):
        bound = inspect.signature(type(self).__init__).bind(self, *args, **parameters)
        bound.apply_defaults()
        for name in _PARAMETERS:
            setattr(self, name, bound.arguments[name])

    def fit(
        self, X: Any, y: Any, domains: Any = None, sample_weight: Any = None, callbacks: Sequence[Callback] = ()
    ) -> Self:
        """Train on documents of one or more domains.

        Parameters
        ----------
        X : sequence of str, or matrix of shape (documents, columns), sparse or dense
            Texts or vectors.
        y : array-like
            Class of each document; None (or NaN, or a blank string) where it is not known.
        domains : array-like, default=None
            Domain of each document; None is one domain.
        sample_weight : array-like, default=None
            How much the label of each document counts in training; None: all alike. 0 hides it.
        callbacks : sequence of Callback, default=()
            Called during training; see `multidomain.training.callbacks.Callback`.
        """
        settings, seed = self._settings()
        documents = self._documents(X, reset=True)
        y = column_or_1d(y, warn=True)
        names = [ONLY_DOMAIN] * len(y) if domains is None else _listed(domains)
        if not documents.shape[0] == len(y) == len(names):
            given = "" if domains is None else f" and domains {len(names)}"
            raise DataError(f"X has {documents.shape[0]} rows, y {len(y)}{given}. Give one of each for every document.")
        weights = None if sample_weight is None else _weights(sample_weight, len(y))
        corpus = corpus_from_rows(documents, y, names, weights=weights, name="X")
        self.classes_ = _classes(y[corpus.labelled])
        self.domains_ = np.unique(_natural(np.asarray(names if domains is None else domains)))
        split = _dev_split(corpus, settings.validation_fraction, seed)
        callbacks = [*callbacks, *([progress_on(Console(stderr=True))] if self.verbose else [])]
        self.choice_ = None
        if settings.method == AUTO:
            how, base = self._auto_settings(), self._run_settings(RECOMMENDED, seed)
            self.choice_ = choose_method(corpus, split, base, how, device=settings.device, callbacks=callbacks)
            run = chosen_settings(base, self.choice_)
            device = suited_device(run, settings.device)
        else:
            run, device = self._run_settings(settings.method, seed), settings.device
        trained = train_model(corpus, split, run, device=device, callbacks=callbacks)
        expected = {"no-dev-set", *(("one-domain", "no-target") if domains is None else ())}
        warn([note for note in trained.notes if note.kind not in expected], stacklevel=3)
        self.model_, self.history_ = trained.model, trained.history
        self.n_iter_ = len(trained.history.epochs)
        return self

    def predict(self, X: Any, domains: Any = None) -> np.ndarray:
        """Return the most probable class of each document; see `predict_proba`."""
        best = self.predict_proba(X, domains).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any, domains: Any = None) -> np.ndarray:
        """Return class probabilities, shape (documents, classes), columns as in `classes_`.

        Parameters
        ----------
        X
            Documents of the kind that `fit` was given.
        domains
            Domain of each document. Without it, if training had domains, all are taken as unknown.
        """
        check_is_fitted(self)
        documents = self._documents(X, reset=False)
        names = None if domains is None else list(_listed(domains))
        probabilities = self.model_.predict_proba(documents, names, self.unknown_domain)
        return probabilities[:, [self.model_.classes.index(class_name(c)) for c in self.classes_]]

    def score(self, X: Any, y: Any, sample_weight: Any = None, domains: Any = None) -> float:
        """Return the accuracy on the documents that have a label in `y`."""
        predicted = self.predict(X, domains)
        y = column_or_1d(y)
        check_consistent_length(predicted, y, sample_weight)
        labelled = np.array([class_name(value) is not None for value in y])
        if not labelled.any():
            raise DataError("There is nothing to score: no document has a label in y.")
        weights = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(accuracy_score(_natural(y[labelled]), predicted[labelled], sample_weight=weights))

    def save(self, folder: Path | str) -> None:
        """Write the fitted estimator into a folder: safetensors and JSON.

        A `random_state` that is not a number is not kept.
        """
        check_is_fitted(self)
        folder = Path(folder)
        self.model_.save(folder)
        kept_seed = self.random_state if isinstance(self.random_state, Integral) else None
        content = {
            "model": sha256_of(folder / MANIFEST),
            "params": {**self.get_params(deep=False), "random_state": kept_seed},
            "arrays": {
                name: {"dtype": getattr(self, name).dtype.str, "values": getattr(self, name)}
                for name in ("classes_", "domains_", "feature_names_in_")
                if hasattr(self, name)
            },
            "history": asdict(self.history_),
        }
        plain = json.loads(json.dumps(content, default=lambda value: value.tolist()))  # numpy's to Python's
        write_sealed(folder / OWN_FILE, plain, FORMAT_VERSION)

    @classmethod
    def load(cls, folder: Path | str, device: Device | None = None, *, method: str | None = None) -> Self:
        """Read what `save` wrote; `device` overrides the one it was trained on, `method` is as for `Model.load`."""
        folder = Path(folder)
        content = _read_own_file(folder)
        estimator = cls()
        params = estimator_renamed(content.params)
        estimator.set_params(**{n: tuple(v) if isinstance(v, list) else v for n, v in params.items()})
        estimator.choice_ = None
        estimator.device = device or estimator.device
        try:
            estimator._settings()
        except ValueError as error:
            raise ModelError(f"{folder / OWN_FILE} holds parameters that are not valid here. {error}") from None
        estimator.model_ = Model.load(folder, resolved_device(estimator.device), method=method)
        for name, array in content.arrays.items():
            setattr(estimator, name, array.restored())
        if {class_name(c) for c in estimator.classes_} != set(map(str, estimator.model_.classes)):
            raise ModelError(f"{folder / OWN_FILE} names other classes than {folder / MANIFEST}.", COPY_AGAIN)
        if estimator.model_.features.vocabulary is None:
            estimator.n_features_in_ = estimator.model_.features.n_inputs
        estimator.history_ = content.history
        estimator.n_iter_ = len(estimator.history_.epochs)
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # `string` stays False: it is about tables of strings. Texts are one-dimensional and have no tag.
        tags.input_tags.positive_only = self.weighting != "raw"
        return tags

    def _settings(self) -> tuple[EstimatorSettings, int]:
        """Return what only the estimator has, checked, and the seed."""
        check_random_state(self.random_state)  # refuses what is none
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        own = {name: getattr(self, name) for name in EstimatorSettings.model_fields}
        return EstimatorSettings.parse(own, "parameters of MultiDomainClassifier"), int(seed)

    def _run_settings(self, method: str, seed: int) -> RunSettings:
        """Return the settings of a run; those of a method which 'auto' has chosen stand at their defaults."""
        of_method = self._section("method_settings")
        twice = sorted(of_method.keys() & (self.method_settings or {}).keys())
        if twice:
            raise ConfigError(f"{quoted(twice)} given both as argument and in method_settings. Remove one.")
        of_method |= self.method_settings or {}
        if self.method == AUTO and of_method:
            raise ConfigError(
                f"{quoted(sorted(of_method))} has no effect: 'auto' compares methods with their defaults."
            )
        return RunSettings.parse(
            {
                "method": method,
                "method_settings": of_method,
                "features": {name: self._section("features", name) for name in SECTIONS},
                "training": {**self._section("training"), "seed": seed},
                "objective": self._objective(),
            },
            "parameters of MultiDomainClassifier",
        )

    def _objective(self) -> dict[str, Any]:
        """Return metric and class weights, with classes by name."""
        given = self._section("objective")
        if isinstance(given.get("class_weight"), Mapping):
            given["class_weight"] = {class_name(c): weight for c, weight in given["class_weight"].items()}
        return given

    def _auto_settings(self) -> AutoSettings:
        return AutoSettings.parse(self._section("auto"), "parameters of MultiDomainClassifier")

    def _section(self, *section: str) -> dict[str, Any]:
        """Return the parameters of a section that are not None."""
        values = {name: getattr(self, name) for name, one in _PARAMETERS.items() if one.path[:-1] == section}
        return {name: value for name, value in values.items() if value is not None}

    def _documents(self, X: Any, reset: bool) -> np.ndarray | sp.csr_matrix:
        """Return texts as an object array, or vectors as checked sparse rows."""
        if _are_texts(X):
            for name in ("n_features_in_", "feature_names_in_"):  # of an earlier fit on vectors
                if reset and hasattr(self, name):
                    delattr(self, name)
            return object_array(X)
        try:
            rows = sp.csr_matrix(validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=reset))
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise DataError(f"X is a table with strings in it ({error}). Give the texts as one column.") from None
        weighting = self.weighting or self._asked_weighting()
        if weighting != "raw" and len(negative := np.flatnonzero(rows.data < 0)):
            at, cells = negative[0], rows.tocoo()
            raise DataError(
                f"Negative values in data passed to MultiDomainClassifier: row {cells.row[at]} (counted from 0) "
                f"has {cells.data[at]:g} in column {cells.col[at]}. weighting='{weighting}' expects counts.",
                "Use {weighting=raw} for other vectors.",
            )
        if reset:  # training sees a part of the rows, and a message must name the row of X
            NgramFeaturizer(weighting).fit(rows)
        return rows

    def _asked_weighting(self) -> Any:
        """Return the weighting that the method asks for."""
        method = RECOMMENDED if self.method == AUTO else self.method
        return method_entry(method).requirements().features.get("weighting", "counts")


def _are_texts(X: Any) -> bool:
    """Tell texts from vectors by the first value that is not missing."""
    if isinstance(X, str):
        raise DataError("Expected a list of texts, got a single text. Put it into a list.")
    if sp.issparse(X) or getattr(X, "ndim", 1) != 1 or not hasattr(X, "__len__"):
        return False
    return isinstance(next((v for v in X if isinstance(v, str) or not is_missing(v)), None), str)


def _listed(domains: Any) -> np.ndarray:
    if isinstance(domains, str):
        raise DataError(f"Expected a domain for each document, got '{domains}'. Write ['{domains}'] * len(X).")
    return object_array(domains)


def _weights(sample_weight: Any, n: int) -> np.ndarray:
    weights = np.asarray(sample_weight)
    if weights.ndim != 1 or len(weights) != n:
        raise DataError(f"sample_weight has the shape {weights.shape}. Expected a weight for each of {n} documents.")
    return weights


def _natural(values: np.ndarray) -> np.ndarray:
    """Convert numbers in an object array, as beside None, to their own type."""
    if values.dtype != object or any(isinstance(value, str) for value in values):
        return values
    return np.array(values.tolist())


def _classes(labels: np.ndarray) -> np.ndarray:
    if not len(labels):
        raise DataError("No document has a label in y. Give labels for documents of at least one domain.")
    labels = _natural(labels)
    check_classification_targets(labels)
    classes = np.unique(labels)
    if len(classes) == 1:
        raise DataError(f"All labels in y are of one class, '{classes[0]}'. At least two are needed.")
    return classes


def _dev_split(corpus: Corpus, fraction: float, seed: int) -> Split:
    """Split off labelled rows for early stopping, if there are enough; rows without a label are text only."""
    corpus = replace(corpus, parts=np.where(corpus.labelled, "train", "unlabelled"))
    if fraction * corpus.labelled.sum() < _FEWEST_DEV_ROWS:
        fraction = 0
    split = holdout_split(corpus, test_fraction=0, dev_fraction=fraction, seed=seed)
    # Equal documents stay together and may take the only rows of a class or domain with them.
    for names in (corpus.labels, corpus.domains):
        if not set(names[split.dev]) <= set(names[split.train]):
            return holdout_split(corpus, test_fraction=0, dev_fraction=0, seed=seed)
    return split


def _read_own_file(folder: Path) -> EstimatorFile:
    path = folder / OWN_FILE
    if not path.exists():
        raise ModelError(f"{path} is missing. A model of 'multidomain train' is read by multidomain.model.Model.")
    content = read_sealed(path, EstimatorFile, FORMAT_VERSION)
    unknown = sorted(estimator_renamed(content.params).keys() - MultiDomainClassifier().get_params().keys())
    if unknown:
        raise ModelError(f"{path} holds the parameters {quoted(unknown)}, which no estimator has.", COPY_AGAIN)
    if (folder / MANIFEST).exists() and content.model != sha256_of(folder / MANIFEST):
        raise ModelError(f"{path} belongs to another model than {folder / MANIFEST}. {COPY_AGAIN}")
    return content
