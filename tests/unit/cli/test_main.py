"""What the command line does before a command runs, and how it words hints."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from multidomain import __version__
from multidomain.cli.console import as_option, print_error, print_notes
from multidomain.errors import ConfigError, DataError, Note

Run = Callable[..., tuple[int, str, str]]

HEAVY = {"numba", "polars", "scipy", "sklearn", "torch"}

# Runs the command's own entry point, then says on the last line what was imported.
HELP = """
import json, sys
from multidomain.cli.main import main
sys.argv = ["multidomain", "--help"]
try:
    main()
finally:
    print()
    print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
IMPORT = """
import multidomain
import json, sys
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"multidomain {__version__}\n", "")


def test_without_a_command_the_commands_are_listed(run: Run) -> None:
    code, out, err = run()
    assert code == 2
    assert "train" in out + err and "predict" in out + err


def cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("program", [HELP, IMPORT], ids=["--help", "import multidomain"])
def test_starting_imports_nothing_heavy_and_is_quick(program: str) -> None:
    before = cpu_seconds_of_children()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    used = cpu_seconds_of_children() - before
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stdout.splitlines()[-1])
    assert "multidomain" in imported
    assert HEAVY.isdisjoint(imported)
    assert used < 1


def test_the_installed_command_is_quick_too() -> None:
    command = Path(sys.executable).with_name("multidomain")
    if not command.exists():
        pytest.skip("the package is not installed here")
    before = cpu_seconds_of_children()
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 0 and "reproduce" in done.stdout
    assert cpu_seconds_of_children() - before < 1


@pytest.mark.parametrize(
    ("name", "value", "worded"),
    [
        ("label_column", "NAME", "--label-column NAME"),
        ("overwrite", None, "--overwrite"),
        ("device", "cpu", "--device cpu"),
        ("vectors", "random", "--vectors random"),
        ("vectors", "...", "--vectors"),
        ("settings.lam", "0", "--set lam=0"),
        ("settings.lam", "...", "--set lam"),
    ],
)
def test_settings_as_options(name: str, value: str | None, worded: str) -> None:
    assert as_option(name, value) == worded


def test_one_hint_in_the_words_of_python_and_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    error = DataError("a.csv has no text.", "Name it with {text_column=NAME}, or {drop_empty}; {settings.lam=0} too.")
    assert str(error) == "a.csv has no text. Name it with text_column=..., or drop_empty=True; lam=0 too."
    print_error(error)
    told = "a.csv has no text. Name it with --text-column NAME, or --drop-empty; --set lam=0 too.\n"
    assert capsys.readouterr().err == f"error: {told}"
    print_notes([Note(error.message, error.hint)])
    assert capsys.readouterr().err == f"warning: {told}"


def test_what_is_to_be_left_out_has_no_value() -> None:
    error = ConfigError("'vectors' has no effect.", "Leave out {vectors=...}.")
    assert str(error) == "'vectors' has no effect. Leave out vectors=...."
    assert error.worded(as_option) == "'vectors' has no effect. Leave out --vectors."


def test_hints_of_commands_name_options(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    code, _, err = run("train", tmp_path / "a.csv", "-o", tmp_path / "m")
    assert code == 2 and "--text-column" in err and "text_column" not in err
    (tmp_path / "s.toml").write_text("")
    code, _, err = run("init", tmp_path / "s.toml")
    assert code == 2 and "replace it with --overwrite." in err
    code, _, err = run("train", "demo", "-o", tmp_path / "m", "--device", "cuda", "--method", "cmsc-lr")
    assert code == 2 and "--device cpu" in err and "device=" not in err
