"""Fixtures for all tests.

What imports torch is imported in the fixtures: the process that hands out the tests to others can do without.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

# Before numpy and torch are loaded, and in all processes that tests start: threads that wait for work take a core each.
for _library in ("OMP", "OPENBLAS"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """The same bits on every machine, and no threads that wait for each other."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def short_meter() -> Iterator[int]:
    """Runs measure their invariance with few updates, else it takes longer than training; return how many are due.

    The tests of the meter itself ask for `whole_meter`.
    """
    from multidomain.evaluation import probe

    due = probe._MAX_UPDATES
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "_MAX_UPDATES", 100)
        yield due


@pytest.fixture(scope="module")
def whole_meter(short_meter: int) -> Iterator[None]:
    """The meter of invariance as it is."""
    from multidomain.evaluation import probe

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "_MAX_UPDATES", short_meter)
        yield


@pytest.fixture(autouse=True)
def only_own_methods() -> Iterator[None]:
    """Methods that a test registers are gone after it."""
    yield
    if registry := sys.modules.get("multidomain.methods.registry"):
        entries = registry.METHODS._entries
        for name, entry in list(entries.items()):
            if not entry.method.__module__.startswith("multidomain."):
                sys.modules.pop(entry.method.__module__, None)
                del entries[name]


@pytest.fixture(scope="session")
def benchmark_data() -> Iterator[Path]:
    """The folder with the benchmark corpora, which MULTIDOMAIN_DATA points to from then on."""
    given = os.environ.get("MULTIDOMAIN_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    missing = [name for name in ("amazon", "fdu-mtl") if not (folder / name).is_dir()]
    if missing:
        pytest.skip(f"needs the benchmark corpora {missing}: set MULTIDOMAIN_DATA to the folder that holds them")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULTIDOMAIN_DATA", str(folder))
        yield folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process and return exit code, standard output and standard error."""
    from multidomain.cli import main as cli

    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["multidomain", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        output = capsys.readouterr()
        return int(exit_.value.code or 0), output.out, output.err

    return run


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pretrained encoder of two layers with random weights."""
    from encoders import write_encoder

    return write_encoder(tmp_path_factory.mktemp("encoder"))
