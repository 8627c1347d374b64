"""Records: packed answers, lines that a kill cut short, and which run a record is of."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from multidomain.code import code_hash
from multidomain.errors import DataError
from multidomain.experiments.recipes import TABLES, load_recipe
from multidomain.experiments.records import append_record, is_of, pack, read_records, unpack
from multidomain.experiments.runner import planned_runs, without_record
from multidomain.training.settings import RunSettings

RUN = {
    "table": "table1",
    "category": "shared",
    "system": "MLP",
    "seed": 2,
    "fold": 3,
    "config": RunSettings(method="mlp", training={"seed": 2}).complete(),
}


def changed(**changes: Any) -> dict[str, Any]:
    """A copy of the run with some values replaced; ``__`` goes into what is nested."""
    run = json.loads(json.dumps(RUN))
    for path, value in changes.items():
        *outer, name = path.split("__")
        spec = run
        for step in outer:
            spec = spec[step]
        spec[name] = value
    return run


def without(*path: str) -> dict[str, Any]:
    run = changed()
    spec = run
    for step in path[:-1]:
        spec = spec[step]
    del spec[path[-1]]
    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "results" / "table1.jsonl"


@pytest.fixture
def written(file: Path) -> Path:
    """A file with three records."""
    for i in range(3):
        append_record(file, {"i": i, "name": "Daumé"})
    return file


# --- answers ------------------------------------------------------------------------------------------


@given(arrays(np.int64, st.integers(0, 500), elements=st.integers(0, 255)))
def test_packed_answers_come_back(codes: np.ndarray) -> None:
    packed = pack(codes)
    assert packed.isascii()
    assert json.loads(json.dumps(packed)) == packed
    assert unpack(packed).tolist() == codes.tolist()
    assert list(zlib.decompress(base64.b64decode(packed))) == codes.tolist()  # readable without us


def test_packed_answers_are_compact() -> None:
    answers = np.random.default_rng(0).integers(0, 2, 5_945)
    assert len(pack(answers)) < 5_945 / 4


# --- files --------------------------------------------------------------------------------------------


def test_no_file_has_no_records(file: Path) -> None:
    assert read_records(file) == []


def test_records_come_back_in_order_one_a_line(written: Path) -> None:
    assert read_records(written) == [{"i": i, "name": "Daumé"} for i in range(3)]
    assert written.read_bytes().endswith(b"}\n")
    assert len(written.read_bytes().splitlines()) == 3


@given(st.lists(st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.text())), max_size=5))
def test_any_record_is_one_line(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]]) -> None:
    file = tmp_path_factory.mktemp("any") / "r.jsonl"
    for record in records:
        append_record(file, record)
    assert read_records(file) == records


@pytest.mark.parametrize("kept", [1, 9, 20])
def test_a_line_that_was_cut_short_is_ignored_and_then_repaired(written: Path, kept: int) -> None:
    line = json.dumps({"i": 3, "test": {"books": 0.8125}}).encode()
    with written.open("ab") as torn:
        torn.write(line[:kept])
    assert [record["i"] for record in read_records(written)] == [0, 1, 2]
    append_record(written, {"i": 4})
    assert [record["i"] for record in read_records(written)] == [0, 1, 2, 4]
    assert line[:kept] not in written.read_bytes().splitlines()


def test_a_file_of_one_torn_line_is_repaired(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('{"i": 0, "te')
    assert read_records(file) == []
    append_record(file, {"i": 1})
    assert file.read_text() == '{"i": 1}\n'


@pytest.mark.parametrize("line", [1, 2, 3])
def test_a_broken_line_elsewhere_is_refused(written: Path, line: int) -> None:
    lines = written.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[line - 1] = lines[line - 1][:10] + "\n"  # whole up to its end: not what a kill leaves
    written.write_text("".join(lines), encoding="utf-8")
    with pytest.raises(DataError) as error:
        read_records(written)
    assert str(error.value) == f"{written}, line {line}: not a record. Restore the file, or delete the line."


def test_a_broken_line_in_the_middle_is_refused_though_the_last_is_torn(written: Path) -> None:
    lines = written.read_text(encoding="utf-8").splitlines(keepends=True)
    written.write_text(lines[0] + lines[1][:5] + "\n" + lines[2] + lines[0][:7], encoding="utf-8")
    with pytest.raises(DataError, match=r"table1\.jsonl, line 2: not a record"):
        read_records(written)


# --- which run a record is of -------------------------------------------------------------------------


def test_a_record_is_of_its_own_run() -> None:
    record = {**changed(), "test": {"books": 0.8}, "seconds": 3.1, "machine": {"cores": 2}}
    assert is_of(record, RUN)


@pytest.mark.parametrize(
    "other",
    [
        changed(seed=3),
        changed(seed=None),
        changed(fold=4),
        changed(system="LR"),
        changed(category="domain-specific"),
        changed(table="table2"),
        changed(config__training__seed=3),
        changed(config__training__max_epochs=31),
        changed(config__method="sp"),
        changed(config__method_settings__hidden=[1000]),
        changed(config__method_settings__hidden=[500, 1000]),
        changed(config__method_settings__adversary="nll"),
        without("fold"),
        without("seed"),
        without("config"),
    ],
)
def test_a_record_is_not_of_another_run(other: dict[str, Any]) -> None:
    assert not is_of(other, RUN)


def run_with(**settings: Any) -> dict[str, Any]:
    """The run with other settings."""
    settings = {"method": "mlp", **settings}
    settings["training"] = {"seed": 2, **settings.get("training", {})}
    return {**RUN, "config": RunSettings(**settings).complete()}


@pytest.mark.parametrize(
    ("setting", "other"),
    [
        (("config", "method_settings", "extractor"), {"method_settings": {"extractor": "cnn"}}),
        (("config", "training", "patience"), {"training": {"patience": 6}}),
        (("config", "features", "ngrams", "max_features"), {"features": {"ngrams": {"max_features": 400}}}),
        (("config", "features", "ngrams"), {"features": {"ngrams": {"max_features": 400}}}),
    ],
)
def test_a_record_from_before_a_setting_counts_as_having_its_default(
    setting: tuple[str, ...], other: dict[str, Any]
) -> None:
    assert is_of(without(*setting), RUN)
    wanted = run_with(**other)
    assert not is_of(without(*setting), wanted)
    assert is_of(wanted, wanted)


# As records named them before featurizers had sections.
NGRAMS = {"weighting": "counts", "max_features": 5000, "ngram_range": [1, 2]}
WORDS = {"max_words": 50_000, "min_count": 2, "max_length": None, "vectors": None}


def under_first_names(run: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {**run, "config": {**run["config"], "features": NGRAMS, **sections}}


def test_a_record_under_earlier_names_is_of_the_same_run() -> None:
    assert is_of(under_first_names(RUN, words=WORDS), RUN)
    assert is_of(under_first_names(RUN), RUN)  # from before there were words
    assert not is_of(under_first_names(RUN, words=WORDS, features={**NGRAMS, "max_features": 400}), RUN)
    assert not is_of(under_first_names(RUN, words=WORDS), run_with(features={"ngrams": {"max_features": 400}}))


def test_a_record_of_words_under_earlier_names_is_of_the_same_run() -> None:
    cnn = run_with(method_settings={"extractor": "cnn"})
    short = run_with(method_settings={"extractor": "cnn"}, features={"sequences": {"max_length": 400}})
    assert is_of(under_first_names(cnn, words=WORDS), cnn)
    assert is_of(under_first_names(cnn), cnn)
    assert not is_of(under_first_names(cnn), short)
    assert not is_of(under_first_names(cnn, words=WORDS), short)
    assert is_of(under_first_names(cnn, words={**WORDS, "max_length": 400}), short)
    assert not is_of(under_first_names(cnn, words={**WORDS, "max_length": 400}), cnn)


def test_a_setting_of_a_method_that_was_renamed() -> None:
    new = run_with(method="sped")
    settings = dict(new["config"]["method_settings"])
    settings["trust"] = settings.pop("pseudo_label_weight")
    old = {**new, "config": {**new["config"], "method_settings": settings}}
    assert is_of(old, new)
    settings["trust"] *= 2
    assert not is_of(json.loads(json.dumps(old)), new)


def test_settings_inside_a_setting_are_compared_as_they_are() -> None:
    def run(**base_settings: float) -> dict[str, Any]:
        settings = RunSettings(method="self-training", method_settings={"base_settings": base_settings})
        return {**RUN, "config": settings.complete()}

    assert not is_of(run(), run(C=1.0)) and not is_of(run(C=1.0), run())


@pytest.mark.parametrize("path", [("config", "method_settings", "lr"), ("config", "training", "max_epochs")])
def test_a_setting_that_was_removed_makes_a_record_stale(path: tuple[str, ...]) -> None:
    assert not is_of(RUN, without(*path))


@pytest.mark.parametrize("table", TABLES)
def test_a_record_of_each_row_is_of_its_own_run(table: str) -> None:
    for run in planned_runs(table, load_recipe(table), [], [1]):
        assert is_of(json.loads(json.dumps(run.identity())), run.identity()), run


def test_a_record_survives_the_file(file: Path) -> None:
    append_record(file, RUN)
    (record,) = read_records(file)
    assert is_of(record, RUN)


def test_runs_without_a_record_of_the_same_data() -> None:
    runs = planned_runs("table2", load_recipe("table2"), ["mlp", "fa-lr"], [1, 2])
    records = [{**run.identity(), "data": {"sha256": "same"}} for run in runs]
    assert without_record(runs, records, "same") == []
    assert without_record(runs, records, "other") == runs
    assert without_record(runs, records[1:-1], "same") == [runs[0], runs[-1]]


def test_code_hash_is_of_names_and_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multidomain.code.resources.files", lambda package: tmp_path)
    found = []
    (tmp_path / "methods").mkdir()
    for name, text in [("a.py", "x = 1"), ("a.py", "x = 2"), ("methods/a.py", "x = 1"), ("b.py", "x = 1")]:
        (tmp_path / name).write_text(text)
        found.append(code_hash.__wrapped__())
    (tmp_path / "notes.txt").write_text("not code")
    assert code_hash.__wrapped__() == found[-1]
    assert len(set(found)) == len(found)
    assert all(len(digest) == 64 for digest in found)


WRITERS = """
import os, sys, time
from pathlib import Path
from multidomain.experiments.records import append_record

