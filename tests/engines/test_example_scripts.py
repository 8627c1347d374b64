"""The scripts in examples/ run unchanged on one machine and on a cluster, and do the same on all engines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from clusters import CLUSTERS, ON, Cluster
from partitions import read_parts, write_parts

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module", params=ON)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with CLUSTERS[request.param]() as found:
        yield found


def printed(script: str, *arguments: object, where: Path) -> str:
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def places(cluster: Cluster) -> list[Sequence[str]]:
    """This machine, and the cluster."""
    return [(), cluster.options]


def test_predict_on_cluster(cluster: Cluster, model: Path, tmp_path: Path) -> None:
    rows, found = write_parts(tmp_path / "data", 300, 3), []
    for i, options in enumerate(places(cluster)):
        out = printed("predict_on_cluster.py", model, "data", f"out{i}", *options, where=tmp_path)
        assert out.endswith("3 of 3 partitions are finished\n")
        found.append(read_parts(tmp_path / f"out{i}"))
    assert found[0].drop("prediction", "confidence").equals(rows)
    assert all(one.equals(found[0]) for one in found)


def test_table_on_cluster(cluster: Cluster, tmp_path: Path, benchmark_data: Path) -> None:
    said = set()
    for i, options in enumerate(places(cluster)):
        command = ("table1", "shared/LR", "--smoke", "--results", f"r{i}", *options)
        said.add(printed("table_on_cluster.py", *command, where=tmp_path).splitlines()[0])
    assert len(said) == 1 and "1 of 1: table1 shared/LR 0, test accuracy" in said.pop()


def test_own_pipeline(cluster: Cluster, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    write_parts(tmp_path / "data", 300, 3)
    alone = printed("own_pipeline.py", model, "data", where=tmp_path)
    assert sum(int(line.split(": ")[1].split()[0]) for line in alone.splitlines()) == 300
    at = ("--engine", cluster.engine)
    for options in (at, cluster.options):
        assert printed("own_pipeline.py", model, "data", *options, where=tmp_path) == alone
