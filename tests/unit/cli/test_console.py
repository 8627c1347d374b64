"""What reaches the terminal, whatever the data holds."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from multidomain.cli.console import _SafeConsole, visible

Run = Callable[..., tuple[int, str, str]]

EVIL = "\x1b]0;owned\x07\x1b[2Jbooks\x9b31m\u202eskoob\r"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("Bücher – 書 😀", "Bücher – 書 😀"),
        ("می‌خواهم 👩‍💻", "می‌خواهم 👩‍💻"),
        (EVIL, r"\x1b]0;owned\x07\x1b[2Jbooks\x9b31m\u202eskoob\r"),
        ("\udcff", r"\udcff"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown, "nothing is escaped twice"


def test_all_ways_to_print(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()
    console = _SafeConsole(file=file, highlight=False, markup=False, width=100)
    table = Table("domain", title=EVIL)
    table.add_row(EVIL)
    for what in (EVIL, table, Text(EVIL), Text.assemble((EVIL, "red"))):
        console.print(what)
    printed = file.getvalue()
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(printed)
    assert printed.count(r"\x1b[2Jbooks") == 5
    widths = {len(line) for line in printed.splitlines() if line[:1] in "┏┃┡│└"}
    assert len(widths) == 1, "escapes count for the width of a column"
    console.print("done", end="\r")
    assert file.getvalue().endswith("done\r"), "our own carriage return is left alone"


def test_styles_still_reach_a_terminal() -> None:
    file = io.StringIO()
    _SafeConsole(file=file, force_terminal=True, color_system="standard").print("red", style="red")
    assert file.getvalue() == "\x1b[31mred\x1b[0m\n"


def test_names_of_domains_and_classes_cannot_act_on_the_terminal(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'text,label,domain\na fine book,"{EVIL}1","{EVIL}"\na poor book,"{EVIL}2","{EVIL}"\n', newline="")
    for arguments in (("inspect", path), ("train", path, "-o", tmp_path / "m", "--dry-run")):
        code, out, err = run(*arguments)
        assert "\x1b" not in out + err and "\x9b" not in out + err and "\u202e" not in out + err
        assert code in (0, 2) and r"\x1b" in out + err


def test_an_output_encoding_that_lacks_a_character(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label,domain\nfein,gut,Bücher\nmies,schlecht,書\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "multidomain", "inspect", str(tmp_path / "a.csv")],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert r"B\xfccher" in done.stdout and r"\u66f8" in done.stdout
