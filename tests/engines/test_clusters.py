"""Commands on clusters that run already, which somebody kills, leaves without packages, or fills up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from clusters import CLUSTERS, ON, SITE, Cluster, dask_cluster, python
from clusters import started as process_of
from engine_tasks import run_task
from partitions import read_parts, write_parts

from multidomain.engines.base import ENGINES
from multidomain.errors import ConfigError, WorkerError, WorkerLacksError
from multidomain.model.batch_predictor import BatchPredictor
from multidomain.model.partitions import find_partitions, predict_partitions

Run = Callable[..., tuple[int, str, str]]

OLD = {  # what makes an engine say that it is of another version
    "dask": "import importlib.metadata as m; v = m.version; m.version = lambda n: '0.0.1' if n[:4] == 'dist' else v(n)",
    "ray": "import ray; ray.__version__ = '0.0.1'",
}

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")


@pytest.fixture(scope="module", params=ON)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with CLUSTERS[request.param]() as found:
        yield found


def started(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "multidomain", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def after(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr
    said = []
    while text not in (said[-1] if said else ""):
        assert process.poll() is None, said
        said.append(process.stderr.readline())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*.parquet")}


def test_a_worker_is_killed_and_every_byte_is_as_in_one_process(
    cluster: Cluster, model: Path, tmp_path: Path, run: Run
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    rows = write_parts(data, 60_000, 12)
    process = started("predict", model, data, "-o", out, *cluster.options)
    after(process, "2/12")
    workers = cluster.workers()
    assert workers
    os.kill(workers[0], signal.SIGKILL)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert "12/12  60,000 rows" in err
    assert run("predict", model, data, "-o", tmp_path / "alone", "--workers", 1)[0] == 0
    assert contents(out) == contents(tmp_path / "alone") and len(contents(out)) == 12
    assert read_parts(out)["id"].equals(rows["id"])


def test_ctrl_c_cancels_what_the_cluster_has(cluster: Cluster, model: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    rows = write_parts(data, 80_000, 40)
    command = ("predict", model, data, "-o", out, *cluster.options)
    process = started(*command)
    after(process, "1/40")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "stopped by Ctrl-C. Finished partitions are kept" in err
    time.sleep(3)
    finished = len(contents(out))
    time.sleep(2)
    assert len(contents(out)) == finished < 40
    process = started(*command)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0 and f"{finished} partition" in err, err
    assert read_parts(out)["id"].equals(rows["id"])
    assert not list(out.rglob("*.partial"))


def test_a_table_has_the_same_records(cluster: Cluster, tmp_path: Path, run: Run, benchmark_data: Path) -> None:
    kept = {}
    for name, options in (("here", ()), ("there", cluster.options)):
        code, out, err = run("reproduce", "table1", "--only", "shared/LS", "--results", tmp_path / name, *options)
        assert code == 0, f"{out}\n{err}"
        records = [json.loads(line) for line in (tmp_path / name / "table1.jsonl").read_text().splitlines()]
        kept[name] = sorted(json.dumps(without_times(record), sort_keys=True) for record in records)
    assert kept["here"] == kept["there"] and kept["here"]


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("seconds", "cpu_seconds")}


def test_auto_chooses_what_it_chooses_in_one_process(cluster: Cluster, tmp_path: Path, run: Run) -> None:
    command = ["train", "demo", "--method", "auto", "--methods", "lr,fa-lr", "--folds", "2", "--smoke"]
    kept = []
    for name, options in (("here", ()), ("there", cluster.options)):
        code, _, err = run(*command, "-o", tmp_path / name, *options)
        assert code == 0, err
        choice = json.loads((tmp_path / name / "choice.json").read_text())
        kept.append([choice | {"candidates": [without_times(one) for one in choice["candidates"]]}])
    assert kept[0] == kept[1]


def test_a_worker_that_does_not_find_the_model_is_said(
    cluster: Cluster, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parts(tmp_path / "data", 30, 3)
    monkeypatch.chdir(model.parent)  # where the workers are not
    partitions = find_partitions(str(tmp_path / "data"), tmp_path / "out")
    with ENGINES.find(cluster.engine)(cluster.address, None) as engine:
        done = predict_partitions(BatchPredictor(model.name), partitions, engine)
        next(done)
        with pytest.raises(WorkerLacksError, match=r"The worker on '.*' cannot load the model: .* Put the same model"):
            next(done)
    assert not contents(tmp_path / "out")


@pytest.mark.parametrize("name", ON)
def test_a_worker_without_the_package_is_said(name: str, model: Path, tmp_path: Path, run: Run) -> None:
    write_parts(tmp_path / "data", 30, 3)
    (tmp_path / "multidomain").mkdir()
    missing = "raise ModuleNotFoundError(\"No module named 'multidomain'\", name='multidomain')"
    (tmp_path / "multidomain" / "__init__.py").write_text(missing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        stack = CLUSTERS[name]()
        bare = stack.__enter__()
    try:
        code, _, err = run("predict", model, tmp_path / "data", "-o", tmp_path / "out", *bare.options)
    finally:
        stack.__exit__(None, None, None)
    assert code == 2 and "A machine of the cluster has no package 'multidomain'. Install the same packages" in err


@pytest.mark.dask
def test_a_dask_worker_in_another_environment_is_said(model: Path, tmp_path: Path, run: Run) -> None:
    write_parts(tmp_path / "data", 30, 3)
    with dask_cluster({"PYTHONPATH": SITE}, flags=["-S"]) as bare:  # site-packages, but no .pth file of this package
        code, _, err = run("predict", model, tmp_path / "data", "-o", tmp_path / "out", *bare.options)
    assert code == 2 and "A machine of the cluster has no package 'multidomain'" in err


@pytest.mark.parametrize("name", ON[:2])
def test_an_engine_of_another_version_is_said(name: str, model: Path, tmp_path: Path, run: Run) -> None:
    write_parts(tmp_path / "data", 30, 1)
    with CLUSTERS[name](first=OLD[name]) as old:
        code, _, err = run("predict", model, tmp_path / "data", "-o", tmp_path / "out", *old.options)
    assert code == 2 and f"There is no {name.title()} cluster at '{old.address}' that this process can use" in err
    assert "0.0.1" in err and "Traceback" not in err


@pytest.mark.dask
def test_a_disk_that_is_full_on_one_worker(model: Path, tmp_path: Path, run: Run) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    rows = write_parts(data, 60_000, 12)
    assert run("predict", model, data, "-o", tmp_path / "alone", "--workers", 1)[0] == 0
    with dask_cluster({}, {"limit": "ulimit -f 32"}) as cluster:  # kilobytes
        code, _, err = run("predict", model, data, "-o", out, *cluster.options)
    assert code == 2 and "of 12 partitions got no predictions; the others are finished." in err
    assert "The file-size limit (ulimit -f) was reached while writing" in err
    written = contents(out)
    assert 0 < len(written) < 12 and written.items() <= contents(tmp_path / "alone").items()
    assert not list(out.rglob("*.partial"))
    code, _, err = run("predict", model, data, "-o", out, "--workers", 1)
    assert code == 0 and contents(out) == contents(tmp_path / "alone")
    assert read_parts(out)["id"].equals(rows["id"])


@pytest.mark.dask
def test_a_dask_scheduler_that_is_gone_is_said() -> None:
    at = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    with ExitStack() as stack:
        main = stack.enter_context(process_of(*python("distributed.cli.dask_scheduler", *at)))
        address = main.printed(r"Scheduler at:\s+(tcp://\S+)")
        worker = python("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard")
        stack.enter_context(process_of(*worker)).printed("Registered to")
        with ENGINES.find("dask")(address, None) as engine:
            outcomes = engine.map(time.sleep, [0.1] * 100)
            assert next(outcomes).error is None
            main.running.kill()
            with pytest.raises(WorkerError, match=r"The Dask cluster has ended.* Start it again, and repeat"):
                list(outcomes)


@pytest.mark.dask
def test_a_dask_future_that_was_cancelled_means_the_same() -> None:
    with ENGINES.find("dask")(None, 1) as engine:
        outcomes = engine.map(time.sleep, [0.1, 20])
        assert next(outcomes).error is None
        engine._client.cancel(list(engine._running), force=True)
        with pytest.raises(WorkerError, match="The Dask cluster has ended"):
            next(outcomes)


@pytest.mark.dask
def test_deaths_of_dask_workers_are_counted_as_the_scheduler_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that allows a failure begins a task twice before it says so, here once beside others and twice alone."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with ENGINES.find("dask")(None, 1) as engine:
        engine._cluster.scheduler.allowed_failures = 1
        (outcome,) = engine.map(partial(run_task, tmp_path), ["die"])
    assert isinstance(outcome.error, WorkerError) and "was killed each of 4 times" in str(outcome.error)


def test_an_engine_that_is_not_installed_is_said() -> None:
    for name, package in (("dask", "dask"), ("ray", "ray"), ("spark", "pyspark")):
        code = f"""
import sys
sys.modules[{package!r}] = None
from multidomain.engines.base import ENGINES
ENGINES.find({name!r})
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        said = f"The engine '{name}' needs {package}, which is not installed. Run: pip install 'multidomain[{name}]'"
        assert f"ConfigError: {said}" in done.stderr


def test_other_errors_name_the_engines() -> None:
    with pytest.raises(ConfigError, match=r"^There is no engine 'none of them'\. Valid: 'dask', 'local'"):
        ENGINES.find("none of them")
