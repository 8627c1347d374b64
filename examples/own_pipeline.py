"""Predict in a pipeline of your own, between other steps, on the data frames of the engine that you have.

    python own_pipeline.py runs/reviews parts
    python own_pipeline.py runs/reviews parts --engine spark --address spark://HOST:7077

Each step reads the files, adds the predictions, and counts them by domain; `BatchPredictor` is the same in all of them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from multidomain.model.batch_predictor import BatchPredictor

Counts = dict[tuple[str, str], int]


def with_polars(predictor: BatchPredictor, folder: Path, address: str | None) -> Counts:
    import polars as pl

    found: Counter[tuple[str, str]] = Counter()
    for path in sorted(folder.glob("*.parquet")):
        answered = predictor(pl.read_parquet(path))
        found.update(zip(answered["domain"], answered["prediction"], strict=True))
    return dict(found)


def with_dask(predictor: BatchPredictor, folder: Path, address: str | None) -> Counts:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    cluster = address or LocalCluster(threads_per_worker=1, dashboard_address=None)
    with Client(cluster):
        answered = dd.read_parquet(folder / "*.parquet").map_partitions(predictor)
        return answered.groupby(["domain", "prediction"]).size().compute().to_dict()


def with_ray(predictor: BatchPredictor, folder: Path, address: str | None) -> Counts:
    import ray

    ray.init(address or "local", log_to_driver=False)
    rows = ray.data.read_parquet(str(folder))
    # A pool of one or two actors, each of which keeps the model; another core reads.
    made = {"fn_constructor_args": [predictor.folder], "batch_format": "pyarrow", "concurrency": (1, 2)}
    found: Counter[tuple[str, str]] = Counter()
    for batch in rows.map_batches(BatchPredictor, **made).iter_batches(batch_format="pyarrow"):
        found.update(zip(batch["domain"].to_pylist(), batch["prediction"].to_pylist(), strict=True))
    return dict(found)


def with_spark(predictor: BatchPredictor, folder: Path, address: str | None) -> Counts:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master(address or "local[2]").getOrCreate()
    rows = session.read.parquet(str(folder))
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in rows.schema)
    answered = rows.mapInPandas(predictor.map, f"{columns}, prediction string, confidence double")
    counts = answered.groupBy("domain", "prediction").count().collect()
    session.stop()
    return {(row["domain"], row["prediction"]): row["count"] for row in counts}


PIPELINES = {"local": with_polars, "dask": with_dask, "ray": with_ray, "spark": with_spark}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", default="local", choices=PIPELINES)
    parser.add_argument("--address", help="of a cluster that runs; by default the engine is started here")
    given = parser.parse_args()

    predictor = BatchPredictor(given.model.resolve())
    counts = PIPELINES[given.engine](predictor, given.folder.resolve(), given.address)
    for (domain, prediction), count in sorted(counts.items()):
        print(f"{domain}: {count} {prediction}")


if __name__ == "__main__":  # workers of this machine import this file
    main()
