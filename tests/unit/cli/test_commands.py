"""The command line as a user meets it: exit codes, messages, files."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file

FAST = ["--method", "man-nll", "--set", "hidden=16", "--set", "lr=0.01", "--max-epochs", "3", "--seed", "1"]
GOOD = [
    ["great phone works well", "good", "phones"],
    ["bad phone broke soon", "bad", "phones"],
    ["great pan cooks well", "good", "pans"],
    ["bad pan burnt soon", "bad", "pans"],
]

Run = Callable[..., tuple[int, str, str]]


def write_csv(path: Path, rows: list[list[str]], header: tuple[str, ...] = ("text", "label", "domain")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def many(rows: list[list[str]], times: int = 12) -> list[list[str]]:
    """Vary texts so that they are not equal."""
    words = [chr(ord("a") + i) * 3 for i in range(times)]
    return [[f"{text} {words[i]}", *rest] for i in range(times) for text, *rest in rows]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model, trained by the real command in a process of its own."""
    folder = tmp_path_factory.mktemp("model") / "m"
    command = [sys.executable, "-m", "multidomain", "train", "demo", "-o", str(folder), *FAST]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "mean of domains" in done.stdout
    assert "invariance: at least" in done.stdout
    assert done.stderr.count("epoch ") == 3  # plain lines, since the output is not a terminal
    return folder


def test_train_leaves_model_metrics_and_log(trained: Path) -> None:
    metrics = json.loads((trained / "metrics.json").read_text())
    assert metrics["settings"]["method_settings"]["hidden"] == [16]
    assert metrics["settings"]["training"]["seed"] == 1
    assert {d["domain"] for d in metrics["result"]["test"]["domains"]} == {"books", "kitchen", "electronics", "shoes"}
    assert metrics["machine"]["torch"]
    assert len(metrics["data"]["sha256"]) == 64
    assert len((trained / "log.jsonl").read_text().splitlines()) == 3
    assert not (trained / "checkpoint.safetensors").exists()
    assert [p.name for p in trained.iterdir() if p.name.startswith(".")] == [".lock"]


def test_same_seed_same_bits_and_resume_of_a_finished_run(trained: Path, tmp_path: Path, run: Run) -> None:
    code, _, _ = run("train", "demo", "-o", tmp_path / "again", *FAST)
    assert code == 0
    one, two = (load_file(next(folder.glob("weights-*"))) for folder in (trained, tmp_path / "again"))
    assert one.keys() == two.keys()
    assert all((one[name] == two[name]).all() for name in one)
    before = (tmp_path / "again" / "metrics.json").read_bytes()
    code, out, _ = run("train", "demo", "-o", tmp_path / "again", *FAST, "--resume")
    assert code == 0
    assert "mean of domains" in out
    assert (tmp_path / "again" / "metrics.json").read_bytes() == before


def test_train_refuses_a_folder_with_a_run(trained: Path, run: Run) -> None:
    code, _, err = run("train", "demo", "-o", trained, *FAST)
    assert code == 2
    assert "holds a run already" in err
    assert "--overwrite" in err
    code, _, err = run("train", "demo", "-o", trained, *FAST, "--resume", "--batch-size", 4)
    assert code == 2
    assert "finished run with other settings" in err


def test_evaluate_scores_only_held_out_rows(trained: Path, run: Run) -> None:
    stored = json.loads((trained / "metrics.json").read_text())["result"]["test"]
    code, out, _ = run("evaluate", trained, "demo", "--json")
    assert code == 0
    assert json.loads(out) == stored
    for score in stored["domains"]:
        assert {"shared_accuracy", "majority_accuracy", "label_shares", "predicted_shares"} < score.keys()


