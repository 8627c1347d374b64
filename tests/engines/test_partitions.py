"""Prediction on many Parquet files: none lost, none doubled, and faults of one leave the others alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from partitions import read_parts, write_parts

from multidomain.bench.processes import descendants, has_model_open
from multidomain.errors import ConfigError, WorkerLacksError
from multidomain.model import partitions as under_test
from multidomain.model.batch_predictor import BatchPredictor
from multidomain.model.partitions import Partition, find_partitions

Run = Callable[..., tuple[int, str, str]]
ENGINES = [
    "local",
    "dask",
    pytest.param("ray", marks=pytest.mark.ray),
    pytest.param("spark", marks=pytest.mark.spark),
]


@pytest.mark.parametrize("engine", ENGINES)
def test_all_engines_write_what_one_process_does(engine: str, model: Path, tmp_path: Path, run: Run) -> None:
    rows = write_parts(tmp_path / "data", 3000, 5)
    rows.write_parquet(tmp_path / "all.parquet")
    code, _, err = run("predict", model, tmp_path / "all.parquet", "-o", tmp_path / "whole.parquet")
    assert code == 0, err
    options = ("--engine", engine, "--workers", "2", "--probabilities")
    code, _, err = run("predict", model, tmp_path / "data", "-o", tmp_path / "out", *options)
    assert code == 0, err
    assert "5/5  3,000 rows" in err
    found, whole = read_parts(tmp_path / "out"), pl.read_parquet(tmp_path / "whole.parquet")
    assert found.drop("p(negative)", "p(positive)").equals(whole)
    assert found["id"].equals(rows["id"])
    rows.write_csv(tmp_path / "all.csv")
    assert run("predict", model, tmp_path / "all.csv", "-o", tmp_path / "whole.csv")[0] == 0
    as_csv = pl.read_csv(tmp_path / "whole.csv")
    assert as_csv["prediction"].equals(whole["prediction"]) and as_csv["confidence"].equals(whole["confidence"])


def test_finished_partitions_are_not_predicted_again(model: Path, tmp_path: Path, run: Run) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write_parts(data / "a", 200, 2)
    write_parts(data / "b", 100, 1)
    assert run("predict", model, data, "-o", out, "--workers", "1")[0] == 0
    files = sorted(path.relative_to(out) for path in out.rglob("*.parquet"))
    assert files == [Path("a/part-000.parquet"), Path("a/part-001.parquet"), Path("b/part-000.parquet")]
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    write_parts(data / "b", 150, 1)
    code, _, err = run("predict", model, data, "-o", out, "--workers", "1")
    assert code == 0 and "2 partitions finished before; 1 partition to do" in err
    changed = {path.relative_to(out) for path, when in before.items() if path.stat().st_mtime_ns != when}
    assert changed == {Path("b/part-000.parquet")}
    code, _, err = run("predict", model, data, "-o", out, "--workers", "1", "--abstain", "0.6")
    assert "3 partitions to do" in err


@pytest.mark.parametrize("pattern", ["data", "data/**/*.parquet", "./data/*/*.parquet", "../{}/data/*/*.parquet"])
def test_where_files_go_does_not_depend_on_which_there_are(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a new folder would have all files predicted again beside the old ones."""
    monkeypatch.chdir(tmp_path)
    pattern, data, out = pattern.format(tmp_path.name), Path("data"), Path("out")
    write_parts(data / "a", 2, 1)
    (data / "a" / "link.parquet").symlink_to(write_one(tmp_path / "elsewhere" / "other.parquet"))
    targets = {one.target for one in find_partitions(pattern, out)}
    assert targets == {tmp_path / "out" / "a" / name for name in ("part-000.parquet", "link.parquet")}
    write_parts(data / "b", 2, 1)
    later = {one.target for one in find_partitions(pattern, out)}
    assert later == targets | {tmp_path / "out" / "b" / "part-000.parquet"}


def test_what_is_written_is_never_read_as_a_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_parts(Path("data/a"), 2, 1)
    Path("link").symlink_to("data")
    for pattern, out in (("data", "data/out"), ("**/*.parquet", "out"), ("data/**/*.parquet", "link/out")):
        with pytest.raises(ConfigError, match=rf"'{out}' is inside of .*: what is written there would be read when"):
            find_partitions(pattern, Path(out))
    for pattern, out in (("data/a/*.parquet", "data/a/out"), ("data/a", "data/out"), ("data", "data2")):
        before = [one.source for one in find_partitions(pattern, Path(out))]
        write_one(find_partitions(pattern, Path(out))[0].target)
        assert [one.source for one in find_partitions(pattern, Path(out))] == before


