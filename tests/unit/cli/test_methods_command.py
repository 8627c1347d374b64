"""Methods and extractors on the command line: what they print, and options that do not go together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from multidomain.features.word_vectors import read_vectors

Run = Callable[..., tuple[int, str, str]]

MAN = ["--method", "man-nll"]


def test_a_method_that_is_fitted_at_once(tmp_path: Path, run: Run) -> None:
    code, out, err = run("train", "demo", "--method", "fa-lr", "--unlabelled", "shoes", "-o", tmp_path / "model")
    assert code == 0 and "chosen: {'C': " in out and "tried C 1: dev " in err
    log = [json.loads(line) for line in (tmp_path / "model" / "log.jsonl").read_text().splitlines()]
    assert log[0]["tried"] == {"C": 0.001} and 0 <= log[0]["dev_accuracy"] <= 1
    best = max(log, key=lambda line: line["dev_accuracy"])
    assert json.loads((tmp_path / "model" / "metrics.json").read_text())["result"]["chosen"] == best["tried"]
    again, out, _ = run(
        "train", "demo", "--method", "fa-lr", "--unlabelled", "shoes", "-o", tmp_path / "model", "--resume"
    )
    assert again == 0 and "chosen: {'C': " in out


def test_self_training_takes_settings_of_its_base(tmp_path: Path, run: Run) -> None:
    options = ["--set", "base=svm", "--set", "base_settings.C=0.5", "--unlabelled", "shoes", "-o", tmp_path / "model"]
    code, out, _ = run("train", "demo", "--method", "self-training", *options)
    assert code == 0 and "chosen: {'C': 0.5}" in out


def test_a_network_that_reads_words(tmp_path: Path, run: Run) -> None:
    small = ["--set", "filters=8", "--set", "dimension=10", "--set", "k=1", "--max-epochs", "1"]
    words = ["--extractor", "cnn", "--vectors", "random"]
    code, out, _ = run("train", "demo", *MAN, *words, *small, "-o", tmp_path / "model")
    assert code == 0 and "kept epoch 1 of 1" in out
    code, out, _ = run("inspect", tmp_path / "model")
    assert code == 0 and "token sequences" in out


def test_vectors_of_a_corpus(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("gensim")
    code, out, _ = run("vectors", "demo", "-o", tmp_path / "v.bin", "--dimension", "7")
    assert code == 0 and "7 numbers each" in out and "split: held out 20% test" in out
    assert read_vectors(tmp_path / "v.bin").dimension == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--vectors", "random"],
            "'vectors' has no effect: 'sped' reads ngrams with these settings. Leave out --vectors.",
        ),
        (
            [*MAN, "--extractor", "cnn", "--weighting", "tfidf"],
            "'weighting' has no effect: 'man-nll' reads sequences with these settings. Leave out --weighting.",
        ),
        ([*MAN, "--extractor", "cnn", "--set", "hidden=9"], "'hidden' has no effect with extractor 'cnn'"),
        ([*MAN, "--set", "filters=9"], "'filters' has no effect with extractor 'mlp'"),
        (
            [*MAN, "--extractor", "gru"],
            "'extractor': there is no extractor 'gru'. Valid: 'bilstm', 'bilstm-attention', 'cnn', 'encoder', …",
        ),
        (["--set", "lam=1", "--set", "lam.x=2"], "--set gives 'lam' both a value and parts"),
        (
            ["--method", "fa-lr", "--extractor", "cnn"],
            "'extractor' is a setting of 'asp-mtl', … more, not of 'fa-lr'.",
        ),
        (["--method", "self-training"], "learns from unlabelled text, and there is none"),
        (["--method", "self-training", "--set", "base=mlp"], "needs a base method that does not learn in epochs"),
        (["--method", "lr", "--set", "category=domain-specific", "--unlabelled", "shoes"], "and 'shoes' has none"),
    ],
)
def test_what_does_not_go_together(options: list[str], message: str, tmp_path: Path, run: Run) -> None:
    code, _, err = run("train", "demo", *options, "-o", tmp_path / "model")
    assert code == 2 and "Traceback" not in err
    assert all(part in err for part in message.split("…"))
    assert not (tmp_path / "model" / "model.json").exists()


def test_methods_say_what_they_need_and_where_they_stand(run: Run) -> None:
    code, out, _ = run("methods", "--json")
    entries = {entry["name"]: entry for entry in json.loads(out)}
    assert code == 0
    assert entries["lr"]["rows"][:3] == ["table1 domain-specific/LR", "table1 shared/LR", "table2 shared/LR"]
    assert entries["lr"]["labels"] == "in at least one domain (in every domain if category=domain-specific)"
    assert entries["cmsc-lr"]["words"].startswith("for a lexicon") and entries["cmsc-lr"]["uses_unlabelled_text"]
    assert run("methods")[0] == 0
