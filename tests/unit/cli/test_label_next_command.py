"""The command ``multidomain label-next``, and training again with what was filled in."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from multidomain.data.named.registry import load_corpus
from multidomain.model.model import Model
from multidomain.runs.folder import RunFolder

Run = Callable[..., tuple[int, str, str]]
Row = dict[str, str]

DEMO = load_corpus("demo").thinned(30)
TRUE = dict(zip(DEMO.documents, DEMO.labels, strict=True))
LR = ["--method", "fa-lr", "--set", "C=1"]


def write(path: Path, rows: list[list[str]], header: tuple[str, ...] = ("text", "label", "domain")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def read(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def fill(path: Path, how_many: int) -> None:
    """Label the first rows of a table, as a person would."""
    rows = read(path)
    for row in rows[:how_many]:
        row["label"] = TRUE[row["text"]]
    write(path, [list(row.values()) for row in rows], tuple(rows[0]))


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Shoes have no labels, and six of the books' are missing."""
    rows = [
        [text, label, domain] for text, label, domain in zip(DEMO.documents, DEMO.labels, DEMO.domains, strict=True)
    ]
    books = [row for row in rows if row[2] == "books"]
    for row in [*books[:6], *(row for row in rows if row[2] == "shoes")]:
        row[1] = ""
    return write(tmp_path / "reviews.csv", rows)


@pytest.fixture
def trained(reviews: Path, tmp_path: Path, run: Run) -> Path:
    code, _, err = run("train", reviews, "-o", tmp_path / "m", *LR)
    assert code == 0, err
    return tmp_path / "m"


def test_rows_to_label_are_written_best_first(trained: Path, reviews: Path, tmp_path: Path, run: Run):
    code, out, err = run("label-next", trained, reviews, "-n", 10, "-o", tmp_path / "to-label.csv")
    assert code == 0, err
    rows = read(tmp_path / "to-label.csv")
    assert list(rows[0]) == ["text", "label", "domain", "prediction", "confidence", "row"]
    assert len(rows) == 10 and {row["label"] for row in rows} == {""}
    lines = [["", "", ""], ["text", "label", "domain"], *csv.reader(reviews.open(encoding="utf-8"))][1:]
    for row in rows:
        assert lines[int(row["row"])][0] == row["text"] and lines[int(row["row"])][2] == row["domain"]
        assert lines[int(row["row"])][1] == ""
    model = Model.load(trained)
    p = model.predict_proba([row["text"] for row in rows], [row["domain"] for row in rows])
    assert [row["prediction"] for row in rows] == [model.classes[k] for k in p.argmax(axis=1)]
    assert [float(row["confidence"]) for row in rows] == pytest.approx(p.max(axis=1).tolist(), abs=1e-5)
    shoes = [line for line in out.splitlines() if "shoes" in line and "│" in line]
    assert len(shoes) == 1 and " none " in shoes[0] and f" {sum(r['domain'] == 'shoes' for r in rows)} │" in shoes[0]
    books = next(line for line in out.splitlines() if "books" in line and "│" in line)
    assert " 54 " in books, "the labels that training had"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_filled_in_table_is_trained_on_by_the_command_that_is_printed(
    trained: Path, reviews: Path, tmp_path: Path, run: Run
):
    table = tmp_path / "to-label.csv"
    _, out, _ = run("label-next", trained, reviews, "-n", 20, "-o", table, "--domain", "shoes")
    assert {row["domain"] for row in read(table)} == {"shoes"}
    fill(table, 14)
    printed = next(line for line in out.replace("\n", " ").split("next: ")[1:])
    code, _, err = run(*shlex.split(printed)[1:])
    assert code == 0, err
    again = tmp_path / "m-2"
    assert "shoes" in Model.load(again).labelled_domains and "shoes" not in Model.load(trained).labelled_domains
    metrics = json.loads((again / "metrics.json").read_text())
    assert metrics["summary"]["domains"]["shoes"]["labelled"] == 14
    assert metrics["data"]["rows"] == len(DEMO), "all texts were in the data"
    assert "shoes" not in {d["domain"] for d in metrics["result"]["test"]["domains"]}, "picked rows are not scored"
    code, out, _ = run("evaluate", again, reviews, "--labels", table, "--json")
    assert code == 0 and json.loads(out)["accuracy"] == RunFolder(again).test_scores()["accuracy"]


