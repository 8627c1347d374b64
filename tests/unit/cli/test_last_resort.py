"""How a command ends that fails in a way nobody foresaw, in a process of its own."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# The real entry point, with one more command, which is broken.
PROGRAM = """
import sys
from multidomain.cli import main as cli

@cli.app.command("broken")
def broken() -> None:
    raise {error}

sys.argv = ["multidomain", *sys.argv[1:]]
cli.main()
"""
ZERO = 'ZeroDivisionError("one\\n\\x1b[31mline")'


def ended(
    tmp_path: Path, error: str = ZERO, debug: str = "0", before: Callable[[], None] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(error=error), "broken"],
        env={**os.environ, "TMPDIR": str(tmp_path), "MULTIDOMAIN_DEBUG": debug, "COLUMNS": "60"},
        check=False,
        text=True,
        preexec_fn=before,
        **({"capture_output": True} | options),
    )


def test_one_line_and_a_log_file(tmp_path: Path) -> None:
    done = ended(tmp_path)
    assert done.returncode == 70 and done.stdout == ""
    said = re.fullmatch(
        r"error: unexpected ZeroDivisionError: one \\x1b\[31mline\. This is a bug in multidomain, or in a method or "
        r"package that it uses\. The traceback is in (\S+\.log); please report it with that file and the command\.\n",
        done.stderr,
    )
    assert said, done.stderr
    log = Path(said[1])
    assert log.parent == tmp_path and log.stat().st_mode & 0o777 == 0o600
    assert re.search(r"^multidomain \S+, Python .*Traceback .*in broken", log.read_text(), re.DOTALL)


def test_the_traceback_is_shown_on_demand(tmp_path: Path) -> None:
    done = ended(tmp_path, debug="1")
    assert done.returncode == 70 and "Traceback (most recent call last)" in done.stderr and "in broken" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_log_file_cannot_be_written(tmp_path: Path) -> None:
    def no_space() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = ended(tmp_path, before=no_space)
    assert done.returncode == 70 and done.stderr.count("\n") == 1
    assert re.search(r"Its traceback could not be written \(.+\); MULTIDOMAIN_DEBUG=1 shows it\.", done.stderr)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("debug", ["0", "1"])
def test_standard_error_is_closed_or_full(debug: str, tmp_path: Path) -> None:
    assert ended(tmp_path, debug=debug, before=lambda: os.close(2), capture_output=False).returncode == 70
    with Path("/dev/full").open("w") as full:
        done = ended(tmp_path, debug=debug, capture_output=False, stdout=subprocess.PIPE, stderr=full)
    assert done.returncode == 70


@pytest.mark.parametrize(
    ("error", "code"),
    [(ZERO, 70), ("OSError(1, 'no')", 2), ("__import__('multidomain.cli.signals', fromlist=['x']).Stopped(15)", 143)],
)
def test_whoever_reads_standard_error_has_left(error: str, code: int, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert ended(tmp_path, error, capture_output=False, stderr=writing).returncode == code
    finally:
        os.close(writing)


def test_memory_that_cannot_be_had_is_no_bug(tmp_path: Path) -> None:
    done = ended(tmp_path, 'MemoryError("Unable to allocate 7 TiB")')
    assert done.returncode == 2
    assert done.stderr.startswith("error: Not enough memory (Unable to allocate 7 TiB). Use fewer features (--max-f")


@pytest.mark.parametrize(("error", "code"), [("SystemExit(5)", 5), ("KeyboardInterrupt", 130)])
def test_interrupts_and_exits_are_left_alone(error: str, code: int, tmp_path: Path) -> None:
    done = ended(tmp_path, error)
    assert done.returncode in (code, 1), "click ends an interrupted command with 1"
    assert "bug" not in done.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [("methods", "--json"), ("methods",)])
def test_a_pipe_that_is_closed_ends_quietly(arguments: tuple[str, ...], tmp_path: Path) -> None:
    program = [sys.executable, "-m", "multidomain", *arguments]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() in (0, 1)


@pytest.mark.parametrize("arguments", [("methods", "--json"), ("methods",)])
def test_a_full_disk_behind_standard_output(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "multidomain", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "No space left on" in done.stderr


OLD_MODEL = Path(__file__).parents[2] / "compat" / "v0.1" / "fa-lr"


def predicted(tmp_path: Path, before: Callable[[], None], *arguments: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "a.csv").write_text("text,domain\n" + "a fine book,books\n" * 300)
    return subprocess.run(
        [sys.executable, "-m", "multidomain", "predict", str(OLD_MODEL), str(tmp_path / "a.csv"), *arguments],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=before,
    )


def test_standard_output_is_closed(tmp_path: Path) -> None:
    done = predicted(tmp_path, lambda: os.close(1))
    assert done.returncode == 2
    assert done.stderr == "error: Standard output is closed. Write to a file with --output FILE.\n"


def test_the_file_size_limit(tmp_path: Path) -> None:
    output = tmp_path / "predicted.csv"
    done = predicted(tmp_path, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)), "-o", str(output))
    assert done.returncode == 2
    assert "error: The file-size limit (ulimit -f) was reached while writing" in done.stderr
    assert "Traceback" not in done.stderr and not output.exists()
