"""Weights that are not finite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from multidomain.errors import quoted


def not_finite(arrays: Iterable[tuple[str, np.ndarray]]) -> list[str]:
    """Return the names of the arrays that are not finite; nothing of their size is allocated."""
    return [
        name
        for name, array in arrays
        if array.dtype.kind == "f" and array.size and not np.isfinite([array.min(), array.max()]).all()
    ]


def weights_are(names: Sequence[str]) -> str:
    """Return ``weight 'a' is`` or ``weights 'a', 'b' are``; of many, the first few are named."""
    return f"weight{'' if len(names) == 1 else 's'} {quoted(names, 4)} {'is' if len(names) == 1 else 'are'}"
