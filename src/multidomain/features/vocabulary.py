"""Many strings as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Self, overload

import numpy as np

from multidomain.arrays import ranges
from multidomain.kernels.hashing import token_hashes

LINE_BREAK, BLANK = ord("\n"), ord(" ")


class Vocabulary(Sequence[str]):
    """Strings without line breaks, which are held as one text and become a list only if they are asked for.

    Parameters
    ----------
    utf8 : ndarray of uint8
        The strings in UTF-8, each followed by a line break.

    Raises
    ------
    ValueError
        A string has a line break, or the last one is not followed by any.

    Examples
    --------
    >>> Vocabulary.of(["good", "a book"])
    ['good', 'a book']
    """

    def __init__(self, utf8: np.ndarray):
        self.utf8 = utf8
        self.ends = np.flatnonzero(utf8 == LINE_BREAK)
        if len(utf8) and not (len(self.ends) and self.ends[-1] == len(utf8) - 1):
            raise ValueError("the text of a vocabulary does not end in a line break")

    @classmethod
    def of(cls, strings: Iterable[str]) -> Self:
        """Return strings as a vocabulary."""
        lines = [f"{string}\n" for string in strings]
        vocabulary = cls(np.frombuffer(bytearray("".join(lines), "utf-8"), dtype=np.uint8))
        if len(vocabulary) != len(lines):
            raise ValueError("a string has a line break")
        return vocabulary

    @classmethod
    def joined(cls, vocabularies: Iterable[Sequence[str]]) -> Self:
        """Return the strings of several vocabularies."""
        parts = [words.utf8 if isinstance(words, cls) else cls.of(words).utf8 for words in vocabularies]
        return cls(np.concatenate([np.empty(0, dtype=np.uint8), *parts]))

    @cached_property
    def text(self) -> str:
        """Return all strings, each followed by a line break."""
        return self.utf8.tobytes().decode()

    @cached_property
    def _strings(self) -> list[str]:
        return self.text.split("\n")[:-1]

    @cached_property
    def lengths(self) -> np.ndarray:
        """Return the bytes of each string, with its line break."""
        return np.diff(self.ends, prepend=-1)

    @cached_property
    def hashes(self) -> np.ndarray:
        """Return the hash of each string, taken as one token."""
        return token_hashes(self.utf8, self.ends)

    def take(self, numbers: np.ndarray) -> Vocabulary:
        """Return some of the strings."""
        lengths = self.lengths[numbers]
        return Vocabulary(self.utf8[ranges((self.ends - self.lengths + 1)[numbers], lengths)])

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._strings[index]

    def __eq__(self, other: Any) -> bool:
        return self._strings == list(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return repr(self._strings)