def test_the_second_round_asks_for_other_rows_and_keeps_the_first(
    trained: Path, reviews: Path, tmp_path: Path, run: Run
):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    run("label-next", trained, reviews, "-n", 12, "-o", first, "--domain", "shoes")
    fill(first, 10)
    code, _, err = run("train", reviews, "--labels", first, "-o", tmp_path / "m-2", *LR)
    assert code == 0, err
    _, out, _ = run("label-next", tmp_path / "m-2", reviews, "-n", 12, "-o", second, "--domain", "shoes")
    labelled = {row["text"] for row in read(first) if row["label"]}
    assert not labelled & {row["text"] for row in read(second)}
    fill(second, 12)
    code, _, err = run(*shlex.split(out.replace("\n", " ").split("next: ")[1])[1:])
    assert code == 0, err
    metrics = json.loads((tmp_path / "m-3" / "metrics.json").read_text())
    assert metrics["summary"]["domains"]["shoes"]["labelled"] == 22


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
def test_other_formats_come_back_too(suffix: str, trained: Path, reviews: Path, tmp_path: Path, run: Run):
    table = tmp_path / f"to-label{suffix}"
    code, _, err = run("label-next", trained, reviews, "-n", 4, "-o", table)
    assert code == 0, err
    content = table.read_text(encoding="utf-8")
    if suffix == ".jsonl":
        rows = [json.loads(line) for line in content.splitlines()]
        assert [row["label"] for row in rows] == [None] * 4
        filled = [json.dumps({**row, "label": TRUE[row["text"]]}) for row in rows]
    else:
        filled = [line.replace("\t\t", "\tpositive\t", 1) for line in content.splitlines()]
    table.write_text("\n".join(filled) + "\n", encoding="utf-8")
    code, out, err = run("train", reviews, "--labels", table, "-o", tmp_path / "x", "--dry-run")
    assert code == 0, err
    total = sum(int(line.split("│")[3]) for line in out.split("split")[0].splitlines() if line.startswith("│"))
    assert total == 180 - 6 + 4


def test_a_file_of_its_own_with_empty_and_double_rows(trained: Path, tmp_path: Path, run: Run):
    rows = [["a pan", "pans"], ["", "books"], ["A pan!", "pans"], ["a dull novel", "books"], ["  ", "pans"]]
    file = write(tmp_path / "new.csv", rows, ("body", "shop"))
    options = ["--text-column", "body", "--domain-column", "shop", "-o", tmp_path / "l.csv"]
    code, _, err = run("label-next", trained, file, *options)
    assert code == 0, err
    assert sorted((row["text"], row["row"]) for row in read(tmp_path / "l.csv")) == [
        ("a dull novel", "5"),
        ("a pan", "2"),
    ]
    assert "warning: only 2 rows without a label to choose from" in err
    assert "Domain 'pans' was not in training" in err


def test_a_file_without_domains_needs_one(trained: Path, tmp_path: Path, run: Run):
    file = write(tmp_path / "new.csv", [["a pan"], ["a pot"]], ("text",))
    code, _, err = run("label-next", trained, file, "-o", tmp_path / "l.csv")
    assert code == 2
    assert "new.csv has no column that looks like the domain" in err and "--domain DOMAIN" in err
    code, _, _ = run("label-next", trained, file, "-o", tmp_path / "l.csv", "--domain", "kitchen")
    assert code == 0
    assert {row["domain"] for row in read(tmp_path / "l.csv")} == {"kitchen"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "to-label.xlsx"], "Cannot write 'to-label.xlsx': its name must end in '.csv'"),
        (["--domain", "shoos"], "has no domain 'shoos'. Did you mean 'shoes'?"),
        (["--domain", "kitchen"], "has no row of the domain 'kitchen' to label"),
        (["--text-column", "words"], "reviews.csv has no column 'words' (asked for as the text)"),
    ],
)
def test_what_cannot_be_done_is_said(options: list[str], message: str, trained: Path, reviews: Path, run: Run):
    table = reviews.with_name("to-label.csv")
    code, _, err = run("label-next", trained, reviews, *(["-o", table] if "-o" not in options else []), *options)
    assert code == 2
    assert message in err
    assert not table.exists()
