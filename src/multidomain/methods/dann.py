"""Domain-adversarial networks with gradient reversal: one source (DANN) or several (MDAN)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from multidomain.methods.base import Stream, Task
from multidomain.methods.extractors import ExtractorSettings
from multidomain.methods.network import NetworkMethod
from multidomain.nn.reversal import reverse_gradient
from multidomain.nn.rows import Rows
from multidomain.objectives.label import J_C_of_domain


class DANNSettings(ExtractorSettings):
    """Sizes and hyperparameters; those of layers and of `lam` are from the code of MDAN's authors."""

    shared_size: int = Field(100, ge=1)
    lam: float = Field(0.01, ge=0)
    lr: float = Field(1e-4, gt=0)


class SourcesAndTarget(NetworkMethod):
    """Base of networks that adapt labelled domains (sources) to those without labels (together, the target).

    Where every domain has labels there is no target, hence no adversary.
    """

    def __init__(self, task: Task, settings: DANNSettings, n_discriminators: int):
        super().__init__(task, settings)
        s = settings
        self.targets = [d for d in range(len(task.domains)) if d not in task.labelled]
        self.F_s = s.make(1, task.n_inputs, s.shared_size)
        self.C = nn.Linear(s.shared_size, task.n_classes)
        self.D = nn.Linear(s.shared_size, n_discriminators) if self.targets else None
        self._lr, self._lam, self._size = s.lr, s.lam, s.shared_size

    @abstractmethod
    def combined(self, j_C: Tensor, j_D: Tensor | None) -> Tensor:
        """Return the loss of the losses of each source: of the classes, and of telling it from the target."""

    def start_training(self) -> None:
        self.start_optimisers(self._lr, [self.C] if self.D is None else [self.C, self.D])

    def step(self, X: Stream, U: Stream, epoch: int, i: int) -> dict[str, Tensor]:
        batch, text = X.sample(), U.sample()
        assert batch.y is not None
        B, sources = batch.y.shape[1], len(batch.y)
        target = text.x.blocks(self.targets, B)
        f = self.F_s(batch.x + target).view(-1, B, self._size)  # sources first, then targets
        f_source, f_target = f[:sources], f[sources:]
        j_C = J_C_of_domain(self.C(f_source), batch.y)  # (sources,)
        j_D = None if self.D is None else self._j_D(self.D, f_source, f_target)
        self.descend(self.combined(j_C, j_D))
        log = {"J_C": j_C.sum().detach()}
        return log if j_D is None else {**log, "J_D": j_D.mean().detach()}

    def _j_D(self, D: nn.Linear, f_source: Tensor, f_target: Tensor) -> Tensor:
        """Loss of each discriminator, shape (discriminators,): is it a source's document?"""
        of_source = D(reverse_gradient(f_source, self._lam))  # (sources, B, discriminators)
        of_target = D(reverse_gradient(f_target, self._lam)).flatten(0, 1)  # (targets * B, discriminators)
        softplus = nn.functional.softplus
        on_target = softplus(of_target).mean(dim=0)
        if of_source.shape[-1] == 1:  # the sources together are one domain
            return softplus(-of_source).mean(dim=(0, 1)) + on_target
        own = torch.diagonal(of_source, dim1=0, dim2=2)  # (B, sources): each source before its own discriminator
        return softplus(-own).mean(dim=0) + on_target

    def logits(self, x: Rows, d: int | None) -> Tensor:
        return self.C(self.F_s(x)).squeeze(0)

    def shared_features(self, x: Rows) -> Tensor | None:
        return self.F_s(x).squeeze(0)


class DANN(SourcesAndTarget):
    r"""Domain-adversarial neural network: all sources together against the target.

    .. math::
        \min_{F, C} \max_D \sum_{d \in \Delta_L} J_C(C(F(x_d)), y_d) - \lambda\, J_D(D(F(x)))

    where :math:`J_D` is the cross-entropy of telling documents of the sources from those of the target (the mean over
    the ones plus the mean over the others), and the gradient that F gets of it is reversed.

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
    """

    settings_type = DANNSettings
    settings: DANNSettings

    def __init__(self, task: Task, settings: DANNSettings):
        super().__init__(task, settings, n_discriminators=1)

    def combined(self, j_C: Tensor, j_D: Tensor | None) -> Tensor:
        return j_C.sum() if j_D is None else j_C.sum() + j_D.sum()


class MDANSettings(DANNSettings):
    """As for DANN, and how the sources are combined."""

    combine: Literal["max", "softmax"] = "softmax"
    gamma: float = Field(10.0, gt=0)


class MDAN(SourcesAndTarget):
    r"""Multisource domain adversarial network: one discriminator for each source against the target.

    With the class loss :math:`\epsilon_d` of source `d` and the loss :math:`\delta_d` of its discriminator, whose
    gradient F gets reversed and multiplied by :math:`\lambda`,

    .. math::
        \text{H-MAX:}\quad \max_d \epsilon_d + \min_d \delta_d \qquad
        \text{S-MAX:}\quad \frac{1}{\gamma} \log \sum_d \exp \gamma (\epsilon_d + \delta_d)

    H-MAX trains on the worst source alone, S-MAX on all, the worst weighing most.

    Paper
    -----
    H. Zhao, S. Zhang, G. Wu, J. M. F. Moura, J. P. Costeira and G. J. Gordon. Adversarial Multiple Source Domain
    Adaptation. NeurIPS 2018.

    Symbols
    -------
    F_s, C, D : extractor, classifier, one discriminator for each source (the columns of one layer)
    lam, gamma : weight of the domain loss (the paper's mu), sharpness of the soft maximum

    Departures
    ----------
    As in DANN. In the authors' code the weight mu also slows D down and enters the maximum; here D learns at full
    strength, and the weights of the soft maximum are taken from :math:`\epsilon_d + \lambda \delta_d`.
    """

    settings_type = MDANSettings
    settings: MDANSettings

    def __init__(self, task: Task, settings: MDANSettings):
        super().__init__(task, settings, n_discriminators=len(task.labelled))

    def combined(self, j_C: Tensor, j_D: Tensor | None) -> Tensor:
        s = self.settings
        if s.combine == "max":
            return j_C.max() if j_D is None else j_C.max() + j_D.min()
        if j_D is None:
            return torch.logsumexp(s.gamma * j_C, dim=0) / s.gamma
        weights = torch.softmax(s.gamma * (j_C + s.lam * j_D).detach(), dim=0)
        return (weights * (j_C + j_D)).sum()
