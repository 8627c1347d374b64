"""What a row of a training step costs on a pretrained encoder, by the number of domains and by their private parts.

The encoder has the shape of MiniLM and random weights; texts have 128 subwords. Appends a record for each case to
``results/encoder_cost.jsonl``, each measured in a process of its own with one thread:

    python benchmarks/encoder_cost.py
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "encoder_cost.jsonl"
MINILM = {
    "family": "bert",
    "vocabulary": 30522,
    "positions": 512,
    "types": 2,
    "width": 384,
    "layers": 6,
    "heads": 12,
    "inner": 1536,
}
ROWS, SUBWORDS, STEPS = 64, 128, 3
CASES = [
    *({"domains": domains, "private": private} for private in ("head", "lora", "adapter") for domains in (1, 16, 32)),
    *({"domains": 16, "private": "head", "frozen_layers": frozen} for frozen in (2, 4)),
]


def measured(domains: int, private: str, frozen_layers: int | None = None) -> dict[str, Any]:
    """Return CPU seconds of steps of `sp`, the first left out, and the peak memory of the process."""
    import numpy as np
    import torch
    from scipy.sparse import csr_matrix

    from multidomain.methods.registry import method_entry
    from multidomain.methods.task import Task
    from multidomain.nn.sparse import SparseMatrix
    from multidomain.training.sampling import DomainStream

    torch.set_num_threads(1)
    torch.manual_seed(0)
    entry = method_entry("sp")
    own = {"source": "minilm", "config": MINILM, "private": private, "frozen_layers": frozen_layers}
    names = tuple(f"domain {d}" for d in range(domains))
    task = Task(MINILM["vocabulary"], 2, names, tuple(range(domains)))
    method = entry.build(task, entry.settings({"extractor": "encoder", "encoder": own}))
    ids = np.random.default_rng(0).integers(1000, 30000, ROWS * SUBWORDS)
    values, offsets = np.ones(len(ids), np.float32), np.arange(0, len(ids) + 1, SUBWORDS)
    x = SparseMatrix(csr_matrix((values, ids, offsets), shape=(ROWS, MINILM["vocabulary"])))
    pools = [[rows] for rows in np.arange(ROWS).reshape(domains, -1)]
    stream = DomainStream(x, pools, np.arange(ROWS) % 2, ROWS // domains, (0, 0))
    method.trunk.remember([x])
    method.train()
    method.start_training()
    seconds = []
    for step in range(STEPS):
        began = time.process_time()
        method.before_step(step, STEPS)
        method.step(stream, stream, 0, step)
        seconds.append(time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
    return {"cpu_seconds": seconds[1:], "peak_mb": round(peak)}


def main() -> None:
    """Measure every case in a process of its own."""
    from multidomain.experiments.records import append_record, code_hash
    from multidomain.runs.machine import machine

    for case in CASES:
        command = [sys.executable, __file__, json.dumps(case)]
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=one_thread).stdout)
        record = {**case, "rows": ROWS, "subwords": SUBWORDS, **found}
        append_record(RESULTS, {**record, "code": code_hash(), "machine": machine()})
        print(f"{case}: {1000 * min(found['cpu_seconds']) / ROWS:.0f} ms a row, {found['peak_mb']:,} MB", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measured(**json.loads(sys.argv[1]))))
    else:
        main()