def test_predict_keeps_rows_and_order(trained: Path, tmp_path: Path, run: Run) -> None:
    rows = [["a wonderful book", "books", "1"], ["", "books", "2"], ["awful, truly\nawful pan", "kitchen", "3"]]
    source = write_csv(tmp_path / "in.csv", rows, ("text", "domain", "id"))
    code, _, err = run("predict", trained, source, "-o", tmp_path / "out.csv", "--probabilities")
    assert code == 0
    assert "1 row without text got no prediction" in err
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert [row["id"] for row in written] == ["1", "2", "3"]
    assert written[2]["text"] == "awful, truly\nawful pan"
    assert written[1]["prediction"] == ""
    assert written[0]["prediction"] in ("negative", "positive")
    total = float(written[0]["p(negative)"]) + float(written[0]["p(positive)"])
    assert total == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_predict_abstains_where_it_is_not_confident(suffix: str, trained: Path, tmp_path: Path, run: Run) -> None:
    texts = ["a wonderful book", "", "awful, truly awful", "it is", "superb and dreadful", "a book"]
    source = write_csv(tmp_path / "in.csv", [[text, "books"] for text in texts], ("text", "domain"))

    def predicted(*options: object) -> tuple[list[dict[str, str]], str]:
        target = tmp_path / f"out.{suffix}"
        code, _, err = run("predict", trained, source, "-o", target, *options)
        assert code == 0, err
        with target.open(newline="", encoding="utf-8") as file:
            return [*csv.DictReader(file)] if suffix == "csv" else [json.loads(line) for line in file], err

    every, err = predicted()
    assert "below a confidence" not in err
    confidence = sorted(float(row["confidence"]) for row in every if row["text"])
    threshold = confidence[2]  # rows that have exactly this confidence are predicted
    some, err = predicted("--abstain", threshold)
    assert f"2 rows (40.0%) below a confidence of {threshold:g} got no prediction" in err
    assert "1 row without text got no prediction" in err
    for before, after in zip(every, some, strict=True):
        assert after["confidence"] == before["confidence"]
        unsure = before["text"] != "" and float(before["confidence"]) < threshold
        assert after["prediction"] == (("" if suffix == "csv" else None) if unsure else before["prediction"])
    none, err = predicted("--abstain", 1)
    assert not any(row["prediction"] for row in none) and "5 rows (100.0%) below a confidence of 1 got no" in err


@pytest.mark.parametrize("value", ["-0.1", "1.5", "much"])
def test_abstain_takes_a_confidence(value: str, trained: Path, tmp_path: Path, run: Run) -> None:
    source = write_csv(tmp_path / "in.csv", [["fine"]], ("text",))
    code, _, err = run("predict", trained, source, f"--abstain={value}")
    assert code == 2 and "Invalid value for '--abstain'" in err


def test_train_with_a_metric_and_weights(tmp_path: Path, run: Run) -> None:
    rows = [[*row, "5" if row[1] == "good" else "1"] for row in many(GOOD)]
    source = write_csv(
        tmp_path / "data.csv", [*rows, ["another pan", "", "pans", ""]], ("text", "label", "domain", "w")
    )
    options = ["--method", "lr", "--metric", "macro-f1", "--class-weight", "bad=2, good=0.5", "--weight-column", "w"]
    code, out, err = run("train", source, "-o", tmp_path / "m", *options)
    assert code == 0, err
    assert "weight 'w'" in out
    recorded = json.loads((tmp_path / "m" / "metrics.json").read_text())
    weights = {"bad": 2.0, "good": 0.5}
    assert recorded["settings"]["objective"] == {"metric": "macro-f1", "class_weight": weights, "compact": None}
    plain = json.loads((tmp_path / "m" / "log.jsonl").read_text().splitlines()[0])
    assert plain.keys() == {"tried", "dev_score"}
    code, _, err = run("train", "--config", tmp_path / "m" / "train.toml", "-o", tmp_path / "again")
    assert code == 0, err
    names = [[path.name for path in (tmp_path / folder).glob("weights-*")] for folder in ("m", "again")]
    assert names[0] == names[1], "the settings file repeats the run"
    code, _, err = run("train", source, "-o", tmp_path / "m", "--resume", *options[:4], "--weight-column", "w")
    assert code == 2 and "holds a finished run with other settings" in err
    code, _, err = run("train", source, "-o", tmp_path / "m", "--resume", *options[:6])
    assert code == 2 and "holds a finished run with other data" in err


