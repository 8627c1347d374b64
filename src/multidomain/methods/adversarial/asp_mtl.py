"""Adversarial shared-private multi-task learning, and its fully shared ancestor."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from multidomain.methods.adversarial.network import NetworkMethod
from multidomain.methods.adversarial.settings import ExtractorSettings
from multidomain.methods.base import Requirements
from multidomain.methods.gradient import Stream
from multidomain.methods.registry import register
from multidomain.methods.task import Task
from multidomain.nn.collectives import mean_over_processes, share
from multidomain.nn.extractors.base import uniform
from multidomain.nn.reversal import reverse_gradient
from multidomain.nn.sparse import SparseBatch
from multidomain.objectives.domain import NLL
from multidomain.objectives.label import J_C
from multidomain.settings import Searched

_PAPER = "Liu, Qiu and Huang 2017, Adversarial Multi-task Learning for Text Classification"


class ASPMTLSettings(ExtractorSettings):
    """Sizes and hyperparameters; `lam` and `gamma` are the paper's."""

    category: Literal["shared", "shared-private"] = Field("shared-private", description="which features there are")
    shared_size: int = Field(128, ge=1, description="number of shared features")
    private_size: int = Field(64, ge=1, description="number of private features")
    lam: Annotated[float, Searched("0.001..1:log")] = Field(0.05, ge=0, description="weight of the adversary")
    gamma: Annotated[float, Searched("0.001..1:log")] = Field(
        0.01, ge=0, description="weight of the orthogonality penalty"
    )
    lr: Annotated[float, Searched("1e-5..1e-2:log")] = Field(1e-3, gt=0, description="learning rate")


@register(
    "fs-mtl",
    "one recurrent network for all domains, an output layer for each",
    paper=_PAPER,
    fixed={"category": "shared"},
    defaults={"extractor": "lstm"},
    unused=("private_size", "lam", "gamma"),
)
@register(
    "asp-mtl",
    "shared and private features kept orthogonal, an adversary, an output layer for each domain",
    paper=_PAPER,
    fixed={"category": "shared-private"},
    defaults={"extractor": "lstm"},
)
class ASPMTL(NetworkMethod):
    r"""Shared and private features kept apart, an output layer for each domain.

    .. math::
        J_C + \gamma \sum_{d \in \Delta_L} \| f_s(x_d)^\top f_d(x_d) \|_F^2 + J_D

    where `J_D` is the negative log-likelihood of the domains, which D minimises and of which F_s gets the gradient
    reversed and multiplied by :math:`\lambda`. The second term keeps shared and private features of a mini-batch
    orthogonal. Category ``shared`` has shared features and output layers alone (``fs-mtl``). A domain without an output
    layer of its own is predicted by the mean of all, with private features of zero.

    Paper
    -----
    P. Liu, X. Qiu and X. Huang. Adversarial Multi-task Learning for Text Classification. ACL 2017.

    Symbols
    -------
    F_s, F_d : shared extractor, private extractors (one copy for each domain in Delta_L)
    C, D : output layers (one for each domain in Delta_L), discriminator of f_s over the N domains
    lam, gamma : weights of the reversed gradient and of the orthogonality

    Departures
    ----------
    D reads the unlabelled text of all domains, as in MAN, and learns at full strength. Adam in place of Adagrad, sizes
    of the features as in MAN.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> model = MultiDomainClassifier("asp-mtl", lr=0.02, vectors="random", max_epochs=12, random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype='<U4')
    """

    settings_type = ASPMTLSettings
    settings: ASPMTLSettings

    def __init__(self, task: Task, settings: ASPMTLSettings):
        super().__init__(task, settings)
        s, N, N_1 = self.settings, len(task.domains), len(task.labelled)
        private = s.category == "shared-private"
        self.F_s = s.of_shared().make(1, task.n_inputs, s.shared_size)
        self.F_d = s.make(N_1, task.n_inputs, s.private_size) if private else None
        size = s.shared_size + s.private_size * private
        self.C = OutputLayers(N_1, size, task.n_classes)
        self.D = nn.Linear(self.D_input_size(s.shared_size), N) if private and N > 1 else None

    @classmethod
    def requirements(cls, settings: ASPMTLSettings) -> Requirements:
        private = settings.category == "shared-private"
        return settings.requirements(shared=True, private=private, unlabelled_text=private)

    def start_training(self) -> None:
        self.start_optimisers(self.settings.lr, [self.C] if self.D is None else [self.C, self.D])

    def step(self, X: Stream, U: Stream, epoch: int, i: int) -> dict[str, Tensor]:
        batch = X.sample()
        assert batch.y is not None
        s, (N_1, B) = self.settings, batch.y.shape
        x, text = self.read(batch.x, None if self.D is None else U.sample().x)
        f_s = self.F_s(x if text is None else x + text).view(
            -1, B, s.shared_size
        )  # labelled mini-batches first, then text of all domains
        parts = [f_s[:N_1]]
        if self.F_d is not None:
            parts.append(self.F_d(x))
        loss = J_C(self.C(torch.cat(parts, dim=-1)), batch.y, batch.weight)
        log = {"J_C": loss.detach()}
        if self.F_d is not None:
            product = share()[1] * mean_over_processes(parts[0].transpose(1, 2) @ parts[1])  # over the whole batch
            orthogonality = product.square().sum()
            loss = loss + s.gamma * orthogonality
            log["orthogonality"] = orthogonality.detach()
        if self.D is not None and text is not None:
            read, weight = self.D_input(f_s[N_1:], text)
            j_D = NLL.J_D(self.D(reverse_gradient(read, s.lam)), weight)
            loss = loss + j_D
            log["J_D"] = j_D.detach()
        self.descend(loss)
        return log

    def batch_logits(self, x: SparseBatch, d: int | None) -> Tensor:
        return self.batch_logits_of_views(x, x, d)

    def batch_logits_of_views(self, shared: SparseBatch, private: SparseBatch, d: int | None) -> Tensor:
        shared, private = self.read_views(shared, private)
        f = self.F_s(shared)
        if d in self.task.labelled:
            own = self.task.labelled.index(d)
            parts = [f] if self.F_d is None else [f, self.F_d(private, copy=own)]
            return self.C.of(own, torch.cat(parts, dim=-1)[0])
        if self.F_d is not None:
            f = torch.cat([f, f.new_zeros(1, len(shared), self.settings.private_size)], dim=-1)
        return self.C(f.expand(len(self.task.labelled), -1, -1)).mean(dim=0)

    def batch_shared_features(self, x: SparseBatch) -> Tensor:
        return self.F_s(self.read(x)[0]).squeeze(0)

    def batch_private_features(self, x: SparseBatch, d: int) -> Tensor | None:
        if self.F_d is None or d not in self.task.labelled:
            return None
        return self.F_d(self.read(x)[0], copy=self.task.labelled.index(d)).squeeze(0)


class OutputLayers(nn.Module):
    """A linear layer for each of several domains, on a batch of shape (domains, rows of each, features)."""

    def __init__(self, domains: int, n_inputs: int, n_outputs: int):
        super().__init__()
        self.weight = uniform(domains, n_inputs, n_outputs, fan_in=n_inputs)
        self.bias = uniform(domains, 1, n_outputs, fan_in=n_inputs)

    def forward(self, features: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, features, self.weight)

    def of(self, domain: int, features: Tensor) -> Tensor:
        """Return the logits of one domain's layer, shape (rows, outputs)."""
        return features @ self.weight[domain] + self.bias[domain]
