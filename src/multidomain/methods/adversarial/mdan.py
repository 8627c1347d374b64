"""Multisource domain adversarial networks."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from multidomain.methods.adversarial.dann import DANNSettings, SourcesAndTarget
from multidomain.methods.base import Task


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
