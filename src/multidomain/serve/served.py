"""The model that is being served, which can be replaced while the server runs."""

from __future__ import annotations

import hashlib
from pathlib import Path

from multidomain.errors import ConfigError, ModelError, MultidomainError, counted
from multidomain.model.model import Model
from multidomain.model.storage import MANIFEST
from multidomain.runs.folder import RunFolder
from multidomain.serve.limits import Limits
from multidomain.serve.schemas import DomainFacts, ModelFacts, Scores
from multidomain.version import __version__

_TOLD_LIMITS = {"max_body_bytes", "max_texts", "max_text_length", "max_explain_length", "max_explain_words"}


class Served:
    """A model and its description; what a request has begun with, it ends with.

    Parameters
    ----------
    model
        Must read texts.
    facts
        The response of ``/v1/model``.
    version
        Hash of the manifest: the same for the same model.
    """

    def __init__(self, model: Model, facts: ModelFacts, version: str) -> None:
        self.model, self.facts, self.version = model, facts, version

    def replace(self, other: Served) -> None:
        """Serve another model from now on."""
        self.model, self.facts, self.version = other.model, other.facts, other.version

    def __str__(self) -> str:
        domains, classes = counted(len(self.model.domains), "domain"), len(self.model.classes)
        return f"{self.model.method_name}, {domains}, {classes} classes"


def load_served(folder: Path, method: str | None, limits: Limits) -> Served:
    """Load a model of texts; scores are included if its folder holds a finished run."""
    before = _version(folder)
    model = Model.load(folder, method=method)
    if model.features.vocabulary is None:
        raise ConfigError(f"{folder} was trained on vectors, and the service reads texts.", "Serve a model of texts.")
    served = Served(model, _facts(folder, model, limits), before)
    if _version(folder) != before:
        raise ModelError(f"{folder} was replaced while it was being read.", "Try again.")
    return served


def load_again(folder: Path, method: str | None, limits: Limits) -> Served:
    """Load a model that shall replace another; whatever is wrong with its folder is an error that can be told."""
    try:
        return load_served(folder, method, limits)
    except MultidomainError:
        raise
    except Exception as error:
        raise ModelError(f"{folder} cannot be loaded: {type(error).__name__}: {error}.") from error


def _version(folder: Path) -> str:
    manifest = folder / MANIFEST
    return hashlib.sha256(manifest.read_bytes() if manifest.is_file() else b"").hexdigest()


def _facts(folder: Path, model: Model, limits: Limits) -> ModelFacts:
    test = RunFolder(folder).test_scores()
    scores = {
        score["domain"]: Scores(**{n: score[n] for n in Scores.model_fields}) for score in test.get("domains", [])
    }
    return ModelFacts(
        name=folder.resolve().name,
        method=model.method_name,
        version=__version__,
        classes=[str(name) for name in model.classes],
        domains=[
            DomainFacts(name=name, labelled=name in model.labelled_domains, test=scores.get(name))
            for name in model.domains
        ],
        answers_without_domain=model.requirements.unseen_domains,
        accuracy=test.get("accuracy"),
        limits=limits.model_dump(include=_TOLD_LIMITS),
    )
