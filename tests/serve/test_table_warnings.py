"""Warnings on a table, in a header of bounded length."""

from __future__ import annotations

import json

from multidomain.serve.tables import warnings_header


def test_a_warning_of_200_characters_is_whole_and_a_longer_one_is_cut():
    assert json.loads(warnings_header(["w" * 200, "w" * 201])) == ["w" * 200, "w" * 197 + "..."]


def test_4000_bytes_are_enough_and_one_more_is_too_many():
    """A warning takes the quotes, a comma and a blank besides its own text."""
    nineteen = ["w" * 196] * 19
    assert json.loads(warnings_header([*nineteen, "w" * 196])) == [*nineteen, "w" * 196]
    assert json.loads(warnings_header([*nineteen, "w" * 197])) == [*nineteen, "And 1 more warning."]
    assert json.loads(warnings_header([*nineteen, "w" * 197, "w", "w"])) == [*nineteen, "And 3 more warnings."]