def test_predict_to_standard_output_and_json_lines(trained: Path, tmp_path: Path, run: Run) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a superb novel", "n": 1}\n{"text": "rubbish", "n": 2}\n', encoding="utf-8")
    code, out, err = run("predict", trained, source, "--domain", "books")
    assert code == 0
    assert out.splitlines()[0] == "text,n,prediction,confidence"
    assert len(out.splitlines()) == 3
    assert "warning: Domain" not in err
    code, _, _ = run("predict", trained, source, "-o", tmp_path / "out.jsonl")
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["n"] for row in written] == [1, 2]


def test_predict_says_what_it_does_with_unknown_domains(trained: Path, tmp_path: Path, run: Run) -> None:
    source = write_csv(tmp_path / "in.csv", [["nice", "wine"], ["nice", "Books "]], ("text", "domain"))
    code, _, err = run("predict", trained, source)
    assert code == 0
    assert "Domain 'wine' was not in training" in err
    assert "'Books ' is taken for 'books'" in err
    code, _, err = run("predict", trained, source, "--unknown-domain", "error")
    assert code == 2
    assert "Domain 'wine' was not in training" in err


def test_inspect_and_lists(trained: Path, run: Run) -> None:
    code, out, _ = run("inspect", trained)
    assert code == 0
    assert "man-nll" in out
    assert "books, kitchen, electronics, shoes" in out
    code, out, _ = run("inspect", "demo")
    assert "1,200 rows" in out
    code, out, _ = run("methods", "--json")
    assert {entry["name"] for entry in json.loads(out)} >= {"man-nll", "man-l2", "sp", "mlp"}
    code, out, _ = run("corpora")
    assert "fdu-mtl" in out


def totals(out: str) -> list[int]:
    """Rows of train, dev, test and unlabelled text, as the table of the split has them."""
    line = next(line for line in out.splitlines() if line.startswith("│ all"))
    return [int(cell) for cell in line.strip("│").split("│")[1:]]


def test_given_files_are_the_split(tmp_path: Path, run: Run) -> None:
    train = write_csv(tmp_path / "train.csv", many(GOOD))
    dev = write_csv(tmp_path / "dev.csv", many(GOOD, 2))
    test = write_csv(tmp_path / "test.csv", [["great phone works well aaa", "good", "phones"]])
    text = write_csv(tmp_path / "text.csv", [["the new pan", "", "pans"]])
    parts = ("--dev", dev, "--test", test, "--text-only", text)
    code, out, _ = run("train", train, *parts, "-o", tmp_path / "m", *FAST)
    assert code == 0
    assert totals(out) == [48, 8, 1, 1]
    assert "1 of 1 test texts are duplicates of training or unlabelled text" in out


def test_one_domain_trains_and_says_so(tmp_path: Path, run: Run) -> None:
    source = write_csv(tmp_path / "one.csv", [row[:2] for row in many(GOOD)], ("text", "label"))
    code, out, err = run("train", source, "-o", tmp_path / "m", *FAST)
    assert code == 0
    assert "nothing to adapt" in err
    assert "mean of domains" in out


def test_a_domain_with_one_class_trains_and_says_so(tmp_path: Path, run: Run) -> None:
    rows = [row for row in many(GOOD) if row[1:] != ["bad", "pans"]]
    code, _, err = run("train", write_csv(tmp_path / "a.csv", rows), "-o", tmp_path / "m", *FAST)
    assert code == 0
    assert "All labelled training rows of the domain 'pans' have the class 'good'" in err


