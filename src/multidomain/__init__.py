"""Multi-domain text classification with Multinomial Adversarial Networks."""

from typing import TYPE_CHECKING, Any

from multidomain.version import __version__

if TYPE_CHECKING:
    from multidomain.estimator import MultiDomainClassifier
    from multidomain.model.model import Model

__all__ = ["Model", "MultiDomainClassifier", "__version__"]


def __getattr__(name: str) -> Any:
    # Imported on first use: `import multidomain` alone must not wait for torch.
    if name == "MultiDomainClassifier":
        from multidomain.estimator import MultiDomainClassifier

        return MultiDomainClassifier
    if name == "Model":
        from multidomain.model.model import Model

        return Model
    raise AttributeError(f"module 'multidomain' has no attribute '{name}'")
