r"""Losses of a linear score: functions of the margin :math:`m = y s` of a score `s` and a target `y` of -1 or 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import expit

Loss: TypeAlias = Literal["ls", "svm", "lr"]


@dataclass(frozen=True)
class MarginLoss:
    """A loss and its derivative, both functions of the margin."""

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]


MARGIN_LOSSES: dict[Loss, MarginLoss] = {
    # (1 - m)^2, which is (y - s)^2
    "ls": MarginLoss(lambda m: (1 - m) ** 2, lambda m: 2 * (m - 1)),
    # max(0, 1 - m)^2: the squared hinge, differentiable everywhere
    "svm": MarginLoss(lambda m: np.maximum(1 - m, 0) ** 2, lambda m: -2 * np.maximum(1 - m, 0)),
    # log(1 + exp(-m))
    "lr": MarginLoss(lambda m: np.logaddexp(0, -m), lambda m: -expit(-m)),
}
