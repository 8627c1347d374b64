"""Saved files of models and runs: JSON, TOML and safetensors, read with their size, depth and schema checked."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from multidomain.errors import ConfigError, ModelError, MultidomainError
from multidomain.files import write_json
from multidomain.version import __version__

COPY_AGAIN = "Copy the model again, or train it again."

_MOST_BYTES = 2**30  # of a file that is parsed as a whole; the vocabulary of a million n-grams takes 2**25
_MOST_BYTES_OF_TOML = 2**20
_MOST_DEPTH = 100  # of nested JSON and TOML; what is written here has 10
_STRUCTURE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_LONG_KEY = re.compile(rf"(?<![\w.'\"-])(?:[\w'\"-]++[ \t]*+\.[ \t]*+){{{_MOST_DEPTH}}}")
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")

Tensor = TypeVar("Tensor")
Content = TypeVar("Content")


def write_sealed(path: Path, content: dict[str, Any], format_version: int) -> None:
    """Write JSON with a format version and a checksum over all of it, which `read_sealed` checks."""
    content = {"format_version": format_version, "multidomain": __version__, **content}
    write_json(path, {**content, "sha256": _checksum(content)})


def read_sealed(path: Path, schema: type[Content], format_version: int) -> Content:
    """Read a file written by `write_sealed`; reject it if damaged, altered or newer than `format_version`."""
    content = read_json(path, dict[str, Any], COPY_AGAIN)
    checksum, written_as = content.pop("sha256", None), content.get("format_version")
    if not isinstance(checksum, str) or type(written_as) is not int:
        raise _damaged(path, COPY_AGAIN, "it has no checksum or no format version")
    if written_as > format_version:
        raise ModelError(
            f"{path} has format version {written_as}, written by multidomain "
            f"{str(content.get('multidomain'))[:40]}; this is multidomain {__version__}, which reads up to "
            f"{format_version}.",
            "Upgrade multidomain.",
        )
    if checksum != _checksum(content):
        raise ModelError(f"{path} was altered after it was saved.", COPY_AGAIN)
    return validated(content, schema, path, COPY_AGAIN)


def read_json(path: Path, schema: type[Content], way_out: str) -> Content:
    """Read a JSON file, with its size, its depth and its contents checked.

    Parameters
    ----------
    schema
        A pydantic model, a dataclass, or a type such as ``dict[str, Any]``.
    way_out
        Hint of the error.

    Raises
    ------
    ModelError
        The file is missing, too large, cut short, no JSON, or does not have the schema.
    """
    try:
        content = _characters_only(_text(path, way_out))
    except ValueError as error:
        raise _damaged(path, way_out, error) from None
    return validated(content, schema, path, way_out)


def read_json_lines(path: Path, schema: type[Content], way_out: str) -> list[Content]:
    """Read a file of one JSON value a line; the errors are those of `read_json`."""
    _check_regular(path, way_out)
    contents = []
    row = 0
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for row, line in enumerate(file, start=1):
                contents.append(validated(_characters_only(line), schema, f"{path}, line {row},", way_out))
    except ValueError as error:
        raise _damaged(path, way_out, f"after line {row}: {error}") from None
    return contents


def _characters_only(text: str) -> Any:
    content = parse_json(text)
    if _HALF_PAIR.search(text) and has_half_pair(content):
        raise ValueError("half of a surrogate pair is no character")
    return content


def parse_json(text: str) -> Any:
    """Parse JSON that may come from anyone.

    Raises
    ------
    ValueError
        It is no JSON, or is nested too deeply.
    """
    if text.count("[") + text.count("{") > _MOST_DEPTH:
        depth = 0
        for token in _STRUCTURE.finditer(text):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
            if depth > _MOST_DEPTH:
                raise ValueError(f"nested more than {_MOST_DEPTH} deep")
    return json.loads(text)


def has_half_pair(content: Any) -> bool:
    """Tell whether JSON holds half of a surrogate pair, which can be neither shown nor written."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def validated(content: Any, schema: type[Content], what: Path | str, way_out: str) -> Content:
    """Return what was read as an instance of its schema; `what` and `way_out` are for the error."""
    try:
        return _adapter(cast(Any, schema)).validate_python(content)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = f"'{'.'.join(map(str, fault['loc']))[:100]}': " if fault["loc"] else ""
        message = fault["msg"].removeprefix("Value error, ")
        message = message[:1].lower() + message[1:].removesuffix(".")
        raise ModelError(
            f"{what} cannot be used: {where}{message}. It is damaged or from another version of multidomain.", way_out
        ) from None


@cache
def _adapter(schema: Any) -> TypeAdapter[Any]:
    return TypeAdapter(schema)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, with its size and depth checked."""
    try:
        text = _text(path, "", ConfigError, _MOST_BYTES_OF_TOML)
        if _LONG_KEY.search(text):  # tomllib would need the square of its length
            raise ValueError(f"a key has more than {_MOST_DEPTH} parts")
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of TOML, UTF-8 and numbers of thousands of digits
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ConfigError(f"{path} is not TOML: {why}.") from None


def read_tensors(
    path: Path, framework: Literal["pt", "numpy"], way_out: str, device: str = "cpu"
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the tensors of a safetensors file by their names, and its metadata.

    No more is allocated than the file holds.

    Raises
    ------
    ModelError
        The file is missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    _check_regular(path, way_out)
    try:
        with safe_open(path, framework=framework, device=device) as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except (SafetensorError, ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        # All but the first come from headers with types and shapes that torch or numpy does not have.
        raise _damaged(path, way_out, error) from None


def _text(path: Path, way_out: str, error: type[MultidomainError] = ModelError, most: int = _MOST_BYTES) -> str:
    """Return a whole file as UTF-8."""
    _check_regular(path, way_out, error)
    size = path.stat().st_size
    if size > most:
        raise error(f"{path} has {size:,} bytes. Expected at most {most:,}.", way_out)
    return path.read_bytes().decode("utf-8")


def _check_regular(path: Path, way_out: str, error: type[MultidomainError] = ModelError) -> None:
    """Refuse what cannot be read to its end: a missing file, a folder, a pipe or a device."""
    if not path.is_file():
        raise error(f"{path} is {'not a regular file' if path.exists() else 'missing'}.", way_out)


def _damaged(path: Path, way_out: str, why: object) -> ModelError:
    return ModelError(f"{path} is cut short or damaged ({why}).", way_out)


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def tensors_under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names start with a prefix, with the prefix removed."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
