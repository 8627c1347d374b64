"""A method of another package."""

from __future__ import annotations

import numpy as np
from pydantic import Field
from scipy.sparse import csr_matrix

from multidomain import register
from multidomain.methods.base import ArraySpec, FitContext, Method, Requirements
from multidomain.methods.data import TrainingData
from multidomain.methods.history import History
from multidomain.settings import Settings


class NearestCentroidSettings(Settings):
    """How sure it is of itself."""

    sharpness: float = Field(10.0, gt=0, description="factor of the similarities")


@register("nearest-centroid", "the class whose mean is nearest", paper="Rocchio 1971, Relevance Feedback")
class NearestCentroid(Method):
    """The class whose mean document is most similar, whatever the domain."""

    settings_type = NearestCentroidSettings
    settings: NearestCentroidSettings
    centroids: np.ndarray

    def arrays(self) -> dict[str, ArraySpec]:
        return super().arrays() | {"centroids": ArraySpec((self.task.n_inputs, self.task.n_classes))}

    @classmethod
    def requirements(cls, settings: NearestCentroidSettings) -> Requirements:
        return Requirements(features={"weighting": "tfidf"})

    def fit(self, data: TrainingData, context: FitContext) -> History:
        x, y = data.labelled.x, data.labelled.y
        means = [np.asarray(x[y == c].mean(axis=0)).ravel() for c in range(self.task.n_classes)]
        self.centroids = np.stack(means, axis=1).astype(np.float32)
        return History(chosen={"sharpness": self.settings.sharpness})

    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        return self.settings.sharpness * (x @ self.centroids)