def bad_inputs() -> list[tuple[str, bytes, list[str], str]]:
    def table(rows: list[list[str]]) -> bytes:
        return "\n".join(",".join(row) for row in [["text", "label", "domain"], *rows]).encode()

    rows = many(GOOD)
    return [
        ("empty", b"", [], "data.csv is empty"),
        ("header only", b"text,label,domain\n", [], "no rows"),
        ("missing column", b"a,b\n1,2\n", [], "no column that looks like the text"),
        ("unknown column", table(rows), ["--text-column", "txt"], "has no column 'txt'"),
        ("no labels", table([[r[0], "", r[2]] for r in rows]), [], "No row to train on has a label"),
        (
            "one class",
            table([[r[0], "good", r[2]] for r in rows]),
            [],
            "All labelled training rows have the class 'good'",
        ),
        ("bytes", table(rows) + b"\ncaf\xe9,good,pans", [], "data.csv, row 50, column 'text': byte 0xe9 is not utf-8"),
        ("missing text", table([*rows, ["", "good", "pans"]]), [], "no text"),
        ("domain spelling", table([*rows, ["fine", "good", "Pans"]]), [], "differ only by case or blanks"),
        ("ragged", table(rows) + b"\na,b,c,d", [], "row 50"),
        ("unknown domain", table(rows), ["--unlabelled", "pan"], "Did you mean 'pans'?"),
        ("unknown method", table(rows), ["--method", "man-nl"], "Did you mean 'man-nll'?"),
        ("bad setting", table(rows), ["--set", "lamb=1", "--set", "k=0"], "Did you mean 'lam'?"),
        ("fold", table(rows), ["--fold", "7"], "expected a number from 0 to 4"),
        ("unknown metric", table(rows), ["--metric", "f1"], "Invalid value for '--metric'"),
        (
            "unknown class",
            table(rows),
            ["--class-weight", "goood=2"],
            "class_weight names 'goood', which is no class of 'data'. Did you mean 'good'?",
        ),
        (
            "class weight",
            table(rows),
            ["--class-weight", "good=-1"],
            "expected balanced, or CLASS=WEIGHT,... with finite weights above 0, got 'good=-1'",
        ),
        (
            "weight",
            b"w," + table(rows[:3]).replace(b"\n", b"\n1,") + b"\n-2,bad thing,bad,pans",
            ["--weight-column", "w"],
            "data.csv, row 5: the weight is '-2'. Expected a finite number that is not negative.",
        ),
        ("weight column", table(rows), ["--weight-column", "w"], "has no column 'w' (asked for as the weight)"),
    ]


@pytest.mark.parametrize(
    ("content", "options", "message"), [b[1:] for b in bad_inputs()], ids=[b[0] for b in bad_inputs()]
)
def test_bad_input(content: bytes, options: list[str], message: str, tmp_path: Path, run: Run) -> None:
    source = tmp_path / "data.csv"
    source.write_bytes(content)
    code, _, err = run("train", source, "-o", tmp_path / "m", *FAST, *options)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "m" / "model.json").exists()


def test_every_fault_of_the_settings_is_reported_at_once(run: Run, tmp_path: Path) -> None:
    _, _, err = run("train", "demo", "-o", tmp_path, *FAST, "--set", "lamb=1", "--set", "k=0", "--set", "dropout=2")
    assert all(name in err for name in ("'lamb'", "'k'", "'dropout'"))


def test_a_label_in_test_only(tmp_path: Path, run: Run) -> None:
    train = write_csv(tmp_path / "train.csv", many(GOOD))
    test = write_csv(tmp_path / "test.csv", [["so so", "neutral", "pans"]])
    code, _, err = run("train", train, "--test", test, "-o", tmp_path / "m", *FAST)
    assert code == 2
    assert "The class 'neutral' is in the test part and in no labelled training row (test.csv, row 2)" in err


def test_negative_counts(tmp_path: Path, run: Run) -> None:
    for name in ("books", "pans"):
        (tmp_path / f"{name}.svmlight").write_text("".join(f"{i % 2} 0:1 {i}:-2\n" for i in range(1, 30)))
    code, _, err = run("train", tmp_path, "-o", tmp_path / "m", *FAST)
    assert code == 2
    assert "expects counts of 0 or more" in err


def test_vectors_of_another_vocabulary(tmp_path: Path, run: Run) -> None:
    for width, folder in ((30, tmp_path / "wide"), (20, tmp_path / "narrow")):
        folder.mkdir()
        for name in ("books", "pans"):
            (folder / f"{name}.svmlight").write_text("".join(f"{i % 2} 0:1 {i}:2\n" for i in range(1, width)))
    code, _, err = run("train", tmp_path / "wide", "-o", tmp_path / "m", *FAST)
    assert code == 0, err
    code, _, err = run("evaluate", tmp_path / "m", tmp_path / "narrow")
    assert code == 2
    assert "The model expects 30 columns, got 20: the vocabulary does not match" in err


