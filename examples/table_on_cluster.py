"""Train and score rows of one of the paper's tables, each run a task: on this machine, or on a cluster.

    python table_on_cluster.py table1 lr
    python table_on_cluster.py table1 lr --engine ray --address HOST:6379

Records do not depend on the engine. Runs that have a record are not repeated.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from multidomain.engines.base import ENGINES
from multidomain.experiments.runner import Progress, reproduce


def show(progress: Progress) -> None:
    accuracy = progress.record["test"].values()
    mean = 100 * sum(accuracy) / len(accuracy)
    print(f"{progress.done} of {progress.total}: {progress.run}, test accuracy {mean:.2f} %", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", help="table1, table2 or table3")
    parser.add_argument("row", help="a system, a method, or CATEGORY/SYSTEM")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--smoke", action="store_true", help="one run, one epoch, a few rows")
    parser.add_argument("--engine", default="local", help="local, dask, ray or spark")
    parser.add_argument("--address", help="of a cluster that runs; by default the engine is started here")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()

    engine = ENGINES.find(given.engine)(given.address, given.workers)
    n_runs = reproduce(given.table, given.results, only=[given.row], engine=engine, smoke=given.smoke, on_record=show)
    print(f"{n_runs} recorded in {given.results}")


if __name__ == "__main__":  # workers of this machine import this file
    main()