def write_one(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame({"text": ["fine"]}).write_parquet(path)
    return path


def test_a_worker_that_is_unfit_ends_the_job(model: Path, tmp_path: Path) -> None:
    """It would fail at one partition after the other."""
    one, here = Partition(write_one(tmp_path / "a.parquet"), tmp_path / "b.parquet"), BatchPredictor(model)
    identity, code = under_test._identity(here), under_test.code_hash()
    for predictor, of, said in (
        (here, "another", "A worker has other code of this package .* Install the same version"),
        (BatchPredictor(model, device="cuda:7"), code, "cannot load the model: Device 'cuda:7' was asked for"),
        (BatchPredictor(model, method="no.py:M"), code, "cannot load the model: There is no Python file"),
        (BatchPredictor(model, abstain=0.5), code, "has another model"),
    ):
        with pytest.raises(WorkerLacksError, match=said):
            under_test._predict_in_worker(predictor, identity, of, one)
    assert not one.target.exists()


def test_other_code_makes_other_predictions(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of this package, and of a method in a file, whose folder does not matter."""
    found = []
    for folder, text in (("a", "x = 1"), ("b", "x = 1"), ("c", "x = 2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.py").write_text(text)
        monkeypatch.setattr(BatchPredictor, "model", None)  # a file that is there need not fit this model
        found.append(under_test._identity(BatchPredictor(model, method=f"{tmp_path / folder / 'own.py'}:M")))
    assert found[0] == found[1] != found[2]
    monkeypatch.setattr(under_test, "code_hash", lambda: "another")
    assert under_test._identity(BatchPredictor(model, method=f"{tmp_path / 'c' / 'own.py'}:M")) != found[2]


def test_a_run_that_is_killed_goes_on(model: Path, tmp_path: Path, run: Run) -> None:
    rows = write_parts(tmp_path / "data", 60_000, 12)
    command = [sys.executable, "-m", "multidomain", "predict", str(model), str(tmp_path / "data"), "-o"]
    process = subprocess.Popen([*command, str(tmp_path / "out"), "--workers", "2"], stderr=subprocess.PIPE, text=True)
    assert process.stderr
    while "1/12" not in process.stderr.readline():
        assert process.poll() is None
    process.kill()
    process.communicate()
    code, _, err = run("predict", model, tmp_path / "data", "-o", tmp_path / "out", "--workers", "2")
    assert code == 0 and "finished before" in err
    found = read_parts(tmp_path / "out")
    assert found["id"].equals(rows["id"]) and found["prediction"].null_count() == 0
    assert not list((tmp_path / "out").rglob("*.partial"))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_worker_that_is_killed_costs_no_row(engine: str, model: Path, tmp_path: Path) -> None:
    rows = write_parts(tmp_path / "data", 60_000, 12)
    command = [sys.executable, "-m", "multidomain", "predict", str(model), str(tmp_path / "data"), "-o"]
    command += [str(tmp_path / "out"), "--engine", engine, "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    while "2/12" not in process.stderr.readline():
        assert process.poll() is None
    workers = [pid for pid in descendants(process.pid) if has_model_open(pid)]
    assert workers
    os.kill(workers[0], signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "12/12  60,000 rows" in err
    assert read_parts(tmp_path / "out")["id"].equals(rows["id"])


def test_faults_are_listed_and_the_rest_is_finished(model: Path, tmp_path: Path, run: Run) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write_parts(data, 600, 6)
    whole = (data / "part-001.parquet").read_bytes()
    (data / "part-001.parquet").write_bytes(whole[: len(whole) // 2])
    pl.read_parquet(data / "part-002.parquet").rename({"text": "n"}).write_parquet(data / "part-002.parquet")
    pl.read_parquet(data / "part-003.parquet").clear().write_parquet(data / "part-003.parquet")
    pl.read_parquet(data / "part-004.parquet").with_columns(pl.lit("x").alias("prediction")).write_parquet(
        data / "part-004.parquet"
    )
    code, _, err = run("predict", model, data, "-o", out, "--workers", "2")
    assert code == 2
    assert "3 of 6 partitions got no predictions; the others are finished." in err
    assert "part-001.parquet: part-001.parquet cannot be read as Parquet" in err
    assert "part-002.parquet has no column that looks like the text. Its columns: 'id', 'n', 'domain'" in err
    assert "part-004.parquet has a column 'prediction' already" in err
    assert sorted(path.name for path in out.iterdir()) == [f"part-{k:03}.parquet" for k in (0, 3, 5)]
    empty = pl.read_parquet(out / "part-003.parquet")
    assert not len(empty) and empty.schema == pl.read_parquet(out / "part-000.parquet").schema
    (data / "part-001.parquet").write_bytes(whole)
    (data / "part-002.parquet").unlink()
    (data / "part-004.parquet").unlink()
    code, _, err = run("predict", model, data, "-o", out, "--workers", "2")
    assert code == 0 and "3 partitions finished before; 1 partition to do" in err


def test_schemas_that_differ_between_partitions(model: Path, tmp_path: Path, run: Run) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write_parts(data, 600, 6)
    paths = sorted(data.iterdir())
    rows = [pl.read_parquet(path) for path in paths]
    rows[1].select("domain", "id", "text").with_columns(pl.lit(1).alias("more")).write_parquet(paths[1])
    rows[2].with_columns(pl.col("text").cast(pl.Categorical), pl.col("id").cast(pl.String)).write_parquet(paths[2])
    rows[3].with_columns(pl.lit(None).alias("domain")).write_parquet(paths[3])
    rows[4].drop("domain").write_parquet(paths[4])
    rows[5].with_columns(pl.col("id").alias("text")).write_parquet(paths[5])
    code, _, err = run("predict", model, data, "-o", out, "--workers", "2")
    found = [pl.read_parquet(out / path.name) if (out / path.name).exists() else None for path in paths]
    assert code == 0, err
    assert found[1].columns == ["domain", "id", "text", "more", "prediction", "confidence"]
    for k in range(6):
        kept = pl.read_parquet(paths[k])
        assert found[k].select(kept.columns).equals(kept) and found[k].schema["confidence"] == pl.Float64
    without_domain = BatchPredictor(model)
    for k in (3, 4):
        assert found[k]["confidence"].equals(without_domain(rows[k].select("text"))["confidence"])


def test_one_of_a_thousand_is_corrupt(model: Path, tmp_path: Path, run: Run) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    rows = write_parts(data, 2000, 1000)
    (data / "part-500.parquet").write_bytes(b"PAR1 this is no Parquet PAR1")
    code, _, err = run("predict", model, data, "-o", out, "--workers", "2")
    assert code == 2 and "1 of 1,000 partitions got no predictions; the others are finished." in err
    assert "part-500.parquet cannot be read as Parquet" in err
    assert len(list(out.rglob("*.parquet"))) == 999
    assert read_parts(out)["id"].to_list() == [i for i in rows["id"] if i // 2 != 500]


def test_a_full_disk_is_said_and_nothing_is_half_written(model: Path, tmp_path: Path, run: Run) -> None:
    write_parts(tmp_path / "data", 3000, 2)
    code = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))
from multidomain.cli.main import main
sys.argv = ["multidomain", "predict", {str(model)!r}, {str(tmp_path / "data")!r}, "-o", {str(tmp_path / "out")!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("The file-size limit (ulimit -f) was reached while writing") == 2
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").rglob("*"))


def test_other_files_are_not_replaced(model: Path, tmp_path: Path, run: Run) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write_parts(data, 20, 1)
    write_parts(out, 20, 1)
    kept = (out / "part-000.parquet").read_bytes()
    code, _, err = run("predict", model, data, "-o", out)
    assert code == 2 and "is there already and was not written by this command" in err and "--overwrite" in err
    assert (out / "part-000.parquet").read_bytes() == kept
    assert run("predict", model, data, "-o", out, "--overwrite", "--workers", "1")[0] == 0
    code, _, err = run("predict", model, data, "-o", data)
    assert code == 2 and "would be replaced by what is written" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing/*.parquet", "-o", "out"), "There is no file 'nothing/*.parquet'"),
        ((".", "-o", "out"), "There is no file '.'"),
        (("*.csv", "-o", "out"), "Partitions are Parquet files; '*.csv' has others: 'a.csv'"),
        (("*.csv",), "Partitions are written into a folder. Name it with --output FOLDER"),
        (("*.csv", "-o", "a.csv"), "Partitions are Parquet files"),
    ],
)
def test_what_is_no_partition(
    arguments: tuple[str, ...], said: str, model: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("text\nfine\n")
    monkeypatch.chdir(tmp_path)
    code, _, err = run("predict", model, *arguments)
    assert code == 2 and said in err
