"""Peak memory of a process."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

from multidomain.errors import MultidomainError


def peak_memory_mb() -> float:
    """Return the most memory this process has had so far.

    Linux hands the peak of a process on to the programs it starts, so that a small program started by a large one seems
    large; the peak in /proc begins anew with each program.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def command_cost(*arguments: str) -> tuple[float, float]:
    """Run the command line in a process of its own; return its seconds and its peak memory in MB."""
    code = (
        "import atexit, sys; from multidomain.bench.memory import peak_memory_mb; from multidomain.cli import main; "
        "atexit.register(lambda: print(peak_memory_mb(), file=sys.stderr)); main()"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MultidomainError(f"multidomain {' '.join(arguments)} failed: {done.stderr}")
    return time.monotonic() - began, float(done.stderr.split()[-1])
