"""Cells of CSV and TSV in UTF-8, compiled: the rules of Python's `csv` for tables without faults."""

from __future__ import annotations

import numpy as np

from multidomain.kernels.compiled import compiled
from multidomain.kernels.hashing import BASE, mixed

NO_VALUE = -1

_QUOTE, _CR, _LF = (ord(sign) for sign in '"\r\n')
_POINT, _MINUS, _0, _5, _6, _E = (ord(sign) for sign in ".-056e")
_LONGEST_NUMBER = 8  # 0.123456
_ENDLESS, _FAULT = -1, -2

_mixed = compiled(mixed)


@compiled
def _cell(data: np.ndarray, at: int, delimiter: int, out: np.ndarray, n: int) -> tuple[int, int]:
    """Write a cell without its quotes; return the place after it, or of the end of the data, and where it ends."""
    is_quoted = at < len(data) and data[at] == _QUOTE
    at += is_quoted
    while at < len(data):
        c = data[at]
        if is_quoted:
            if c == _QUOTE:
                at += 1
                if at == len(data) or data[at] != _QUOTE:
                    break
        elif c == delimiter or c == _LF or c == _CR:
            break
        out[n] = c
        n += 1
        at += 1
    return at, n


@compiled
def _row(data: np.ndarray, at: int, delimiter: int, out: np.ndarray, starts: np.ndarray) -> int:
    """Write the cells of a row and where they end; return the place after it, or what is wrong with it.

    A blank line, a CR without LF or another number of cells is a fault here: `csv` will have its say on them.
    """
    if data[at] == _LF or data[at] == _CR:
        return _FAULT
    last = len(starts) - 2
    for column in range(last + 1):
        at, starts[column + 1] = _cell(data, at, delimiter, out, starts[column])
        if at == len(data):
            return _ENDLESS
        if column < last:
            if data[at] != delimiter:
                return _FAULT
            at += 1
    if data[at] == _CR:
        at += 1
        if at == len(data):
            return _ENDLESS
    return at + 1 if data[at] == _LF else _FAULT


@compiled
def split_rows(data: np.ndarray, delimiter: int, n_columns: int, most: int) -> tuple[np.ndarray, np.ndarray, int, bool]:
    """Return the cells of the rows that data begin with.

    Parameters
    ----------
    data : ndarray of uint8
        From the beginning of a row on.
    most
        Rows to stop after.

    Returns
    -------
    utf8 : ndarray of uint8
        All cells, row by row, without quotes and separators.
    starts : ndarray of int64, shape (rows * columns + 1,)
        Where each cell begins, and the last one ends.
    end
        Where the rows end.
    is_regular
        False if the next row has a fault; its end may also be missing, which is none.
    """
    out = np.empty(len(data), dtype=np.uint8)
    starts = np.zeros(most * n_columns + 1, dtype=np.int64)
    at = n = np.int64(0)  # not a literal: all calls have the same types
    after = np.int64(0)
    while n < most and at < len(data):
        cell = n * n_columns
        after = _row(data, at, delimiter, out, starts[cell : cell + n_columns + 1])
        if after < 0:
            break
        at = after
        n += 1
    starts = starts[: n * n_columns + 1].copy()
    return out[: starts[-1]].copy(), starts, at, after != _FAULT  # type: ignore[return-value]


@compiled
def _is_same(utf8: np.ndarray, a: int, b: int, length: int) -> bool:
    for k in range(length):
        if utf8[a + k] != utf8[b + k]:
            return False
    return True