file, writers = Path(sys.argv[1]), []
for who in sys.argv[2:]:
    writers.append(os.fork())  # here: importing the package three times would take longer than all the rest
    if writers[-1] == 0:
        file.with_name(who).touch()
        while not file.with_name("go").exists():
            time.sleep(0.001)
        for i in range(80):
            append_record(file, {"who": who, "i": i, "pad": "x" * (3000 + 37 * i)})
        os._exit(0)
while not all(file.with_name(who).exists() for who in sys.argv[2:]):
    time.sleep(0.001)
file.with_name("go").touch()
print([os.waitpid(writer, 0)[1] for writer in writers])
"""


def test_several_processes_can_add_records_at_once(tmp_path: Path) -> None:
    file = tmp_path / "table1.jsonl"
    command = [sys.executable, "-c", WRITERS, str(file), *"abc"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[0, 0, 0]\n", done.stderr
    assert sorted((r["who"], r["i"]) for r in read_records(file)) == [(who, i) for who in "abc" for i in range(80)]


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "table1.jsonl"
    file.write_text('{"a": 1}\n{"a": 2}')
    append_record(file, {"a": 3})
    assert read_records(file) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_a_line_torn_inside_a_character(tmp_path: Path) -> None:
    file = tmp_path / "table1.jsonl"
    file.write_bytes(b'{"a": 1}\n{"cpu": "\xc3')
    assert read_records(file) == [{"a": 1}]
    append_record(file, {"a": 2})
    assert read_records(file) == [{"a": 1}, {"a": 2}]
