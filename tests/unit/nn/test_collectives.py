"""Errors of what processes tell each other; the rest is tested with real processes, in tests/processes."""

from __future__ import annotations

import pytest
import torch
from torch import distributed

from multidomain.errors import WorkerError
from multidomain.nn.collectives import _call

pytestmark = pytest.mark.skipif(not distributed.is_available(), reason="this torch has no distributed package")


def fail(error: RuntimeError) -> None:
    raise error


def test_a_lost_connection_is_of_another_process_and_says_why():
    gloo = RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234")
    for error in (
        gloo,
        distributed.DistNetworkError("the client socket has failed"),
        distributed.DistBackendError("x"),
    ):
        with pytest.raises(WorkerError, match=r"Another process of this training has ended.*\(.+\)\. Go on from"):
            _call(fail, error)


def test_other_errors_are_not_laid_on_other_processes():
    for error in (torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("shapes do not match")):
        with pytest.raises(type(error), match=str(error)):
            _call(fail, error)