@compiled
def number_cells(utf8: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each cell's value, in order of first occurrence, and the cell that has each value first."""
    size = 2
    while size < 2 * len(starts):
        size *= 2
    slots = np.full(size, -1, dtype=np.int64)
    numbers, first = np.empty(len(starts), dtype=np.int64), np.empty(len(starts), dtype=np.int64)
    n = 0
    for cell in range(len(starts)):
        start, length = starts[cell], ends[cell] - starts[cell]
        code = np.uint64(length)
        for k in range(start, ends[cell]):
            code = code * BASE + np.uint64(utf8[k])
        at = np.int64(_mixed(code)) & (size - 1)
        while slots[at] >= 0:
            other = first[slots[at]]
            if ends[other] - starts[other] == length and _is_same(utf8, starts[other], start, length):
                break
            at = (at + 1) & (size - 1)
        if slots[at] < 0:
            slots[at], first[n] = n, cell
            n += 1
        numbers[cell] = slots[at]
    return numbers, first[:n].copy()


@compiled
def _write_cell(utf8: np.ndarray, start: int, end: int, delimiter: int, out: np.ndarray, n: int) -> int:
    """Write a cell, in quotes if it needs them; return where it ends."""
    begin, needs_quotes = n, False
    for k in range(start, end):
        c = utf8[k]
        out[n] = c
        n += 1
        needs_quotes = needs_quotes or c == _QUOTE or c == delimiter or c == _LF or c == _CR
    if not needs_quotes:
        return n
    n = begin
    out[n] = _QUOTE
    n += 1
    for k in range(start, end):
        c = utf8[k]
        out[n] = c
        n += 1
        if c == _QUOTE:
            out[n] = _QUOTE
            n += 1
    out[n] = _QUOTE
    return n + 1


@compiled
def _write_number(millionths: int, out: np.ndarray, n: int) -> int:
    """Write a number from 0 to 1 with six decimals as Python's `repr` does; return where it ends."""
    if 0 < millionths < 100:  # 7e-06, 4.2e-05
        is_long = millionths >= 10
        first, second = (millionths // 10, millionths % 10) if is_long else (millionths, 0)
        out[n] = _0 + first
        n += 1
        if second:
            out[n], out[n + 1] = _POINT, _0 + second
            n += 2
        out[n], out[n + 1], out[n + 2], out[n + 3] = _E, _MINUS, _0, (_5 if is_long else _6)
        return n + 4
    out[n], out[n + 1] = _0 + millionths // 1_000_000, _POINT
    n += 2
    rest, unit = millionths % 1_000_000, 100_000
    out[n] = _0 + rest // unit
    n += 1
    rest %= unit
    while rest:
        unit //= 10
        out[n] = _0 + rest // unit
        n += 1
        rest %= unit
    return n


@compiled
def join_rows(
    utf8: np.ndarray,
    starts: np.ndarray,
    delimiter: int,
    names: np.ndarray,
    name_starts: np.ndarray,
    name_of_row: np.ndarray,
    millionths: np.ndarray,
) -> np.ndarray:
    """Return rows of cells as CSV or TSV, with columns added: a name, and numbers from 0 to 1.

    Parameters
    ----------
    utf8, starts
        Cells, as `split_rows` returns them.
    names, name_starts
        Names as they are to be written, one after another, and where each begins and the last one ends.
    name_of_row : ndarray of int64, shape (rows,)
        Number of each row's name, or `NO_VALUE` for an empty cell.
    millionths : ndarray of int64, shape (rows, numbers)
        The numbers, or `NO_VALUE` for empty cells.
    """
    rows, numbers = millionths.shape
    n_columns = (len(starts) - 1) // max(rows, 1)
    longest = (name_starts[1:] - name_starts[:-1]).max()
    of_row = 3 * n_columns + longest + 1 + numbers * (_LONGEST_NUMBER + 1) + 1
    out = np.empty(2 * len(utf8) + rows * of_row, dtype=np.uint8)
    n = np.int64(0)
    for row in range(rows):
        for cell in range(row * n_columns, (row + 1) * n_columns):
            n = _write_cell(utf8, starts[cell], starts[cell + 1], delimiter, out, n)
            out[n] = delimiter
            n += 1
        name = name_of_row[row]
        if name != NO_VALUE:
            for k in range(name_starts[name], name_starts[name + 1]):
                out[n] = names[k]
                n += 1
        for number in millionths[row]:
            out[n] = delimiter
            n += 1
            if number != NO_VALUE:
                n = _write_number(number, out, n)
        out[n] = _LF
        n += 1
    return out[:n].copy()
