"""What is said of a domain without labels: when there are doubts, and how they are worded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multidomain.methods.history import ClassPrior
from multidomain.runs.unlabelled import UnlabelledDomain

PRIOR = ClassPrior(
    source="estimate",
    prior={"down": 0.4, "up": 0.6},
    low={"down": 0.2, "up": 0.4},
    high={"down": 0.6, "up": 0.8},
    certainty=0.7,
    labels=0,
)
SURE = UnlabelledDomain("nyt", 0, PRIOR, {"down": 0.45, "up": 0.55}, disagreement=0.1)


def widened(width: float) -> UnlabelledDomain:
    return replace(SURE, assumed=replace(PRIOR, low={"down": 0.2, "up": 0.3}, high={"down": 0.4, "up": 0.3 + width}))


def test_without_doubts_there_is_no_note_and_no_promise():
    assert SURE.doubts == [] and SURE.note is None
    assert SURE.verdict == (
        "'nyt' had no labels; there are no warning signs, but only labels can confirm its predictions."
    )


@pytest.mark.parametrize(("width", "doubtful"), [(0.45, False), (0.55, True)])
def test_a_wide_interval_of_any_class_is_a_doubt(width: float, doubtful: bool):
    assert widened(width).doubts == (["its class prior is uncertain"] if doubtful else [])


@pytest.mark.parametrize(("disagreement", "doubtful"), [(None, False), (0.19, False), (0.21, True)])
def test_a_shared_part_that_disagrees_is_a_doubt(disagreement: float | None, doubtful: bool):
    expected = ["the shared part alone predicts another class for 21% of its rows"] if doubtful else []
    assert replace(SURE, disagreement=disagreement).doubts == expected


def test_doubts_are_a_warning_with_a_way_out():
    note = replace(widened(0.6), labels=7, disagreement=0.3).note
    assert note is not None and note.kind == "uncertain-domain"
    assert note.message == (
        "'nyt' had 7 labels, and its class prior is uncertain and the shared part alone predicts another class for "
        "30% of its rows: check its predictions before use."
    )
    assert note.hint.startswith("Label about 30 of its rows: 'multidomain label-next'")


def test_a_method_without_a_prior_can_be_doubted_too():
    assert replace(SURE, assumed=None, disagreement=0.5).doubts
    assert replace(SURE, assumed=None).doubts == []
    assert replace(SURE, assumed=None).shares[0] == ("down", "", "", "45%")


def test_shares_name_their_source():
    assert SURE.shares[1] == ("up", "60%", "40% to 80%", "55%")
    given = replace(SURE, assumed=replace(PRIOR, source="given"))
    assert given.shares[1].interval == "given"
