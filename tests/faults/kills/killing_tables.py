"""``multidomain reproduce``, killed at random moments with all its workers, on a small corpus in place of Amazon."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from multidomain.experiments.records import Record, read_records

FOLDERS = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "unit" / "experiments")]
DRIVER = f"""
import sys
sys.path += {FOLDERS!r}
from small_corpora import small_amazon
from multidomain.cli.main import main
from multidomain.data.named.registry import CORPORA, NamedCorpus
CORPORA.find("amazon")  # what registers by itself comes first
CORPORA.add("amazon", NamedCorpus("amazon", "small", "generated", small_amazon))
if __name__ == "__main__":  # workers run this file up to here
    main()
"""
RECIPE = """
title = "Small"
protocol = "five-fold"

[[rows]]
category = "shared"
system = "LR"
method = "lr"
extractor = "linear"

[[rows]]
category = "shared"
system = "MLP"
method = "mlp"
extractor = "mlp"
seeds = 4
settings = { hidden = [8], shared_size = 4 }
training = { max_epochs = 12, patience = 12, checkpoint_seconds = 0 }
"""
_MAY_DIFFER = ("seconds", "cpu_seconds", "machine")


def killed_table(place: Path, kills: int, seed: int = 0) -> int:
    """Kill a table so many times, let it end, and compare it with one that was not killed; return the number of runs.

    It is killed up to eight seconds after its first line, and starts over when it was not killed before its end.
    """
    driver, recipe = place / "driver.py", place / "small.toml"
    driver.write_text(DRIVER)
    recipe.write_text(RECIPE)
    command = [sys.executable, str(driver), "reproduce", str(recipe), "--results"]
    subprocess.run([*command, str(place / "whole"), "--jobs", "2"], check=True, stdout=subprocess.DEVNULL)
    whole = _by_run(place / "whole")
    moment, results, killed = random.Random(seed), place / "killed0", 0
    while killed < kills:
        process = subprocess.Popen([*command, str(results)], stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stdout
        process.stdout.readline()
        time.sleep(moment.uniform(0, 8))
        over = process.poll() is not None
        if not over:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
        so_far = _by_run(results)
        assert all(whole[name] == record for name, record in so_far.items())
        if over:
            assert so_far == whole
            results = place / f"killed{killed}"
    subprocess.run([*command, str(results)], check=True, stdout=subprocess.DEVNULL)
    assert _by_run(results) == whole
    return len(whole)


def _by_run(results: Path) -> dict[tuple[Any, ...], Record]:
    records = read_records(results / "small.jsonl")
    by_run = {tuple(record[name] for name in ("system", "seed", "fold")): record for record in records}
    assert len(by_run) == len(records), "a run has two records"
    return {key: {n: v for n, v in record.items() if n not in _MAY_DIFFER} for key, record in by_run.items()}
