"""A model for all tests of engines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

os.environ["RAY_AUTH_MODE"] = "disabled"  # no token in the home folder; clusters of tests listen on 127.0.0.1


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "m"
    command = [
        sys.executable,
        "-m",
        "multidomain",
        "train",
        "demo",
        "--method",
        "lr",
        "--set",
        "C=1",
        "-o",
        str(folder),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return folder
