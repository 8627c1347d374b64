"""Seeded mutations of files: of bytes, of JSON and of safetensors."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

ODD_BYTES = (
    b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\x1b[31m", b"\r", b"\n", b"\r\n", b"\t", b'"', b'""', b"'", b",",
    b"\\", b"\\ud83d", b"\\u0000", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x80\xae", b"\xf0\x9f\x98\x80", b"NaN", b"null",
    b"-", b":", b"#", b"=", b"{}", b"[]", b"\x80", b" ", b"\xe2\x80\xa8", b"qid:1",
)  # fmt: skip
NUMBERS = (
    b"-1", b"0", b"2147483648", b"4294967296", b"9223372036854775808", b"1" + b"0" * 20, b"1e308", b"1e999", b"-1e999",
    b"nan", b"inf", b"0.5", b"1" * 5000, b"99999999", b"1_0", b"\xc2\xb2", b"0x10", b"true",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3, 100, 2**31, 2**40, 2**63, 10**20, -(2**63), 0.5, -0.5, 1e38, 1e308, float("nan"),
    float("inf"), "", "x", "\x1b[31mred", "\u202e", "a" * 10_000, "a " * 2_000, "../outside.txt", "..", ".",
    "/etc/passwd", "\x00", "sped", "ensemble", "self-training", "cnn", "man-nll", "tfidf", "raw", "random", "lstm", [],
    [[]], {}, [0], [1, 1], [-1], ["a", "a"], [10**9], [2**40, 2**40], [1] * 300, [None], {"a": 1}, {"": {}},
    {"method": "fa-lr"}, {"method": "fa-lr", "task": {}},
)  # fmt: skip
DTYPES = ("F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3", "U64", "F4", "C64", "X")


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _flip(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 4, 32))):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _insert(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    return content[:at] + random.choice(ODD_BYTES) * random.choice((1, 1, 2, 300)) + content[at:]


def _piece(content: bytes, random: Random) -> tuple[int, int]:
    start = random.randrange(len(content) + 1)
    return start, min(len(content), start + random.choice((1, 3, 10, 100, 1000)))


def _splice(content: bytes, random: Random) -> bytes:
    start, end = _piece(content, random)
    at = random.randrange(len(content) + 1)
    return content[:at] + content[start:end] + content[at:]


def _remove(content: bytes, random: Random) -> bytes:
    start, end = _piece(content, random)
    return content[:start] + content[end:]


def _repeat(content: bytes, random: Random) -> bytes:
    start, end = _piece(content, random)
    return content[:end] + content[start:end] * random.choice((1, 10, 300)) + content[end:]


def _nest(content: bytes, random: Random) -> bytes:
    at, depth = random.randrange(len(content) + 1), random.choice((5, 90, 2_000, 60_000))
    opening, closing = random.choice(
        ((b"[", b"]"), (b'{"a":', b"}"), (b'{"text":[', b"]}"), (b"(", b")"), (b"a.", b""))
    )
    return content[:at] + opening * depth + random.choice((b"", b"0")) + closing * depth + content[at:]


def _number(content: bytes, random: Random) -> bytes:
    found = list(re.finditer(rb"\d+(\.\d+)?", content))
    if not found:
        return _insert(content, random)
    one = random.choice(found)
    return content[: one.start()] + random.choice(NUMBERS) + content[one.end() :]


def _lines(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    random.shuffle(lines)
    return b"\n".join(lines[: random.randrange(1, len(lines) + 1)])


_OF_BYTES: tuple[Callable[[bytes, Random], bytes], ...] = (
    _cut, _flip, _insert, _splice, _remove, _repeat, _nest, _number, _lines,
)  # fmt: skip


def mutated(content: bytes, random: Random) -> bytes:
    """Return bytes that went through one to three mutations."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        content = random.choice(_OF_BYTES)(content, random)
    return content[:2_000_000]


def mutated_tree(tree: Any, random: Random, values: tuple[Any, ...] = VALUES) -> Any:
    """Return JSON with one to three of its nodes replaced, removed, doubled or nested."""
    tree = json.loads(json.dumps(tree))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = list(_places(tree))
        if not places:
            return deepcopy(random.choice(values))
        # Half of the time near the root: long lists of words have most of the nodes.
        near = [place for place in places if place[2] <= 2]
        holder, key, _ = random.choice(near if near and random.random() < 0.5 else places)
        _change(holder, key, random, values)
    return tree


def _places(tree: Any, depth: int = 1) -> Any:
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key, depth
        yield from _places(tree[key], depth + 1)


def _change(holder: Any, key: Any, random: Random, values: tuple[Any, ...]) -> None:
    match random.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[random.choice(("x", "", "method", "kind", "parts", "settings"))] = holder.pop(key)
        case 1 | 2 if isinstance(holder, list):
            holder.insert(key, holder[key])
        case 3:
            for _ in range(random.choice((1, 50, 400))):
                holder[key] = [holder[key]]
        case 4 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = random.choice((holder[key] + 1, holder[key] - 1, -holder[key], holder[key] * 1000))
        case 5 if isinstance(holder[key], str):
            holder[key] = mutated(holder[key].encode("utf-8", "surrogatepass"), random)[:50_000].decode(
                "utf-8", "surrogateescape"
            )
        case _:
            holder[key] = deepcopy(random.choice(values))


def mutated_tensors(content: bytes, random: Random) -> bytes:
    """Return a safetensors file whose bytes, header or tensors are mutated."""
    if random.random() < 0.2:
        return mutated(content, random)
    size = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    names = [name for name in header if name != "__metadata__"]
    match random.randrange(7):
        case 0:
            header = mutated_tree(header, random)
        case 1 if names:
            header[random.choice(names)]["dtype"] = random.choice(DTYPES)
        case 2 if names:
            shape = header[random.choice(names)]["shape"]
            shape[:] = random.choice(([*shape[::-1]], [*shape, 1], [0, *shape], [2**62, 4], [-1], []))
        case 3 if names:
            data = _without(header, data, random.choice(names))
        case 4 if len(names) > 1:
            first, second = random.sample(names, 2)
            header[first], header[second] = header[second], header[first]
        case 5 if names:
            header[random.choice(("x", "method/x", "features/idf", "random/cpu"))] = header.pop(random.choice(names))
        case _:
            at = random.randrange(len(data) + 1) // 4 * 4
            data = data[:at] + struct.pack("<f", random.choice((float("nan"), float("inf"), 1e38))) + data[at + 4 :]
    head = json.dumps(header).encode()
    length = random.choice((len(head),) * 9 + (2**62,))
    return struct.pack("<Q", length) + head + data


def _without(header: dict[str, Any], data: bytes, name: str) -> bytes:
    """Drop a tensor and its bytes, so that the file is whole without it."""
    start, end = header.pop(name)["data_offsets"]
    for key, other in header.items():
        if key != "__metadata__" and other["data_offsets"][0] >= end:
            other["data_offsets"] = [offset - (end - start) for offset in other["data_offsets"]]
    return data[:start] + data[end:]
