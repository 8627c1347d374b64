"""The most frequent class."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.methods.base import ArraySpec, FitContext, Method
from multidomain.methods.data import TrainingData
from multidomain.methods.history import History
from multidomain.methods.priors.estimate import labelled_prior
from multidomain.methods.registry import register
from multidomain.settings import Settings


class MajoritySettings(Settings):
    """No settings."""


@register("majority", "the class that is most frequent in the labelled rows", paper="a baseline without a paper")
class Majority(Method):
    r"""The class shares of a domain's labelled rows, or of all of them if it has none, whatever a document says.

    .. math:: p(c \mid x, d) = n_{dc} / n_d

    Paper
    -----
    None; the least that a classifier has to beat.

    Symbols
    -------
    n_dc : labelled rows of domain d and class c

    Departures
    ----------
    None.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts, labels = ["a fine pan", "a poor pan", "a fine book"] * 12, ["good", "bad", "good"] * 12
    >>> model = MultiDomainClassifier("majority", random_state=0).fit(texts, labels)
    >>> model.predict(["such a poor pan"])
    array(['good'], dtype='<U4')
    """

    settings_type = MajoritySettings
    bias: np.ndarray

    def arrays(self) -> dict[str, ArraySpec]:
        return super().arrays() | {"bias": ArraySpec((1 + len(self.task.domains), self.task.n_classes))}

    def fit(self, data: TrainingData, context: FitContext) -> History:
        K = self.task.n_classes
        shares = np.repeat(labelled_prior(data.labelled, K, weighted=True)[None], 1 + len(self.task.domains), axis=0)
        for d in self.task.labelled:
            shares[1 + d] = labelled_prior(data.labelled.select(data.labelled.d == d), K, weighted=True)
        self.bias = np.log(shares).astype(np.float32)
        return History()

    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        return np.repeat(self.bias[[0 if d is None else 1 + d]], x.shape[0], axis=0)
