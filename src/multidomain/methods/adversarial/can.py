"""Conditional adversarial networks."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from multidomain.methods.adversarial.man import MAN, MANSettings
from multidomain.methods.registry import register
from multidomain.nn.sparse import SparseBatch
from multidomain.settings import Searched


class CANSettings(MANSettings):
    """As for MAN, and how D reads the class predictions."""

    lam: Annotated[float, Searched("0.001..1:log")] = Field(0.1, ge=0, description="weight of the adversary")
    conditioning: Literal["concat", "product"] = Field(
        "concat", description="D reads features and class probabilities side by side (concat), or their outer product"
    )
    entropy: bool = Field(True, description="let confident predictions weigh more in the adversary's objective")


@register(
    "can",
    "shared and private features, an adversary that reads shared features and class predictions together",
    paper="Wu, Inkpen and El-Roby 2021, Conditional Adversarial Networks for Multi-Domain Text Classification",
    fixed={"adversary": "nll"},
)
class CAN(MAN):
    r"""Conditional adversarial network: MAN whose discriminator also reads what C predicts.

    D reads :math:`h = [f_s, p]` or :math:`h = f_s \otimes p` with the class probabilities `p` of a document, so that
    F_s makes the joint distributions of features and classes alike, and not only those of features. A document counts

    .. math:: w(p) = 1 + \exp\Big(\sum_c p_c \log p_c\Big)

    in the objectives of D and of F_s (entropy conditioning): confident predictions are aligned first.

    Paper
    -----
    Y. Wu, D. Inkpen and A. El-Roby. Conditional Adversarial Networks for Multi-Domain Text Classification. AdaptNLP
    2021. The outer product is from M. Long, Z. Cao, J. Wang and M. I. Jordan. Conditional Adversarial Domain
    Adaptation. NeurIPS 2018.

    Symbols
    -------
    F_s, F_d, C, D, J_C, J_D, J_Fs, lam, k : as in MAN
    p : class probabilities of a document

    Departures
    ----------
    `p` is a constant for the adversary, as in Long et al.: it shapes the features, and C learns from labels alone. In
    a domain without labels `p` comes from the shared features. In the authors' code the entropy weights have no effect,
    since they multiply a mean; here they weigh rows.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> model = MultiDomainClassifier("can", lr=0.01, hidden=(16,), max_epochs=12, random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype='<U4')
    """

    settings_type = CANSettings
    settings: CANSettings

    def D_input_size(self, shared_size: int) -> int:
        K = self.task.n_classes
        return shared_size + K if self.settings.conditioning == "concat" else shared_size * K

    def D_input(self, f_s: Tensor, x: SparseBatch) -> tuple[Tensor, Tensor | None]:
        p = self._class_probabilities(f_s.detach(), x)  # (mini-batches, B, K)
        weight = self._row_weight(p)
        if self.settings.entropy:
            confident = 1 + (p * p.clamp_min(1e-12).log()).sum(dim=-1).exp()
            weight = confident if weight is None else weight * confident
        if self.settings.conditioning == "concat":
            return torch.cat([f_s, p], dim=-1), weight
        return (f_s.unsqueeze(-1) * p.unsqueeze(-2)).flatten(-2), weight
