"""Whether the rows of a run fit into memory, where they must."""

from __future__ import annotations

import os

from multidomain.errors import MachineError
from multidomain.methods.base import Requirements
from multidomain.training.data import EncodedRows

_COPIES = 4  # of the rows that methods make: labelled ones, text, weighted ones, those that a solver sorts


def check_fits(method: str, requirements: Requirements, encoded: EncodedRows) -> None:
    """Refuse rows that would fill the memory, unless the method reads them from disk."""
    memory, needed = _memory(), _COPIES * encoded.n_bytes
    if memory is None or requirements.any_size or needed < memory:
        return
    raise MachineError(
        f"'{method}' has all rows in memory, several times: about {needed / 1e9:,.0f} GB of {memory / 1e9:,.0f} GB.",
        "Use {method=sped}, which reads them from disk, or fewer rows or n-grams ({max_features=N}, {min_df=N}).",
    )


def _memory() -> int | None:
    """Return the bytes of memory of this machine, if it tells them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no such function
        return None
