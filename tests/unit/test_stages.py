"""Stages that take long say how far they are."""

from __future__ import annotations

import threading

import pytest

from multidomain import stages
from multidomain.stages import reported_to, stage


def test_a_stage_is_reported_if_it_takes_long(monkeypatch: pytest.MonkeyPatch):
    heard: list[tuple[str, int, int]] = []
    with reported_to(lambda *what: heard.append(what)):
        assert list(stage("tokens", "abc", 3)) == ["a", "b", "c"]
        assert heard == []
        monkeypatch.setattr(stages, "PAUSE", -1)
        assert list(stage("tokens", "abc", 3)) == ["a", "b", "c"]
        assert heard == [("tokens", 0, 3), ("tokens", 1, 3), ("tokens", 2, 3)]
    list(stage("tokens", "abc", 3))
    assert len(heard) == 3


def test_other_threads_are_silent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stages, "PAUSE", -1)
    heard: list[tuple[str, int, int]] = []
    with reported_to(lambda *what: heard.append(what)):
        thread = threading.Thread(target=lambda: list(stage("tokens", "abc", 3)))
        thread.start()
        thread.join()
    assert heard == []
