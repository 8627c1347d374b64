"""Multi-domain text classification with Multinomial Adversarial Networks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from multidomain.version import __version__

if TYPE_CHECKING:
    from multidomain.data.columns import Columns
    from multidomain.data.corpus import Corpus
    from multidomain.data.named.registry import load_corpus
    from multidomain.data.splits import Split, default_split
    from multidomain.data.values import corpus_from_rows
    from multidomain.errors import MultidomainError, MultidomainWarning
    from multidomain.estimator import MultiDomainClassifier
    from multidomain.methods.registry import register
    from multidomain.model.model import Model
    from multidomain.training.callbacks import Callback
    from multidomain.training.settings import RunSettings
    from multidomain.training.train import train_model

_PUBLIC = {  # imported on first use: `import multidomain` alone must not wait for torch
    "Callback": "training.callbacks",
    "Columns": "data.columns",
    "Corpus": "data.corpus",
    "Model": "model.model",
    "MultiDomainClassifier": "estimator",
    "MultidomainError": "errors",
    "MultidomainWarning": "errors",
    "RunSettings": "training.settings",
    "Split": "data.splits",
    "corpus_from_rows": "data.values",
    "default_split": "data.splits",
    "load_corpus": "data.named.registry",
    "register": "methods.registry",
    "train_model": "training.train",
}

__all__ = [
    "Callback",
    "Columns",
    "Corpus",
    "Model",
    "MultiDomainClassifier",
    "MultidomainError",
    "MultidomainWarning",
    "RunSettings",
    "Split",
    "__version__",
    "corpus_from_rows",
    "default_split",
    "load_corpus",
    "register",
    "train_model",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'multidomain' has no attribute '{name}'")
    return getattr(import_module(f"multidomain.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return __all__
