"""Tokens of texts in UTF-8: the rules of `multidomain.features.tokens`, compiled.

A plain text is ASCII without HTML. It goes through the substitutions of `normalise` in their order, but for the words
that treebanks split, which are put right while tokens are scanned.
"""

from __future__ import annotations

import numpy as np

from multidomain.kernels.compiled import compiled
from multidomain.kernels.hashing import BASE, mixed

_LINE_BREAK, _BLANK, _DOUBLE, _SINGLE, _DASH = (ord(sign) for sign in "\n \"'-")
_A, _B, _C, _D, _E, _G, _I, _L, _M, _N, _O, _R, _S, _T, _V, _W = (ord(letter) for letter in "abcdegilmnorstvw")
_ZERO = np.uint64(0)

_WORD, _DIGIT, _MARK, _JOINS = 1, 2, 4, 8
_TOKEN = _WORD | _MARK
_KIND = np.zeros(256, dtype=np.uint8)
_KIND[[ord(sign) for sign in "abcdefghijklmnopqrstuvwxyz"]] = _WORD
_KIND[[ord(sign) for sign in "0123456789"]] = _WORD | _DIGIT
_KIND[[ord(sign) for sign in "!?"]] = _MARK
_KIND[[ord(sign) for sign in "',."]] = _JOINS

_SPLIT_SIZE = np.zeros(256, dtype=np.uint8)  # of the words that treebanks split, or of their first halves
_SPLIT_SIZE[[ord(first) for first in "cgwlt"]] = 6, 3, 3, 3, 1

_SPELLED = np.arange(256, dtype=np.uint8)
_SPELLED[ord("A") : ord("Z") + 1] += 32
_SPELLED[[ord("`"), ord("_")]] = _SINGLE, _BLANK

_DOUBTFUL, _SOLID = 1, 2
_SIGN = np.full(256, _SOLID, dtype=np.uint8)
_SIGN[[ord(sign) for sign in "\t\n\v\f\r\x1c\x1d\x1e\x1f "]] = 0
_SIGN[[ord("&"), ord("<")]] = _DOUBTFUL | _SOLID  # HTML may begin
_SIGN[128:] = _DOUBTFUL

_mixed = compiled(mixed)


@compiled
def _is_word(text: np.ndarray, at: int, end: int) -> bool:
    return at < end and _KIND[text[at]] & _WORD != 0


@compiled
def _spell(text: np.ndarray, start: int, end: int, out: np.ndarray) -> int:
    """Write a text in lower case, quotes and blanks in one form, without bracket codes; return its length."""
    n = 0
    for i in range(start, end):
        c = _SPELLED[text[i]]
        if c == _SINGLE and n and out[n - 1] == _SINGLE:
            out[n - 1] = _DOUBLE
            continue
        if c == _DASH and n >= 4 and out[n - 1] == _B and out[n - 4] == _DASH:
            left_or_right, kind = out[n - 3], out[n - 2]
            if (left_or_right == _L or left_or_right == _R) and (kind == _R or kind == _S or kind == _C):
                n -= 4
                c = _BLANK
        out[n] = c
        n += 1
    return n


@compiled
def _is_clitic(text: np.ndarray, i: int, end: int) -> bool:
    """Whether n't, 's, 'm, 'd, 're, 've or 'll begins here."""
    if i + 1 >= end:
        return False
    a, b = text[i], text[i + 1]
    if a == _N:
        return b == _SINGLE and i + 2 < end and text[i + 2] == _T and not _is_word(text, i + 3, end)
    if a != _SINGLE:
        return False
    after = i + 2
    if b == _R or b == _V or b == _L:
        if after >= end or text[after] != (_L if b == _L else _E):
            return False
        after += 1
    elif b != _S and b != _M and b != _D:
        return False
    return after >= end or (_KIND[text[after]] & _WORD == 0 and text[after] != _SINGLE)


@compiled
def _join_clitics(text: np.ndarray, end: int) -> int:
    """Drop the blanks before clitics, in place; return the new length."""
    n = 0
    for i in range(end):
        if text[i] == _BLANK and _is_clitic(text, i + 1, end):
            continue
        text[n] = text[i]
        n += 1
    return n


@compiled
def _second_half(text: np.ndarray, start: int, end: int, length: int, is_inside: bool) -> int:
    """Return where gon na, got ta, wan na, gim me, lem me, 't is or 't was ends whose first half ends here, else 0."""
    if end + 2 >= length or text[end] != _BLANK:
        return 0
    a, c = text[end + 1], text[end + 2]
    after = end + 3
    if end - start == 3:
        x, y, z = text[start], text[start + 1], text[start + 2]
        if z == _N:
            fits = a == _N and c == _A and ((x == _G and y == _O) or (x == _W and y == _A))
        elif z == _M:
            fits = a == _M and c == _E and ((x == _G and y == _I) or (x == _L and y == _E))
        else:
            fits = a == _T and c == _A and x == _G and y == _O and z == _T
    elif end - start == 1 and not is_inside and text[start] == _T:
        fits = start > 0 and text[start - 1] == _SINGLE and (start == 1 or _KIND[text[start - 2]] & _WORD == 0)
        if a == _W and c == _A:
            fits = fits and after < length and text[after] == _S
            after += 1
        else:
            fits = fits and a == _I and c == _S
    else:
        return 0
    return after if fits and not _is_word(text, after, length) else 0


@compiled
def _is_cannot(text: np.ndarray, start: int, end: int) -> bool:
    return (
        end - start == 6
        and text[start] == _C
        and text[start + 1] == _A
        and text[start + 2] == _N
        and text[start + 3] == _N
        and text[start + 4] == _O
        and text[start + 5] == _T
    )


