"""Parquet files to predict, and those that were predicted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from multidomain.data.named.registry import load_corpus

CORPUS = load_corpus("demo")


def write_parts(folder: Path, n_rows: int, n_parts: int) -> pl.DataFrame:
    folder.mkdir(parents=True, exist_ok=True)
    at = np.random.default_rng(0).integers(0, len(CORPUS), n_rows)
    rows = pl.DataFrame({"id": np.arange(n_rows), "text": CORPUS.documents[at], "domain": CORPUS.domains[at]})
    for k in range(n_parts):
        rows[k * n_rows // n_parts : (k + 1) * n_rows // n_parts].write_parquet(folder / f"part-{k:03}.parquet")
    return rows


def read_parts(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in sorted(folder.rglob("*.parquet"))])
