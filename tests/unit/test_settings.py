"""Settings: checked as a whole, every fault at once."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BeforeValidator, Field, ValidationError

from multidomain.errors import ConfigError
from multidomain.settings import Settings, listed


class Inner(Settings):
    depth: int = Field(1, ge=1)


class Example(Settings):
    size: int = Field(3, ge=1)
    rate: float = Field(0.5, gt=0, lt=1)
    kind: Literal["round", "square"] = "round"
    widths: Annotated[tuple[int, ...], BeforeValidator(listed)] = (2, 4)
    inner: Inner = Inner()


def test_defaults_and_values():
    assert Example.parse({}) == Example()
    given = Example.parse({"size": 7, "kind": "square", "widths": [1], "inner": {"depth": 2}})
    assert (given.size, given.kind, given.widths, given.inner.depth) == (7, "square", (1,), 2)


def test_strings_are_converted_where_a_number_is_wanted():
    given = Example.parse({"size": "7", "rate": "0.25"})
    assert (given.size, given.rate) == (7, 0.25)


@pytest.mark.parametrize(("text", "widths"), [("8", (8,)), ("8,4", (8, 4)), ("8, 4, 2", (8, 4, 2))])
def test_strings_are_converted_where_a_list_is_wanted(text: str, widths: tuple[int, ...]):
    assert Example.parse({"widths": text}).widths == widths


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 0}, r"'size': input should be greater than or equal to 1, got 0\."),
        ({"size": "many"}, r"'size': input should be a valid integer.*, got 'many'\."),
        ({"rate": 1}, r"'rate': input should be less than 1, got 1\."),
        ({"kind": "oval"}, r"'kind': input should be 'round' or 'square', got 'oval'\."),
        ({"widths": (2, "x")}, r"'widths\.1': input should be a valid integer.*, got 'x'\."),
        ({"inner": {"depth": 0}}, r"'inner\.depth': input should be greater than or equal to 1, got 0\."),
        ({"sise": 3}, r"'sise' is not a setting\. Did you mean 'size'\? Valid: 'inner', 'kind', 'rate'"),
        ({"zzz": 3}, r"'zzz' is not a setting\. Valid: 'inner', 'kind'"),
    ],
)
def test_a_fault_says_what_was_expected_and_what_came(values: dict, message: str):
    with pytest.raises(ConfigError, match=rf"^Invalid settings:\n  - {message}"):
        Example.parse(values)


def test_a_fault_in_a_part_lists_the_names_of_the_part():
    with pytest.raises(ConfigError, match=r"'inner\.dept' is not a setting\. Did you mean '(inner\.)?depth'\?"):
        Example.parse({"inner": {"dept": 2}})


def test_every_fault_is_in_one_message():
    with pytest.raises(ConfigError) as caught:
        Example.parse({"size": 0, "rate": 7, "kind": "oval", "sise": 3}, what="settings of the example")
    lines = str(caught.value).splitlines()
    assert lines[0] == "Invalid settings of the example:"
    assert sorted(line.split("'")[1] for line in lines[1:]) == ["kind", "rate", "sise", "size"]
    assert caught.value.__suppress_context__, "pydantic's own error is of no use to the reader"


def test_settings_do_not_change():
    with pytest.raises(ValidationError):
        Example().size = 4  # type: ignore[misc]
