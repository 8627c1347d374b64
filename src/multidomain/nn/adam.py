"""Adam of dense weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam

from multidomain.nn import kernels
from multidomain.nn.pages import move_to_large_pages, zeros_like


class DenseAdam(Adam):
    """`torch.optim.Adam` with ``fused=True``: the same bits and the same state, and little else.

    What torch does around the update takes as long as the update of a small network, and D is updated k times in an
    iteration. A gradient may also be a `RowGradient` that has all rows. Where there is no fused update, the update is
    torch's own.
    """

    def __init__(self, params: Iterable[Tensor], lr: float):
        params = list(params)
        self._is_fused = all(kernels.has_fused(p.device) for p in params)
        super().__init__(params, lr=lr, fused=True if self._is_fused else None)
        for p in params:
            move_to_large_pages(p)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        if not self._is_fused:
            super().step()
            return
        for group in self.param_groups:
            self._step_by_rows(group)
            with_gradient = [p for p in group["params"] if p.grad is not None]
            states = [self.state[p] or self._started(p) for p in with_gradient]
            if not states:
                continue
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)
            beta1, beta2 = group["betas"]
            torch._fused_adam_(
                with_gradient, [p.grad for p in with_gradient],
                [state["exp_avg"] for state in states], [state["exp_avg_sq"] for state in states], [], steps,
                lr=group["lr"], beta1=beta1, beta2=beta2, weight_decay=0.0, eps=group["eps"],
                amsgrad=False, maximize=False,
            )  # fmt: skip

    def _step_by_rows(self, group: dict[str, Any]) -> None:
        for p in group["params"]:
            gradient = getattr(p, "row_gradient", None)
            if gradient is not None:
                from multidomain.nn.kernels.row_adam import update_rows  # here: prediction must not load the compiler

                state = self.state[p] or self._started(p)
                state["step"] += 1
                weights = (p, state["exp_avg"], state["exp_avg_sq"])
                update_rows(weights, gradient, int(state["step"]), (group["lr"], *group["betas"], group["eps"]))

    def _started(self, p: Tensor) -> dict[str, Tensor]:
        self.state[p] = {
            "step": torch.zeros((), dtype=torch.float32, device=p.device),
            "exp_avg": zeros_like(p),
            "exp_avg_sq": zeros_like(p),
        }
        return self.state[p]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None
                p.row_gradient = None
