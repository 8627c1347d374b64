"""Writes command-line.md from what the commands say of themselves: python docs/make_command_line.py."""

from __future__ import annotations

import os
from pathlib import Path

PAGE = Path(__file__).with_name("command-line.md")

os.environ["COLUMNS"] = "100"  # before typer is imported, so that the page is the same on every terminal

from typer.main import get_command  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from multidomain.cli.main import app  # noqa: E402

HEAD = """# Command line

Made by `python docs/make_command_line.py` from the commands themselves. `multidomain COMMAND --help` shows the same.
Input that cannot be used ends with a message that says where and what to do, and exit code 2.
"""


def written() -> str:
    """Return the page."""
    commands = get_command(app).commands  # type: ignore[attr-defined]
    parts = [HEAD]
    for name, command in commands.items():
        for path in [[name], *([name, inner] for inner in getattr(command, "commands", {}))]:
            if getattr(command, "commands", None) and len(path) == 1:
                continue
            shown = CliRunner().invoke(app, [*path, "--help"], prog_name="multidomain", color=False).output
            lines = [line.rstrip() for line in shown.strip().splitlines()]
            parts.append(f"## {' '.join(path)}\n\n```text\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
