"""Large weights in large pages of memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def move_to_large_pages(p: Tensor) -> None:
    """Move a parameter to memory that Linux gives in pages of 2 MB.

    An update of few rows of large matrices touches thousands of pages of 4 kB, and looking up where they are takes
    time. NumPy asks for large pages for its large arrays, torch does not.
    """
    if _can_move(p):
        p.data = torch.from_numpy(p.detach().numpy().copy())


def zeros_like(p: Tensor) -> Tensor:
    """Return zeros in the shape of a parameter, in large pages if there are many."""
    return torch.from_numpy(np.zeros_like(p.detach().numpy())) if _can_move(p) else torch.zeros_like(p)


def _can_move(p: Tensor) -> bool:
    return p.device.type == "cpu" and p.dtype in (torch.float32, torch.float64)
