"""Blocks of cells with columns added, as the text of a CSV or TSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from multidomain.data.readers.base import CellBlock
from multidomain.data.texts import Texts
from multidomain.kernels.cells import NO_VALUE, join_rows

_DECIMALS = 6


def block_text(
    block: CellBlock, delimiter: str, names: Sequence[Any], rows: np.ndarray, name: np.ndarray, numbers: np.ndarray
) -> str | None:
    """Return what `csv` writes for the cells of a block followed by a name and numbers.

    Parameters
    ----------
    names
        What is named, in any order.
    rows
        The rows that have numbers; in the others the added cells are empty.
    name : ndarray of int, shape (rows,)
        Which name each of them has; below 0 for an empty cell.
    numbers : ndarray of float, shape (rows, columns)
        Rounded to six decimals.

    Returns
    -------
    None if a number is not between 0 and 1, or none at all.
    """
    if not ((numbers >= 0) & (numbers <= 1)).all():  # nor is NaN
        return None
    name_of_row = np.full(len(block), NO_VALUE)
    millionths = np.full((len(block), numbers.shape[1]), NO_VALUE)
    name_of_row[rows] = name
    millionths[rows] = np.rint(numbers * 10**_DECIMALS)
    forms = Texts.of(_formatted(value, delimiter) for value in names)
    starts = np.r_[forms.starts, forms.ends[-1]]
    text = join_rows(block.utf8, block.starts, ord(delimiter), forms.utf8, starts, name_of_row, millionths)
    return text.tobytes().decode()


def _formatted(value: Any, delimiter: str) -> str:
    """Return a cell as it is written in a row of several."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow([value, None])
    return text.getvalue().removesuffix(f"{delimiter}\r\n")
