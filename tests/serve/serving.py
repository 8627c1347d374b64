"""A small model and servers in processes of their own, for the tests of the API and of the page."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from multidomain.cli import main as cli

TOKEN = "a-token-for-tests"
# With little dropout, and long enough that it has the words by heart whose meaning depends on the domain.
_TRAINING = [
    *("--method", "man-nll", "--unlabelled", "shoes", "--max-epochs", "8", "--patience", "8", "--seed", "1"),
    *("--set", "hidden=32", "--set", "lr=0.01", "--set", "dropout=0.1"),
]
_DOMAIN_SPECIFIC = ["--method", "lr", "--set", "category=domain-specific"]


@dataclass(frozen=True)
class Server:
    """A server that runs, and where."""

    url: str
    process: subprocess.Popen[str]
    errors: int  # file descriptor of what it writes to stderr

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def log(self) -> str:
        """What it has written to stderr so far."""
        return os.pread(self.errors, os.fstat(self.errors).st_size, 0).decode()  # its offset is the server's, too


def trained_model(folders: pytest.TempPathFactory) -> Path:
    """Return the folder of a model that the real command has trained; once for all tests."""
    return trained(folders.getbasetemp() / "served-model", _TRAINING)


def domain_specific_model(folders: pytest.TempPathFactory) -> Path:
    """Return the same of a model that refuses texts of no known domain."""
    return trained(folders.getbasetemp() / "domain-specific-model", _DOMAIN_SPECIFIC)


def trained(folder: Path, options: list[str]) -> Path:
    """Return a folder with a model that the real command has trained on the corpus "demo", if need be now."""
    if not (folder / "metrics.json").exists():
        done = CliRunner().invoke(cli.app, ["train", "demo", "-o", str(folder), *options], catch_exceptions=False)
        assert done.exit_code == 0, done.output
    return folder


@contextmanager
def serving(
    model: Path, *options: str, token: str | None = None, port: int = 0, complaint: str | None = ""
) -> Iterator[Server]:
    """Serve a model; at the end the server must stop cleanly and have complained of what is expected.

    Parameters
    ----------
    complaint
        A part of what it must have complained of; "" if of nothing, None if that does not matter.
    """
    command = [sys.executable, "-m", "multidomain", "serve", str(model), "--port", str(port), *options]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=_environment(token))
        try:
            assert process.stdout
            lines = iter(process.stdout.readline, "")
            line = next((line for line in lines if line.startswith("serving at ")), None)
            if line is None:
                errors.seek(0)
                pytest.fail(f"the server did not start: {errors.read()}")
            yield Server(line.split()[2], process, errors.fileno())
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                code = process.wait(timeout=20)
            finally:
                process.kill()
                process.stdout.close()
        errors.seek(0)
        said = errors.read()
    assert complaint is None or (complaint in said if complaint else said == ""), said
    assert code == 0


def _environment(token: str | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "MULTIDOMAIN_TOKEN"}
    return kept | ({"MULTIDOMAIN_TOKEN": token} if token else {})