def test_damaged_model(trained: Path, tmp_path: Path, run: Run) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in trained.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    weights = next(broken.glob("weights-*"))
    weights.write_bytes(weights.read_bytes()[:-100])
    code, _, err = run("inspect", broken)
    assert code == 2
    assert "is cut short or was altered" in err


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/bin/mount").exists(), reason="needs root to mount a tiny disk")
def test_a_full_disk_loses_nothing(trained: Path, tmp_path: Path, run: Run) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", disk], check=False).returncode:
        pytest.skip("mount is not allowed here")
    try:
        code, _, err = run("train", "demo", "-o", disk / "m", *FAST)
        assert code == 0, err
        kept = {p.name: p.read_bytes() for p in (disk / "m").iterdir()}
        (disk / "filler").write_bytes(bytes(400_000))
        code, _, err = run("train", "demo", "-o", disk / "m", *FAST, "--set", "hidden=400", "--overwrite")
        assert code == 2
        assert "No space left on the disk while writing" in err
        code, _, err = run("inspect", disk / "m")
        assert code == 0, err
        assert kept["model.json"] == (disk / "m" / "model.json").read_bytes()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_bench_writes_a_record(tmp_path: Path, run: Run) -> None:
    output = tmp_path / "bench.jsonl"
    code, out, err = run(
        "bench", "train", "--domains", "2", "--repeats", "2", "--private-hidden", "8", "--no-textbook", "-o", output
    )
    assert code == 0, err
    assert "2 domains:" in out
    record = json.loads(output.read_text())
    assert len(record["engine_seconds"]) == 2
    assert record["machine"]["threads"] == 1
    assert record["settings"]["private_hidden"] == [8]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_bench_large_trains_and_predicts(tmp_path: Path, run: Run) -> None:
    output = tmp_path / "bench.jsonl"
    code, out, err = run("bench", "large", "--rows", "400", "--domains", "2", "-o", output)
    assert code == 0, err
    assert "400 rows of 15 words, 2 domains" in out
    record = json.loads(output.read_text())
    assert 0.3 < record["accuracy"] <= 1
    for step in ("train", "predict"):
        cost = record[step]
        assert cost["cpu_seconds"] > 0.1 and 20 < cost["peak_own_mb"] < cost["peak_mb"]


def test_given_dev_rows_are_kept_and_only_test_is_cut(tmp_path: Path, run: Run) -> None:
    train, dev = write_csv(tmp_path / "train.csv", many(GOOD, 20)), write_csv(tmp_path / "dev.csv", many(GOOD, 3))
    code, out, _ = run("train", train, "--dev", dev, "-o", tmp_path / "m", *FAST)
    assert code == 0
    assert "given, of train 20% as test cut off" in out
    assert totals(out)[1] == 12
    code, _, err = run("train", train, "--test", dev, "--fold", 0, "-o", tmp_path / "m2", *FAST)
    assert code == 2
    assert "which folds would train on" in err


def test_evaluate_leaves_out_what_training_has_seen(tmp_path: Path, run: Run) -> None:
    rows = many(GOOD, 20)
    train, test = write_csv(tmp_path / "train.csv", rows), write_csv(tmp_path / "test.csv", many(GOOD, 2))
    run("train", train, "--test", test, "-o", tmp_path / "m", *FAST)
    code, _, err = run("evaluate", tmp_path / "m", train)
    assert code == 2, "every row of the training file was seen"
    more = write_csv(tmp_path / "more.csv", [*rows, ["a new pan, well made", "good", "pans"]])
    code, out, err = run("evaluate", tmp_path / "m", more, "--json")
    assert code == 0
    assert "80 rows dropped, because training has seen the text" in err
    assert json.loads(out)["domains"][0]["rows"] == 1


