"""The command line, where what the first process does alone takes seconds, so that a test can come in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from multidomain.cli.main import main
from multidomain.training.checkpoint import Checkpoint
from multidomain.training.loop import Trainer

SECONDS = 3


def slow(function: Callable[..., Any], marker: str) -> Callable[..., Any]:
    """Return a function that leaves a file of this name beside the checkpoint, and waits, before it does its work."""

    def call(self: Any, *arguments: Any) -> Any:
        path: Path = getattr(self, "path", None) or self._checkpoint.path
        path.with_name(marker).touch()
        time.sleep(SECONDS)
        return function(self, *arguments)

    return call


if __name__ == "__main__":
    Checkpoint.save = slow(Checkpoint.save, "saving")  # type: ignore[method-assign]
    Trainer._own_dev_scores = slow(Trainer._own_dev_scores, "evaluating")  # type: ignore[method-assign]
    main()
