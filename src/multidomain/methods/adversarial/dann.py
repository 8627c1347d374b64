"""Domain-adversarial networks with gradient reversal: their common base, and DANN."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from multidomain.errors import Note
from multidomain.methods.adversarial.network import NetworkMethod
from multidomain.methods.adversarial.settings import ExtractorSettings
from multidomain.methods.base import FitContext, Requirements
from multidomain.methods.data import TrainingData
from multidomain.methods.gradient import Stream
from multidomain.methods.history import History
from multidomain.methods.registry import register
from multidomain.methods.task import Task
from multidomain.nn.collectives import mean_over_processes
from multidomain.nn.reversal import reverse_gradient
from multidomain.nn.sparse import SparseBatch
from multidomain.objectives.label import J_C_of_domain
from multidomain.settings import Searched


class DANNSettings(ExtractorSettings):
    """Sizes and hyperparameters; those of layers and of `lam` are from the code of MDAN's authors."""

    shared_size: int = Field(100, ge=1, description="number of shared features")
    lam: Annotated[float, Searched("0.001..1:log")] = Field(0.01, ge=0, description="weight of the adversary")
    lr: Annotated[float, Searched("1e-5..1e-2:log")] = Field(1e-4, gt=0, description="learning rate")


class SourcesAndTarget(NetworkMethod):
    """Base of networks that adapt labelled domains (sources) to those without labels (together, the target).

    Where every domain has labels there is no target, hence no adversary.
    """

    settings: DANNSettings

    def __init__(self, task: Task, settings: DANNSettings, n_discriminators: int):
        super().__init__(task, settings)
        s = self.settings
        self.targets = [d for d in range(len(task.domains)) if d not in task.labelled]
        self.F_s = s.of_shared().make(1, task.n_inputs, s.shared_size)
        self.C = nn.Linear(s.shared_size, task.n_classes)
        self.D = nn.Linear(self.D_input_size(s.shared_size), n_discriminators) if self.targets else None

    @classmethod
    def requirements(cls, settings: DANNSettings) -> Requirements:
        return settings.requirements(shared=True, private=False, unlabelled_text=True)

    @abstractmethod
    def combined(self, j_C: Tensor, j_D: Tensor | None) -> Tensor:
        """Return the loss of the losses of each source: of the classes, and of telling it from the target."""

    def fit(self, data: TrainingData, context: FitContext) -> History:
        if self.D is None:
            context.note(
                Note(
                    "Every domain has labels, so there is no target to adapt to: this trains without an adversary.",
                    "Use {method=man-nll} or {method=sp}, or hide the labels of a domain.",
                    kind="no-target",
                )
            )
        return super().fit(data, context)

    def start_training(self) -> None:
        self.start_optimisers(self.settings.lr, [self.C] if self.D is None else [self.C, self.D])

    def step(self, X: Stream, U: Stream, epoch: int, i: int) -> dict[str, Tensor]:
        batch = X.sample()
        assert batch.y is not None
        B, sources = batch.y.shape[1], len(batch.y)
        x = batch.x if self.D is None else batch.x + U.sample().x.blocks(self.targets, B)
        x, _ = self.read(x)
        f = self.F_s(x).view(-1, B, self.settings.shared_size)  # sources first, then targets
        j_C = mean_over_processes(J_C_of_domain(self.C(f[:sources]), batch.y, batch.weight))  # (sources,)
        j_D = None
        if self.D is not None:
            read, weight = self.D_input(f, x)
            logits = self.D(reverse_gradient(read, self.settings.lam))
            j_D = mean_over_processes(self._j_D(logits, weight, sources))
        self.descend(self.combined(j_C, j_D))
        log = {"J_C": j_C.sum().detach()}
        return log if j_D is None else {**log, "J_D": j_D.mean().detach()}

    def _j_D(self, logits: Tensor, weight: Tensor | None, sources: int) -> Tensor:
        """Loss of each discriminator, shape (discriminators,): is it a source's document?

        The logits have the shape (sources + targets, B, discriminators), sources first.
        """
        softplus = nn.functional.softplus
        of_source, of_target = logits[:sources], logits[sources:].flatten(0, 1)
        w_source, w_target = (None, None) if weight is None else (weight[:sources], weight[sources:].flatten())
        on_target = _mean(softplus(of_target), w_target)
        if of_source.shape[-1] == 1:  # the sources together are one domain
            w_source = None if w_source is None else w_source.flatten()
            return _mean(softplus(-of_source).flatten(0, 1), w_source) + on_target
        own = torch.diagonal(of_source, dim1=0, dim2=2)  # (B, sources): each source before its own discriminator
        return _mean(softplus(-own), None if w_source is None else w_source.T) + on_target

    def batch_logits(self, x: SparseBatch, d: int | None) -> Tensor:
        return self.C(self.F_s(self.read(x)[0])).squeeze(0)

    def batch_shared_features(self, x: SparseBatch) -> Tensor:
        return self.F_s(self.read(x)[0]).squeeze(0)


@register(
    "dann",
    "shared features, an adversary that tells labelled domains from the others",
    paper="Ganin et al. 2016, Domain-Adversarial Training of Neural Networks",
)
class DANN(SourcesAndTarget):
    r"""Domain-adversarial neural network: all sources together against the target.

    .. math::
        \min_{F, C} \max_D \sum_{d \in \Delta_L} J_C(C(F(x_d)), y_d) - \lambda\, J_D(D(F(x)))

    where :math:`J_D` is the cross-entropy of telling documents of the sources from those of the target (the mean over
    sources plus the mean over targets), and the gradient that F gets of it is reversed.

    Paper
    -----
    Y. Ganin, E. Ustinova, H. Ajakan, P. Germain, H. Larochelle, F. Laviolette, M. Marchand and V. Lempitsky.
    Domain-Adversarial Training of Neural Networks. JMLR 2016.

    Symbols
    -------
    F_s, C, D : extractor, classifier, discriminator of source and target
    lam : weight of the reversed gradient

    Departures
    ----------
    Several sources, pooled as one domain, as in the comparison of H. Zhao et al. 2018; D learns at full strength and
    `lam` weighs only what F gets; Adam and dropout as in the other networks here.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> labels[2::4] = labels[3::4] = [None] * 12  # nobody has labelled the books
    >>> model = MultiDomainClassifier("dann", lr=0.01, hidden=(16,), max_epochs=12, random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype=object)
    """

    settings_type = DANNSettings
    settings: DANNSettings

    def __init__(self, task: Task, settings: DANNSettings):
        super().__init__(task, settings, n_discriminators=1)

    def combined(self, j_C: Tensor, j_D: Tensor | None) -> Tensor:
        return j_C.sum() if j_D is None else j_C.sum() + j_D.sum()


def _mean(losses: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean over the first dimension, weighted if there are weights."""
    if weight is None:
        return losses.mean(dim=0)
    weight = weight.view(len(losses), -1)
    return (losses * weight).sum(dim=0) / mean_over_processes(weight.sum(dim=0))
