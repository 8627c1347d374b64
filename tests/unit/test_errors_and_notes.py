"""What a user is told: hints in the words of each surface, notes, and errors that come from another process."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from multidomain.errors import (
    ConfigError,
    DataError,
    FetchError,
    ModelError,
    MultidomainError,
    MultidomainWarning,
    Note,
    StorageError,
    TrainingError,
    WorkerError,
    as_argument,
    counted,
    did_you_mean,
    quoted,
    settings_in,
    warn,
    worded,
)

ERRORS = [
    MultidomainError,
    DataError,
    ConfigError,
    FetchError,
    ModelError,
    StorageError,
    TrainingError,
    WorkerError,
]


@pytest.mark.parametrize(
    ("setting", "in_python"),
    [
        pytest.param("{label_column=NAME}", "label_column=...", id="a value to fill in"),
        pytest.param("{vectors=...}", "vectors=...", id="any value"),
        pytest.param("{overwrite}", "overwrite=True", id="a flag"),
        pytest.param("{device=cpu}", "device='cpu'", id="a word"),
        pytest.param("{encoding=utf-8}", "encoding='utf-8'", id="a word that is no name"),
        pytest.param("{method=man-nll}", "method='man-nll'", id="a word that looks like a difference"),
        pytest.param("{max_epochs=5}", "max_epochs=5", id="a whole number"),
        pytest.param("{settings.lam=0.5}", "lam=0.5", id="a setting of the method"),
        pytest.param("{settings.lam=0}", "lam=0", id="of the method, a whole number"),
        pytest.param("{ngram_range=1,2}", "ngram_range=(1, 2)", id="two numbers"),
        pytest.param("{validation_fraction=None}", "validation_fraction=None", id="none"),
    ],
)
def test_a_setting_in_a_hint_is_an_argument_in_python(setting: str, in_python: str):
    error = DataError("It went wrong.", f"Try {setting}, or not.")
    assert str(error) == f"It went wrong. Try {in_python}, or not."
    assert str(Note("It went wrong.", f"Try {setting}, or not.")) == str(error)


def test_settings_are_written_as_whoever_asks_writes_them():
    asked: list[tuple[str, str | None]] = []

    def word(name: str, value: str | None) -> str:
        asked.append((name, value))
        return f"<{name}>"

    hint = "Use {a=1} or {settings.b=TWO}, {c} and {a=x y}."
    error = ConfigError("No.", hint)
    assert error.worded(word) == "No. Use <a> or <settings.b>, <c> and <a>."
    assert asked == [("a", "1"), ("settings.b", "TWO"), ("c", None), ("a", "x y")]
    assert Note("No.", hint).worded(word) == error.worded(word)
    assert worded(hint, word) == "Use <a> or <settings.b>, <c> and <a>."
    assert (error.message, error.hint) == ("No.", hint)


def test_the_message_is_left_alone():
    """It may quote what a user gave, in braces too."""
    assert str(DataError("Expected {a=1}, got {b}.", "Use {c}.")) == "Expected {a=1}, got {b}. Use c=True."


def test_without_a_hint_there_is_the_message_alone():
    assert str(DataError("It went wrong.")) == "It went wrong."
    assert str(Note("It went wrong.")) == "It went wrong."
    assert DataError("It went wrong.").hint == ""


def test_settings_in():
    assert settings_in("Use {a=1} or {settings.b=TWO}, {c}; {} and {not a setting} are none.") == {
        "a": "1",
        "settings.b": "TWO",
        "c": None,
    }
    assert settings_in("Free some space.") == {}


def test_as_argument_names_a_method_s_setting_without_its_prefix():
    assert as_argument("settings.category", "shared") == "category='shared'"


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_are_caught_as_one_kind(kind: type[MultidomainError]):
    assert issubclass(kind, MultidomainError)
    assert issubclass(kind, ValueError) == (kind in (DataError, ConfigError))  # as scikit-learn expects of bad input


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_survive_pickling_and_copying(kind: type[MultidomainError]):
    error = kind("It went wrong.", "Use {device=cpu}.")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert (again.message, again.hint) == (error.message, error.hint)
        assert str(again) == "It went wrong. Use device='cpu'."


def fail() -> None:
    raise TrainingError("It went wrong.", "Use {settings.lr=0.1}.")


def test_an_error_of_a_worker_process_keeps_its_hint():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(TrainingError) as caught:
        pool.submit(fail).result(timeout=60)
    assert caught.value.worded(lambda name, value: f"--set {name}={value}") == (
        "It went wrong. Use --set settings.lr=0.1."
    )


def test_a_note_is_a_value():
    note = Note("One domain.", "Check {domain_column=NAME}.", kind="one-domain")
    assert note == Note("One domain.", "Check {domain_column=NAME}.", kind="one-domain")
    assert note != Note("One domain.", "Check {domain_column=NAME}.")
    assert len({note, pickle.loads(pickle.dumps(note))}) == 1
    assert Note("One domain.").kind == "note"


def test_notes_are_warnings_at_the_border_to_a_user_s_own_code():
    with pytest.warns(MultidomainWarning) as caught:
        warn([Note("One.", "Use {overwrite}."), Note("Two.")], stacklevel=2)
    assert [str(warning.message) for warning in caught] == ["One. Use overwrite=True.", "Two."]
    assert {warning.filename for warning in caught} == {__file__}  # where it was called
    warn([])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("kichen", " Did you mean 'kitchen'? Valid: 'books', 'kitchen'."), ("xyz", " Valid: 'books', 'kitchen'.")],
)
def test_did_you_mean(name: str, expected: str):
    assert did_you_mean(name, ["books", "kitchen"]) == expected


def test_long_lists_of_names_are_cut():
    assert quoted("abc") == "'a', 'b', 'c'"
    assert quoted("abcd", limit=2) == "'a', 'b' and 2 more"
    assert quoted([]) == ""


@pytest.mark.parametrize(
    ("number", "noun", "expected"),
    [(1, "row", "1 row"), (0, "row", "0 rows"), (2000, "row", "2,000 rows"), (2, "class", "2 classes")],
)
def test_counted(number: int, noun: str, expected: str):
    assert counted(number, noun) == expected
