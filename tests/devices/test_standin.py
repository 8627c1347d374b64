"""No accelerator is needed to see on which device every tensor of a step is made: see `standin_steps`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import backend_registration

pytestmark = pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this version of torch has no stand-in for devices",
)


def test_steps_stay_on_their_device():
    script = Path(__file__).with_name("standin_steps.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = json.loads(done.stdout)
    assert len(outcomes) > 25
    assert {name: fault for name, fault in outcomes.items() if fault} == {}
