"""The supervisor of several workers, which are threads here."""

from __future__ import annotations

import errno
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from multidomain.serve import supervisor as supervising
from multidomain.serve.limits import Limits
from multidomain.serve.setup import Operator, Setup
from multidomain.serve.supervisor import Supervisor, _Worker
from multidomain.serve.worker import ASK_FOR_RELOAD, Loaded, Order, Reloaded

OLD, NEW = Loaded("old", "1"), Loaded("new", "2")


class Team:
    """A supervisor that is up, and workers that do as they are told.

    Attributes
    ----------
    on_first_load
        Called by the first worker before it answers the first order to load.
    reloaded
        How many answers the second worker got to its requests to reload.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        operator = Operator(
            self.said.append, lambda note: self.said.append(str(note)), lambda e: self.said.append(str(e))
        )
        self.supervisor = Supervisor(Setup(Path("m"), None, Limits()), MagicMock(), 3, operator)
        self.supervisor._is_up, self.supervisor._version, self.supervisor._due = True, OLD.version, {}
        self.on_first_load: Callable[[], None] = lambda: None
        self.reloaded = 0
        self.pipes: list[Connection] = []
        for index in range(3):
            ours, theirs = multiprocessing.Pipe()
            self.pipes.append(theirs)
            version = OLD.version if index < 2 else None  # the third has not come up yet
            self.supervisor._workers[index] = _Worker(index, MagicMock(), ours, version, OLD)
            threading.Thread(target=self.work, args=(index, theirs), daemon=True).start()

    def work(self, index: int, pipe: Connection) -> None:
        with pipe, suppress(EOFError, OSError):
            while (order := pipe.recv()) is not Order.STOP:
                if isinstance(order, Reloaded):
                    self.reloaded += 1
                    continue
                if order is Order.LOAD and index == 0:
                    on_first_load, self.on_first_load = self.on_first_load, lambda: None
                    on_first_load()
                pipe.send(NEW)


@pytest.fixture
def team() -> Iterator[Team]:
    team = Team()
    yield team
    for worker in team.supervisor._workers.values():
        worker.send(Order.STOP)


def test_a_reload_that_is_asked_for_during_another_one_is_made(team: Team) -> None:
    team.on_first_load = lambda: team.pipes[1].send(ASK_FOR_RELOAD)
    team.supervisor._asking.append(None)
    team.supervisor._reload_if_asked()
    assert not team.supervisor._asking, "whoever asked would wait until something else happens"
    team.supervisor._stop()
    assert team.reloaded == 1
    assert sum(line.startswith("reloaded m") for line in team.said) == 2


def test_a_worker_that_comes_up_during_a_reload_gets_the_new_model_too(team: Team) -> None:
    team.on_first_load = lambda: team.pipes[2].send(OLD)
    team.supervisor._asking.append(None)
    team.supervisor._reload_if_asked()
    assert [worker.version for worker in team.supervisor._workers.values()] == [NEW.version] * 3


def test_a_worker_that_cannot_be_started_again_does_not_end_the_others(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: Any) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(team.supervisor._context.Process, "start", no_memory)
    team.supervisor._due = {3: 0.0}
    team.supervisor._start_due()
    assert team.supervisor._due[3] > 0 and len(team.supervisor._workers) == 3
    assert team.said == ["A worker cannot be started: Cannot allocate memory.", "Another worker is started in 10 s."]


def test_a_worker_that_does_not_end_is_killed(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "_END_SECONDS", 0.0)
    process: Any = team.supervisor._workers[0].process
    process.is_alive.return_value, process.exitcode = True, -9
    team.supervisor._bury(team.supervisor._workers[0])
    process.kill.assert_called_once()
    assert 0 in team.supervisor._due