def test_predict_without_domains_after_training_without_domains(tmp_path: Path, run: Run) -> None:
    source = write_csv(tmp_path / "one.csv", [row[:2] for row in many(GOOD)], ("text", "label"))
    run("train", source, "-o", tmp_path / "m", *FAST)
    code, plain, err = run("predict", tmp_path / "m", source, "--unknown-domain", "error")
    assert code == 0, err
    _, named, _ = run("predict", tmp_path / "m", source, "--domain", "all")
    assert plain == named


def test_predict_finds_the_domain_and_needs_no_label(tmp_path: Path, run: Run) -> None:
    """A column that could be a label or a domain is the domain, since predicting needs no label."""
    train = write_csv(tmp_path / "t.csv", many(GOOD), ("text", "sentiment", "category"))
    run("train", train, "-o", tmp_path / "m", *FAST)
    new = write_csv(tmp_path / "new.csv", [["a pan", "pans"]], ("text", "category"))
    code, _, err = run("predict", tmp_path / "m", new, "--unknown-domain", "error")
    assert code == 0, err


def test_domains_that_are_numbers(tmp_path: Path, run: Run) -> None:
    lines = [{"text": text, "label": label, "domain": int(domain == "pans")} for text, label, domain in many(GOOD)]
    source = tmp_path / "n.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("train", source, "-o", tmp_path / "m", *FAST)
    code, _, err = run("predict", tmp_path / "m", source, "-o", tmp_path / "out.ndjson", "--unknown-domain", "error")
    assert code == 0, err


def test_names_with_brackets(tmp_path: Path, run: Run) -> None:
    rows = [[text, label, f"[/{domain}]"] for text, label, domain in many(GOOD)]
    source = write_csv(tmp_path / "a.csv", rows)
    code, out, err = run("train", source, "-o", tmp_path / "m", *FAST)
    assert code == 0, err
    assert "[/pans]" in out


def test_a_failed_overwrite_leaves_the_old_run_as_it_was(trained: Path, run: Run) -> None:
    before = {path.name: path.read_bytes() for path in trained.iterdir()}
    everything = [part for name in ("books", "kitchen", "electronics", "shoes") for part in ("--unlabelled", name)]
    code, _, err = run("train", "demo", "-o", trained, *FAST, *everything, "--overwrite")
    assert code == 2
    assert "No row to train on has a label" in err
    assert {path.name: path.read_bytes() for path in trained.iterdir()} == before


def test_resume_does_not_replace_a_model_that_is_no_run(trained: Path, tmp_path: Path, run: Run) -> None:
    for path in trained.glob("*-*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.json").write_bytes((trained / "model.json").read_bytes())
    code, _, err = run("train", "demo", "-o", tmp_path, *FAST, "--resume")
    assert code == 2
    assert "no run to resume" in err


@pytest.mark.parametrize("options", [["--threads", "0"], ["--fold", "-1"], ["--seed", str(2**40)]])
def test_numbers_out_of_range(options: list[str], tmp_path: Path, run: Run) -> None:
    code, _, err = run("train", "demo", "-o", tmp_path / "m", *options)
    assert code == 2
    assert "Traceback" not in err


def test_evaluate_shows_the_prior_of_a_domain_without_labels_beside_its_labels(tmp_path: Path, run: Run) -> None:
    code, _, _ = run("train", "demo", "--unlabelled", "shoes", "-o", tmp_path / "m")
    assert code == 0
    code, out, _ = run("evaluate", tmp_path / "m", "demo", "--json")
    shoes = next(score for score in json.loads(out)["domains"] if score["domain"] == "shoes")
    assert shoes["label_shares"] == {"negative": 0.5, "positive": 0.5} and "lr_accuracy" in shoes
    code, out, _ = run("evaluate", tmp_path / "m", "demo")
    assert code == 0 and "plain LR" in out
    line = next(line for line in out.splitlines() if "shoes" in line and "negative" in line)
    assert f"{shoes['predicted_shares']['negative']:.0%}" in line and "50%" in line and " to " in line
    other = tmp_path / "books.csv"
    other.write_text("text,label,domain\na lovely tale indeed,positive,books\n", encoding="utf-8")
    code, out, _ = run("evaluate", tmp_path / "m", other)
    assert code == 0 and "plain LR" not in out and "shoes" not in out
