"""The protocols on re-split data: what a split seed changes, and what it must not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_runner
from small_corpora import SCORED, rows, small, small_amazon, splits
from test_runner import Pretended, run_of

from multidomain.cli import main as cli
from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import Split
from multidomain.engines.base import Engine, Outcome
from multidomain.engines.local import LocalEngine
from multidomain.experiments.protocols import PROTOCOLS
from multidomain.experiments.records import is_of, new_split_seeds, read_records, records_file
from multidomain.experiments.runner import Run, execute, reproduce

tiny = test_runner.tiny  # a fixture


def assert_kept_together(corpus: Corpus, split: Split) -> None:
    """No text on both sides; only that of a target whose labels select may stand in the sources too."""
    keys = corpus.text_keys()
    for one, other in combinations(SCORED, 2):
        if split.selection == "oracle" and other == "dev":
            continue
        assert not np.isin(keys[getattr(split, one)], keys[getattr(split, other)]).any(), (one, other)


def classes(corpus: Corpus, rows: np.ndarray) -> dict[tuple[str, str], int]:
    return dict(Counter(zip(corpus.domains[rows], corpus.labels[rows], strict=True)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_spec_says_the_split_seed_only_if_there_is_one(protocol: str) -> None:
    given = PROTOCOLS[protocol].split_specs(reads_text=True)
    assert not any("split_seed" in spec for spec in given)
    assert PROTOCOLS[protocol].split_specs(reads_text=True, split_seed=0) == [
        {**spec, "split_seed": 0} for spec in given
    ]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_equal_texts_are_kept_together(protocol: str, seed: int) -> None:
    corpus = small(protocol)
    for split in splits(protocol, corpus, seed):
        assert_kept_together(corpus, split)
        assert split.rule.endswith(f"; re-split with seed {seed}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_seed_always_gives_the_same_split_and_another_seed_another(protocol: str) -> None:
    corpus = small(protocol)
    given, one, again, other = (list(map(rows, splits(protocol, corpus, seed))) for seed in (None, 1, 1, 2))
    assert one == again
    assert all(len({str(split) for split in same_spec}) == 3 for same_spec in zip(given, one, other, strict=True))


PRINTED = """
import sys
sys.path.append(sys.argv[1])
from small_corpora import PROTOCOLS, rows, small, splits
print([list(map(rows, splits(protocol, small(protocol), 5))) for protocol in PROTOCOLS])
"""


def test_a_split_is_the_same_in_every_process() -> None:
    command = [sys.executable, "-c", PRINTED, str(Path(__file__).parent)]
    found = [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    here = [list(map(rows, splits(protocol, small(protocol), 5))) for protocol in PROTOCOLS]
    assert found == [str(here), str(here)]


def test_new_folds_test_each_labelled_row_once_and_leave_the_others_as_text() -> None:
    corpus = small("five-fold")
    assert corpus.parts is not None
    found = splits("five-fold", corpus, 4)
    assert sorted(np.concatenate([split.test for split in found])) == np.flatnonzero(corpus.parts == "train").tolist()
    for split in found:
        assert split.unlabelled.tolist() == np.flatnonzero(corpus.parts == "unlabelled").tolist()


def test_a_new_target_has_both_its_files_and_no_label_is_seen() -> None:
    corpus = small("unlabelled-target")
    for spec in PROTOCOLS["unlabelled-target"].split_specs(reads_text=True, split_seed=4):
        split = PROTOCOLS["unlabelled-target"].split(corpus, spec)
        of_target = set(np.flatnonzero(corpus.domains == spec["target"]).tolist())
        assert not of_target & {*split.train.tolist(), *(split.dev.tolist() if spec["selection"] != "oracle" else ())}
        if spec["target_text"] == "train":
            assert {*split.test.tolist(), *split.unlabelled.tolist()} == of_target


# --- the real data ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def amazon(benchmark_data: Path) -> Corpus:
    return load_corpus("amazon")


@pytest.fixture(scope="module")
def fdu_mtl(benchmark_data: Path) -> Corpus:
    return load_corpus("fdu-mtl")


@pytest.mark.benchmark_data
@pytest.mark.parametrize("seed", [0, 7])
def test_new_splits_of_amazon(amazon: Corpus, seed: int) -> None:
    of_all = classes(amazon, np.arange(len(amazon)))
    for split in splits("five-fold", amazon, seed):
        assert_kept_together(amazon, split)
        for part, n in (("train", 600), ("dev", 200), ("test", 200)):
            assert classes(amazon, getattr(split, part)) == dict.fromkeys(of_all, n)
    for spec in PROTOCOLS["unlabelled-target"].split_specs(reads_text=True, split_seed=seed):
        split = PROTOCOLS["unlabelled-target"].split(amazon, spec)
        assert_kept_together(amazon, split)
        target = {kind for kind in of_all if kind[0] == spec["target"]}
        oracle = spec["selection"] == "oracle"
        assert classes(amazon, split.train) == dict.fromkeys(of_all.keys() - target, 1_000 if oracle else 800)
        dev = dict.fromkeys(target, 1_000) if oracle else dict.fromkeys(of_all.keys() - target, 200)
        assert classes(amazon, split.dev) == dev
        assert classes(amazon, split.test) == {kind: of_all[kind] - 1_000 for kind in target}
        if spec["target_text"] == "train":
            assert classes(amazon, split.unlabelled) == dict.fromkeys(target, 1_000)


@pytest.mark.benchmark_data
@pytest.mark.parametrize("seed", [0, 7])
def test_new_splits_of_fdu_mtl(fdu_mtl: Corpus, seed: int) -> None:
    corpus = fdu_mtl
    (given,), (split,) = splits("given-parts", corpus, None), splits("given-parts", corpus, seed)
    assert_kept_together(corpus, split)
    assert split.unlabelled.tolist() == given.unlabelled.tolist()
    for part in SCORED:
        sizes = [Counter(corpus.domains[getattr(s, part)]) for s in (given, split)]
        assert sizes[0] == sizes[1]
    assert set(classes(corpus, split.dev).values()) == {100}
    assert set(classes(corpus, split.test).values()) == {200}


def in_this_process(
    engine: Engine, function: Callable[[Run], Any], tasks: Iterable[Run], *, ahead: int = 1
) -> Iterator[Outcome[Run]]:
    """In place of worker processes."""
    return (Outcome(task, function(task)) for task in tasks)


@pytest.mark.benchmark_data
@pytest.mark.parametrize("table", ["table1", "table2", "table3"])
def test_the_command_on_a_few_rows(
    benchmark_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    table: str,
) -> None:
    if table != "table1":  # one with a worker process is enough
        monkeypatch.setattr(LocalEngine, "map", in_this_process)
    command = ["multidomain", "reproduce", table, "--smoke", "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [*command, "--split-seed", "3", "--only", "shared-private/fa-svm"])
    file = tmp_path / "smoke" / f"{table}-split3.jsonl"
    for said in ("1 run recorded", "nothing to run: every run has a record"):
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, error = capfd.readouterr()  # of the worker process too
        assert (exit_.value.code, error) == (0, "")
        assert f"\n{table}: {said} in {file}\n" in out
    (record,) = read_records(file)
    assert record["split_seed"] == 3 and record["split"].endswith("; re-split with seed 3")
    assert [path.name for path in file.parent.glob("*.jsonl")] == [file.name]


# --- records ------------------------------------------------------------------------------------------


def test_a_record_of_a_new_split_is_of_no_run_on_another(tiny: None, tmp_path: Path) -> None:
    runs = [run_of("table1", "LS", None, fold=1, **spec) for spec in ({}, {"split_seed": 0}, {"split_seed": 1})]
    records = [execute(run, tmp_path) for run in runs]
    for i, record in enumerate(records):
        assert [is_of(record, run.identity()) for run in runs] == [i == 0, i == 1, i == 2]
    assert len({str(record["predictions"]) for record in records}) == 3
    assert len({run.key(small_amazon()) for run in runs}) == 3
    assert [record.get("split_seed", "none") for record in records] == ["none", 0, 1]
    assert [str(run) for run in runs[:2]] == ["table1 shared/LS 1", "table1 shared/LS 1, split seed 0"]


def test_each_split_has_a_file_of_its_own(tiny: None, tmp_path: Path) -> None:
    one_seed = partial(reproduce, "table1", tmp_path, seeds=[1], engine=Pretended())
    for split_seed in (None, 12, 2):
        assert one_seed(only=["ls"], split_seed=split_seed) == 5
        assert one_seed(split_seed=split_seed) == 5
        assert one_seed(split_seed=split_seed) == 0
        records = read_records(records_file(tmp_path, "table1", split_seed))
        assert {record.get("split_seed") for record in records} == {split_seed} and len(records) == 10
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == [
        "table1-split12.jsonl",
        "table1-split2.jsonl",
        "table1.jsonl",
    ]
    assert new_split_seeds(tmp_path, "table1") == [2, 12] and new_split_seeds(tmp_path, "table2") == []
