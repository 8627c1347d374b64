"""The service under load, attack and many requests, in full: some ten minutes, and a record of each.

Runs ``tests/faults/service`` in its long form and appends one JSON record for each test to
``results/reliability.jsonl``, whether it passes or not. The exit code is that of pytest.

    python benchmarks/service_faults.py
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OPEN_FILES = 8192  # of the attackers; the server is started with as many


def main() -> int:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    os.environ["MULTIDOMAIN_FAULTS"] = "long"
    os.environ["MULTIDOMAIN_FAULTS_RECORDS"] = str(ROOT / "results" / "reliability.jsonl")
    return int(pytest.main(["--rootdir", str(ROOT), "-v", str(ROOT / "tests" / "faults" / "service")]))


if __name__ == "__main__":
    sys.exit(main())
