"""The setting `class_priors`: what can be given, and what is said about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.errors import ConfigError
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.priors.settings import described, resolved_priors
from multidomain.methods.registry import method_entry
from multidomain.methods.task import Task


def data() -> tuple[TrainingData, Examples]:
    random = np.random.default_rng(0)
    x = csr_matrix(random.random((60, 5)).astype(np.float32))
    labelled = Examples(x[:40], np.zeros(40, int), np.r_[np.zeros(30, int), np.ones(10, int)])
    text = Examples(x[40:], np.repeat([1, 2], 10))
    task = Task(5, 2, ("books", "nyt", "tweets"), (0,))
    return TrainingData(task, ("bad", "good"), labelled, text, labelled.select(np.arange(0)), np.zeros(20, bool)), text


def test_labelled_priors_are_certain():
    given, text = data()
    priors = resolved_priors("labelled", given, text)
    assert list(priors) == [1, 2]
    for one in priors.values():
        np.testing.assert_allclose(one.prior, [0.75, 0.25])
        assert one.certainty == 1


def test_a_given_prior_is_taken_and_the_others_are_estimated():
    given, text = data()
    how: Any = {"nyt": {"good": 0.9, "bad": 0.1}}
    priors = resolved_priors(how, given, text)
    np.testing.assert_allclose(priors[1].prior, [0.1, 0.9])
    assert priors[1].certainty == 1 and priors[2].certainty < 1
    named = described(priors, how, given)
    assert named["nyt"].source == "given" and named["tweets"].source == "estimate"
    assert named["nyt"].prior == pytest.approx({"bad": 0.1, "good": 0.9})


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"nytt": {"good": 1.0}}, r"'class_priors' names the domain 'nytt'\. Did you mean 'nyt'\?"),
        ({"nyt": {"god": 1.0}}, r"'class_priors' of 'nyt' name the class 'god'\. Did you mean 'good'\?"),
        ({"books": {"good": 0.9, "bad": 0.1}}, r"gives one of 'books', whose labels tell it\. Leave that domain out"),
        ({"nyt": {"good": 0.9, "bad": 0.9}}, r"'class_priors' of 'nyt' add up to 1\.8\. Give shares that add up to 1"),
    ],
)
def test_priors_that_cannot_be_are_refused(how: Any, message: str):
    given, text = data()
    with pytest.raises(ConfigError, match=message):
        resolved_priors(how, given, text)


@pytest.mark.parametrize("value", ["estimated", {"nyt": 0.5}, {"nyt": {"good": 1.5}}, {"nyt": {"good": "much"}}, {}, 3])
def test_what_is_expected_is_said(value: Any):
    expected = r"'class_priors': expected estimate, labelled, or shares from 0 to 1: \{\"DOMAIN\": \{\"CLASS\": SHARE"
    with pytest.raises(ConfigError, match=expected):
        method_entry("sped").settings({"class_priors": value})


def test_names_need_not_be_strings():
    settings = method_entry("sped").settings({"class_priors": {7: {0: 0.85, 1: 0.15}}})
    assert settings.class_priors == {"7": {"0": 0.85, "1": 0.15}}


def test_a_mapping_may_be_json():
    settings = method_entry("sped").settings({"class_priors": '{"nyt": {"good": 0.5, "bad": 0.5}}'})
    assert settings.class_priors == {"nyt": {"good": 0.5, "bad": 0.5}}  # type: ignore[attr-defined]


def test_the_earlier_setting_names_the_new_one():
    with pytest.raises(ConfigError, match=r"'match_shares' is now 'class_priors': labelled in place of true"):
        method_entry("sped").settings({"match_shares": True})