@compiled
def _goes_on(text: np.ndarray, at: int, length: int) -> bool:
    """Whether the sign after a word joins the next one to it."""
    if at + 1 >= length:
        return False
    sign, after = text[at], _KIND[text[at + 1]]
    if sign == _SINGLE:
        return after & _KIND[text[at - 1]] & _WORD != 0
    return _KIND[sign] == _JOINS and after & _KIND[text[at - 1]] & _DIGIT != 0


@compiled
def _write(text: np.ndarray, start: int, end: int, out: np.ndarray, n: int, code: np.uint64) -> np.uint64:
    """Append bytes to a token; return its code."""
    for i in range(start, end):
        out[n + i - start] = text[i]
        code = code * BASE + np.uint64(text[i])
    return code


@compiled
def _rest_of_word(
    text: np.ndarray,
    start: int,
    i: int,
    length: int,
    out: np.ndarray,
    n: int,
    hashes: np.ndarray,
    found: int,
    code: np.uint64,
) -> tuple[int, int, int, np.uint64]:
    """Write what follows the letters and digits that a word begins with, if it goes on or is split.

    Returns
    -------
    The place after the word, the bytes and whole tokens written, and the code of the last one.
    """
    before, is_inside = _ZERO, False
    while True:
        if _is_cannot(text, start, i):
            hashes[found] = _mixed(_write(text, start, start + 3, out, n - 6, before))
            found += 1
            out[n - 3] = _LINE_BREAK
            code = _write(text, start + 3, i, out, n - 2, _ZERO)
            n += 1
        after = _second_half(text, start, i, length, is_inside)
        if after:
            code = _write(text, i + 1, after, out, n, code)
            n += after - i - 1
            i = after
        if not _goes_on(text, i, length):
            return i, n, found, code
        before = _write(text, i, i + 1, out, n, code)
        n += 1
        i += 1
        start, is_inside = i, True
        while _KIND[text[i]] & _WORD:
            i += 1
        code = _write(text, start, i, out, n, before)
        n += i - start


@compiled
def _scan(text: np.ndarray, length: int, out: np.ndarray, n: int, hashes: np.ndarray, found: int) -> tuple[int, int]:
    """Write the tokens of a normalised text, each with a line break; return the bytes and tokens written so far."""
    text[length] = 0  # so that every word ends before it
    i = 0
    while i < length:
        kind = _KIND[text[i]]
        if kind & _TOKEN == 0:
            i += 1
            continue
        start, code = i, _ZERO
        while True:
            out[n] = text[i]
            code = code * BASE + np.uint64(text[i])
            n += 1
            i += 1
            if not (_KIND[text[i]] & kind & _WORD):
                break
        if _KIND[text[i]] & _JOINS or _SPLIT_SIZE[text[start]] == i - start:
            i, n, found, code = _rest_of_word(text, start, i, length, out, n, hashes, found, code)
        out[n] = _LINE_BREAK
        n += 1
        hashes[found] = _mixed(code)
        found += 1
    return n, found


@compiled
def _copy(
    text: np.ndarray, start: int, end: int, out: np.ndarray, n: int, hashes: np.ndarray, found: int
) -> tuple[int, int]:
    """Write tokens that are found already, each with a line break."""
    code = _ZERO
    for i in range(start, end):
        c = text[i]
        out[n] = c
        n += 1
        if c == _LINE_BREAK:
            hashes[found] = _mixed(code)
            found += 1
            code = _ZERO
        else:
            code = code * BASE + np.uint64(c)
    return n, found


@compiled
def look_at_texts(text: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tell which texts are ASCII without ``&`` and ``<``, hence plain, and which have an ASCII sign that is no blank.

    Parameters
    ----------
    text, starts, ends
        As for `find_tokens`.
    """
    is_plain, is_solid = np.empty(len(starts), dtype=np.bool_), np.empty(len(starts), dtype=np.bool_)
    for row in range(len(starts)):
        seen = 0
        for i in range(starts[row], ends[row]):
            seen |= _SIGN[text[i]]
        is_plain[row], is_solid[row] = seen & _DOUBTFUL == 0, seen & _SOLID != 0
    return is_plain, is_solid


@compiled
def find_tokens(
    text: np.ndarray, starts: np.ndarray, ends: np.ndarray, is_plain: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tokens of texts.

    Parameters
    ----------
    text : ndarray of uint8
        The texts in UTF-8: plain ones as they are, of others the tokens, each with a line break.
    starts, ends : ndarray of int64, shape (texts,)
        Where each text begins and ends.

    Returns
    -------
    utf8 : ndarray of uint8
        The tokens, each with a line break.
    hashes : ndarray of uint64, shape (tokens,)
    offsets : ndarray of int64, shape (texts + 1,)
        Number of the first token of each text, and of all tokens.
    """
    size = longest = np.int64(0)  # not a literal: all calls have the same types
    for row in range(len(starts)):
        size += ends[row] - starts[row]
        longest = max(longest, ends[row] - starts[row])
    out = np.empty(2 * size, dtype=np.uint8)
    hashes = np.empty(size, dtype=np.uint64)
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    normalised = np.empty(longest + 1, dtype=np.uint8)
    n = found = np.int64(0)
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        if is_plain[row]:
            length = _join_clitics(normalised, _spell(text, start, end, normalised))
            n, found = _scan(normalised, length, out, n, hashes, found)
        else:
            n, found = _copy(text, start, end, out, n, hashes, found)
        offsets[row + 1] = found
    return out[:n].copy(), hashes[:found].copy(), offsets
