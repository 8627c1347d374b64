"""Predict a folder of Parquet files, partition by partition: on this machine, or on a cluster.

    python predict_on_cluster.py runs/reviews parts predicted
    python predict_on_cluster.py runs/reviews parts predicted --engine dask --address HOST:8786

It can be stopped or killed at any time: partitions that are finished are not predicted again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from multidomain.engines.base import ENGINES
from multidomain.model.batch_predictor import BatchPredictor
from multidomain.model.partitions import find_partitions, predict_partitions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", help="a folder or a pattern of Parquet files")
    parser.add_argument("target", type=Path)
    parser.add_argument("--engine", default="local", help="local, dask, ray or spark")
    parser.add_argument("--address", help="of a cluster that runs; by default the engine is started here")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()

    predictor = BatchPredictor(given.model.resolve())  # workers have other working directories
    partitions = find_partitions(given.source, given.target)
    with ENGINES.find(given.engine)(given.address, given.workers) as engine:
        for done in predict_partitions(predictor, partitions, engine):
            print(f"{done.finished_before + done.finished} of {done.total} partitions are finished", flush=True)
    for partition, error in done.faults.items():
        print(f"{partition}: {error}")


if __name__ == "__main__":  # workers of this machine import this file
    main()
