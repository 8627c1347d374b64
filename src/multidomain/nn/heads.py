"""The classifier C and the discriminator D: one hidden layer, logits out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from multidomain.nn.dropout import dropout
from multidomain.nn.norm import DomainBatchNorm, Norm


class Head(nn.Module):
    """Dropout, linear, batch norm, ReLU, linear, on a batch of shape (domains, rows per domain, features).

    The hidden layer is as wide as the input, as in the paper. It has no bias if batch norm follows, which would cancel
    it: the bias's gradient would be rounding noise, which Adam scales up to full steps. The output is always logits:
    softmax belongs to the objectives.
    """

    def __init__(self, n_inputs: int, n_outputs: int, dropout: float, norm: Norm):
        super().__init__()
        self.dropout = dropout
        self.hidden = nn.Linear(n_inputs, n_inputs, bias=norm == "none")
        self.norm = nn.Identity() if norm == "none" else DomainBatchNorm(n_inputs, norm)
        self.out = nn.Linear(n_inputs, n_outputs)

    def forward(self, features: Tensor) -> Tensor:
        return self.after_dropout(self.with_dropout(features))

    def with_dropout(self, features: Tensor) -> Tensor:
        """Return the features after dropout."""
        return dropout(features, self.dropout, self.training)

    def after_dropout(self, features: Tensor) -> Tensor:
        """Return the logits of features after dropout."""
        return self.out(self.norm(self.hidden(features)).relu())

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Pass gradients through to the input while parameters and running statistics stay fixed."""
        self.requires_grad_(False)
        if isinstance(self.norm, DomainBatchNorm):
            self.norm.keeps_statistics = False
        try:
            yield
        finally:
            self.requires_grad_(True)
            if isinstance(self.norm, DomainBatchNorm):
                self.norm.keeps_statistics = True
