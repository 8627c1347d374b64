"""Multisource domain adversarial networks."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from multidomain.methods.adversarial.dann import DANNSettings, SourcesAndTarget
from multidomain.methods.registry import register
from multidomain.methods.task import Task
from multidomain.settings import Searched

_PAPER = "Zhao et al. 2018, Adversarial Multiple Source Domain Adaptation"


class MDANSettings(DANNSettings):
    """As for DANN, and how the sources are combined."""

    combine: Literal["max", "softmax"] = Field("softmax", description="how the losses of the sources are combined")
    gamma: Annotated[float, Searched("1..100:log")] = Field(10.0, gt=0, description="sharpness of the soft maximum")


@register(
    "mdan-hmax",
    "an adversary for each labelled domain; trains on the worst of them",
    paper=_PAPER,
    fixed={"combine": "max"},
    unused=("gamma",),
)
@register(
    "mdan-smax",
    "an adversary for each labelled domain; trains on all, most on the worst",
    paper=_PAPER,
    fixed={"combine": "softmax"},
)
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

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> labels[2::4] = labels[3::4] = [None] * 12  # nobody has labelled the books
    >>> model = MultiDomainClassifier("mdan-smax", lr=0.01, hidden=(16,), max_epochs=12, random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype=object)
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
