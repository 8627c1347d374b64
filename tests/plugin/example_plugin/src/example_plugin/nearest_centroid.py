"""A method of another package."""

from __future__ import annotations

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from multidomain import register
from multidomain.methods.base import FitContext, Method, Requirements
from multidomain.methods.data import TrainingData
from multidomain.methods.history import History
from multidomain.methods.task import Task
from multidomain.nn.kernels.row_sum import row_sum
from multidomain.nn.sparse import SparseBatch
from multidomain.settings import Settings


class NearestCentroidSettings(Settings):
    """How sure it is of itself."""

    sharpness: float = Field(10.0, gt=0, description="factor of the similarities")


@register("nearest-centroid", "the class whose mean is nearest", paper="Rocchio 1971, Relevance Feedback")
class NearestCentroid(Method):
    """The class whose mean document is most similar, whatever the domain."""

    settings_type = NearestCentroidSettings
    settings: NearestCentroidSettings

    def __init__(self, task: Task, settings: NearestCentroidSettings):
        super().__init__(task, settings)
        self.centroids = nn.Parameter(torch.zeros(task.n_inputs, task.n_classes), requires_grad=False)

    @classmethod
    def requirements(cls, settings: NearestCentroidSettings) -> Requirements:
        return Requirements(features={"weighting": "tfidf"})

    def fit(self, data: TrainingData, context: FitContext) -> History:
        x, y = data.labelled.x, data.labelled.y
        means = [np.asarray(x[y == c].mean(axis=0)).ravel() for c in range(self.task.n_classes)]
        self.centroids.copy_(torch.from_numpy(np.stack(means, axis=1)))
        return History(chosen={"sharpness": self.settings.sharpness})

    def logits(self, x: SparseBatch, d: int | None) -> Tensor:
        return self.settings.sharpness * row_sum(x, self.centroids)
