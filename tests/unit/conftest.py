"""The command line, run in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from multidomain import cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process and return exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["multidomain", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        output = capsys.readouterr()
        return int(exit_.value.code or 0), output.out, output.err

    return run
