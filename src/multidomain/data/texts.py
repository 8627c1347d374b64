"""Texts that need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, overload

import numpy as np

from multidomain import arrays

_AT_A_TIME = 4096


class Texts(Sequence[str]):
    """Texts in UTF-8, in one array that may be on disk; they become strings only when they are asked for.

    Stands where an array of strings does.

    Parameters
    ----------
    utf8 : ndarray of uint8
        All texts, in any order, and perhaps others.
    starts, ends : ndarray of int64
        Text ``i`` is ``utf8[starts[i]:ends[i]]``.
    """

    def __init__(self, utf8: np.ndarray, starts: np.ndarray, ends: np.ndarray):
        self.utf8, self.starts, self.ends = utf8, starts, ends
        self.shape = (len(starts),)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """Return texts in UTF-8; half of a surrogate pair, which a `str` may hold, is kept.

        Examples
        --------
        >>> list(Texts.of(["a book", "é"])[1:])
        ['é']
        """
        utf8, lengths = _encoded(texts)
        ends = np.cumsum(lengths)
        return cls(utf8, ends - lengths, ends)

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, rows: int | np.integer) -> str: ...
    @overload
    def __getitem__(self, rows: slice | np.ndarray) -> Self: ...
    def __getitem__(self, rows: Any) -> Any:
        """Return one text by its number, or some by a slice, a mask or numbers; these are not copied."""
        if isinstance(rows, slice | np.ndarray):
            return type(self)(self.utf8, self.starts[rows], self.ends[rows])
        return self._text(self.starts[rows], self.ends[rows])

    def __iter__(self) -> Iterator[str]:
        for rows in arrays.blocks(len(self), _AT_A_TIME):
            for start, end in zip(self.starts[rows].tolist(), self.ends[rows].tolist(), strict=True):
                yield self._text(start, end)

    def _text(self, start: int, end: int) -> str:
        return self.utf8[start:end].tobytes().decode("utf-8", "surrogatepass")

    def are_not_blank(self) -> np.ndarray:
        """Tell which texts have a character that is no whitespace."""
        from multidomain.kernels.tokens import look_at_texts  # imported here: numba loads slowly

        is_plain, is_solid = look_at_texts(self.utf8, self.starts, self.ends)
        for row in np.flatnonzero(~is_plain & ~is_solid).tolist():  # blanks beyond ASCII?
            is_solid[row] = bool(self[row].strip())
        return is_solid

    def distinct(self) -> tuple[list[str], np.ndarray]:
        """Return the distinct texts in order of first occurrence, and which of them each text is."""
        from multidomain.kernels.cells import number_cells

        number, first = number_cells(self.utf8, self.starts, self.ends)
        return [self[row] for row in first.tolist()], number


def _encoded(texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the UTF-8 of texts, one after another, and the length of each."""
    forms = [text.encode("utf-8", "surrogatepass") for text in texts]
    utf8 = np.frombuffer(bytearray().join(forms), dtype=np.uint8)  # writable, so that kernels have one type to compile
    return utf8, np.fromiter(map(len, forms), dtype=np.int64, count=len(forms))


class TextsBuilder:
    """Takes texts as they are read; many are written to disk."""

    def __init__(self) -> None:
        self._few: list[str] = []
        self._characters = 0
        self._utf8: arrays.ArrayWriter | None = None
        self._lengths: list[np.ndarray] = []

    def extend(self, texts: Iterable[str]) -> Self:
        """Add texts."""
        more = list(texts)
        self._characters += sum(map(len, more))
        if self._utf8 is None:
            self._few += more
            more = []
            if self._characters >= arrays.LARGE:
                self._utf8 = arrays.ArrayWriter(np.uint8)
                few, self._few = self._few, []
                for rows in arrays.blocks(len(few), _AT_A_TIME):
                    self._write(few[rows])
        if more:
            self._write(more)
        return self

    def _write(self, texts: list[str]) -> None:
        assert self._utf8 is not None
        utf8, lengths = _encoded(texts)
        self._utf8.append(utf8)
        self._lengths.append(lengths)

    def finish(self) -> np.ndarray | Texts:
        """Return an object array of few texts, or many on disk."""
        if self._utf8 is None:
            few = np.empty(len(self._few), dtype=object)
            few[:] = self._few
            return few
        lengths = np.concatenate(self._lengths)
        ends = np.cumsum(lengths)
        return Texts(self._utf8.finish(), ends - lengths, ends)


def joined_texts(parts: Sequence[np.ndarray | Texts]) -> np.ndarray | Texts:
    """Return texts, one part after another."""
    if not any(isinstance(part, Texts) for part in parts):
        return np.concatenate(parts)
    builder = TextsBuilder()
    for part in parts:
        for rows in arrays.blocks(len(part), _AT_A_TIME):
            builder.extend(part[rows])
    return builder.finish()
