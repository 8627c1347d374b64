"""The scikit-learn face: fit, predict, score, save and load."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self

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
from multidomain.errors import ConfigError, DataError, ModelError, NoDevelopmentRows, NothingToAdapt, quoted
from multidomain.features.ngrams import NgramFeaturizer, Weighting
from multidomain.files import COPY_AGAIN, read_sealed, sha256_of, write_sealed
from multidomain.methods.registry import RECOMMENDED, method_entry
from multidomain.model.model import MANIFEST, Model, UnknownDomain
from multidomain.training.callbacks import Callback, Epoch, History
from multidomain.training.progress import progress_on
from multidomain.training.train import Device, RunSettings, resolved_device, train_model

FORMAT_VERSION = 1
OWN_FILE = "estimator.json"
# With fewer development rows one row moves the accuracy by more than ten points: picking an epoch by it is luck.
_FEWEST_DEVELOPMENT_ROWS = 10
_METHOD_ARGUMENTS = ("category", "extractor", "lam", "k", "hidden", "dropout", "lr")


class EstimatorSettings(RunSettings):
    """What decides a run, and what only the estimator has."""

    validation_fraction: float = Field(0.1, ge=0, lt=1)
    unknown_domain: UnknownDomain = "shared"
    device: Device = "auto"


class MultiDomainClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of documents that come from several domains.

    Parameters
    ----------
    method : str, default="sped"
        Name in the registry; ``multidomain methods`` lists them.
    category, extractor, lam, k, hidden, dropout, lr : default=None
        The method's most common settings; None is the method's default. They are arguments and not part of
        `method_settings` because ``set_params`` and grid search cannot reach into a dict.
    method_settings : dict, default=None
        The method's other settings.
    features : {"counts", "tfidf", "raw"}, default=None
        What is read: counts or tf-idf of n-grams, or given vectors as they are. None is what the method asks for.
    max_features, ngram_range : default=None
        How many n-grams of texts to keep, and how long they are; None is what the method asks for. Without effect on
        vectors.
    vectors : str, default=None
        Word vectors of extractors that read words in their order (``cnn``): a file, or ``random``; None trains them.
    max_length : int, default=None
        Such extractors read no more than so many words of a text; None is all. Others do without both.
    batch_size, max_epochs, patience : int, default=8, 30, 5
        Rows of each domain in a mini-batch; longest training; epochs without a better development accuracy
        before training stops.
    balanced : bool, default=False
        Draw the classes of a domain equally often.
    validation_fraction : float, default=0.1
        Part of the labelled rows that is not trained on but decides which epoch is kept, stratified by
        domain and class, equal documents together. If that is fewer than 10 rows, or 0 was asked for, all
        rows are trained on for `max_epochs`.
    unknown_domain : {"shared", "error"}, default="shared"
        At prediction, answer for a domain that was not in training from the shared features, with a
        warning, or refuse.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to train.
    random_state : int, RandomState or None, default=None
        The same int gives the same model. None draws the seed from numpy's global state, as everywhere in
        scikit-learn; no other global random state is touched.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    classes_, domains_ : ndarray
        Classes and domains of the training data, sorted, as they were given. Without domains there is one,
        ``all``.
    model_ : multidomain.model.Model
        The trained model, which knows classes and domains by name.
    history_ : multidomain.training.history.History
        How training went.
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

    def __init__(
        self,
        method: str = RECOMMENDED,
        *,
        category: str | None = None,
        extractor: str | None = None,
        lam: float | None = None,
        k: int | None = None,
        hidden: tuple[int, ...] | None = None,
        dropout: float | None = None,
        lr: float | None = None,
        method_settings: dict[str, Any] | None = None,
        features: Weighting | None = None,
        max_features: int | None = None,
        ngram_range: tuple[int, int] | None = None,
        vectors: str | None = None,
        max_length: int | None = None,
        batch_size: int = 8,
        max_epochs: int = 30,
        patience: int = 5,
        balanced: bool = False,
        validation_fraction: float = 0.1,
        unknown_domain: UnknownDomain = "shared",
        device: Device = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.method = method
        self.category = category
        self.extractor = extractor
        self.lam = lam
        self.k = k
        self.hidden = hidden
        self.dropout = dropout
        self.lr = lr
        self.method_settings = method_settings
        self.features = features
        self.max_features = max_features
        self.ngram_range = ngram_range
        self.vectors = vectors
        self.max_length = max_length
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.balanced = balanced
        self.validation_fraction = validation_fraction
        self.unknown_domain = unknown_domain
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, domains: Any = None, callbacks: Sequence[Callback] = ()) -> Self:
        """Train on documents of one or more domains.

        Parameters
        ----------
        X : sequence of str, or matrix of shape (documents, columns), sparse or dense
            Texts or vectors.
        y : array-like
            Class of each document; None (or NaN, or a blank string) where it is not known.
        domains : array-like, default=None
            Domain of each document; None is one domain.
        callbacks : sequence of Callback, default=()
            Are told how training goes; see `multidomain.training.history.Callback`.
        """
        settings = self._settings()
        documents = self._documents(X, reset=True)
        y = column_or_1d(y, warn=True)
        names = [ONLY_DOMAIN] * len(y) if domains is None else _listed(domains)
        if not documents.shape[0] == len(y) == len(names):
            given = "" if domains is None else f" and domains {len(names)}"
            raise DataError(f"X has {documents.shape[0]} rows, y {len(y)}{given}. Give one of each for every document.")
        corpus = corpus_from_rows(documents, y, names, name="X")
        self.classes_ = _classes(y[corpus.labelled])
        self.domains_ = np.unique(_natural(np.asarray(names if domains is None else domains)))
        split = _development_cut(corpus, settings.validation_fraction, settings.training.seed)
        callbacks = [*callbacks, *([progress_on(Console(stderr=True))] if self.verbose else [])]
        with warnings.catch_warnings():  # of what was chosen or is documented
            warnings.simplefilter("ignore", NoDevelopmentRows)
            if domains is None:
                warnings.simplefilter("ignore", NothingToAdapt)
            trained = train_model(corpus, split, settings, device=settings.device, callbacks=callbacks)
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
    def load(cls, folder: Path | str, device: Device | None = None) -> Self:
        """Read what `save` wrote; `device` takes the place of the one it was trained on."""
        folder = Path(folder)
        content = _read_own_file(folder)
        estimator = cls()
        for name, value in content["params"].items():
            setattr(estimator, name, tuple(value) if isinstance(value, list) else value)
        estimator.device = device or estimator.device
        estimator.model_ = Model.load(folder, resolved_device(estimator.device))
        for name, array in content["arrays"].items():
            setattr(estimator, name, np.array(array["values"], dtype=array["dtype"]))
        if estimator.model_.features.vocabulary is None:
            estimator.n_features_in_ = estimator.model_.features.n_inputs
        epochs = [Epoch(**epoch) for epoch in content["history"]["epochs"]]
        estimator.history_ = History(**{**content["history"], "epochs": epochs})
        estimator.n_iter_ = len(epochs)
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # `string` stays False: it is about tables of strings. Texts are one-dimensional and have no tag.
        tags.input_tags.positive_only = self.features != "raw"
        return tags

    def _settings(self) -> EstimatorSettings:
        given = {n: v for n in _METHOD_ARGUMENTS if (v := getattr(self, n)) is not None}
        twice = sorted(given.keys() & (self.method_settings or {}).keys())
        if twice:
            raise ConfigError(f"{quoted(twice)} given both as argument and in method_settings. Remove one.")
        check_random_state(self.random_state)  # refuses what is none
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        names = ("method", "validation_fraction", "unknown_domain", "device")
        of_training = ("batch_size", "max_epochs", "patience", "balanced")
        return EstimatorSettings.parse(
            {name: getattr(self, name) for name in names}
            | {
                "method_settings": {**(self.method_settings or {}), **given},
                "features": {
                    "weighting": self.features,
                    "max_features": self.max_features,
                    "ngram_range": self.ngram_range,
                },
                "words": {"vectors": self.vectors, "max_length": self.max_length},
                "training": {name: getattr(self, name) for name in of_training} | {"seed": seed},
            },
            "parameters of MultiDomainClassifier",
        )

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
        weighting = self.features or method_entry(self.method).weighting or "counts"
        if weighting != "raw" and len(negative := np.flatnonzero(rows.data < 0)):
            at, cells = negative[0], rows.tocoo()
            raise DataError(
                f"Negative values in data passed to MultiDomainClassifier: row {cells.row[at]} (counted from 0) "
                f"has {cells.data[at]:g} in column {cells.col[at]}. features='{weighting}' expects counts; "
                "use features='raw' for other vectors."
            )
        if reset:  # training sees a part of the rows, and a message must name the row of X
            NgramFeaturizer(weighting).fit(rows)
        return rows


def _are_texts(X: Any) -> bool:
    """Tell texts from vectors by the first value that is there."""
    if isinstance(X, str):
        raise DataError("Expected a list of texts, got a single text. Put it into a list.")
    if sp.issparse(X) or getattr(X, "ndim", 1) != 1 or not hasattr(X, "__len__"):
        return False
    return isinstance(next((v for v in X if isinstance(v, str) or not is_missing(v)), None), str)


def _listed(domains: Any) -> np.ndarray:
    if isinstance(domains, str):
        raise DataError(f"Expected a domain for each document, got '{domains}'. Write ['{domains}'] * len(X).")
    return object_array(domains)


def _natural(values: np.ndarray) -> np.ndarray:
    """Give numbers that stand in an object array, as beside None, their own type."""
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


def _development_cut(corpus: Corpus, fraction: float, seed: int) -> Split:
    """Cut labelled rows for early stopping, if there are enough; rows without a label are text only."""
    corpus = replace(corpus, parts=np.where(corpus.labelled, "train", "unlabelled"))
    if fraction * corpus.labelled.sum() < _FEWEST_DEVELOPMENT_ROWS:
        fraction = 0
    split = holdout_split(corpus, test_fraction=0, dev_fraction=fraction, seed=seed)
    # Equal documents stay together and may take the only rows of a class or domain with them.
    for names in (corpus.labels, corpus.domains):
        if not set(names[split.dev]) <= set(names[split.train]):
            return holdout_split(corpus, test_fraction=0, dev_fraction=0, seed=seed)
    return split


def _read_own_file(folder: Path) -> dict[str, Any]:
    path = folder / OWN_FILE
    if not path.exists():
        raise ModelError(f"{path} is missing. A model of 'multidomain train' is read by multidomain.model.Model.")
    content = read_sealed(path, FORMAT_VERSION)
    if (folder / MANIFEST).exists() and content["model"] != sha256_of(folder / MANIFEST):
        raise ModelError(f"{path} belongs to another model than {folder / MANIFEST}. {COPY_AGAIN}")
    return content
