"""Rows that would fill the memory are refused by methods that need them there."""

from __future__ import annotations

import pytest

from multidomain.bench.generated import generated_corpus
from multidomain.data.splits import holdout_split
from multidomain.errors import ConfigError
from multidomain.training import memory
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model


def test_a_method_says_that_it_needs_more_memory(monkeypatch: pytest.MonkeyPatch):
    corpus = generated_corpus(100, 10, 2)
    split = holdout_split(corpus)
    have = memory._memory()
    assert have is None or have > 10**8
    monkeypatch.setattr(memory, "_memory", lambda: 1000)
    with pytest.raises(ConfigError, match=r"'fa-lr' has all rows in memory, several times: about .* GB") as error:
        train_model(corpus, split, RunSettings(method="fa-lr"))
    assert "{method=sped}" in error.value.hint
    train_model(corpus, split, RunSettings(method_settings={"denoised": 0}))
    monkeypatch.setattr(memory, "_memory", lambda: None)
    train_model(corpus, split, RunSettings(method="fa-lr", method_settings={"C": 1.0}))
