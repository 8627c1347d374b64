"""Peak memory of a process."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

from multidomain.errors import MultidomainError


def peak_memory_mb() -> float:
    """Return the peak memory of this process so far.

    On Linux a child process inherits its parent's peak, so a small program started by a large one looks large; the peak
    in /proc is reset for each program.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def command_cost(*arguments: str) -> tuple[float, float]:
    """Run the command line in its own process; return its seconds and peak memory in MB."""
    code = (
        "import atexit, sys; from multidomain.bench.memory import peak_memory_mb; "
        "from multidomain.cli.main import main; "
        "atexit.register(lambda: print(peak_memory_mb(), file=sys.stderr)); main()"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MultidomainError(f"multidomain {' '.join(arguments)} failed: {done.stderr}")
    return time.monotonic() - began, float(done.stderr.split()[-1])
