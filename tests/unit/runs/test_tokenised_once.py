"""However many methods, folds and sections of a report read a document, it is tokenised once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from multidomain.data.named.registry import load_corpus
from multidomain.features import tokens

Run = Callable[..., tuple[int, str, str]]
SMALL = ("--set", "hidden=8", "--set", "shared_size=6", "--set", "private_size=4", "--max-epochs", "2")
WORDS = ("--set", "filters=4", "--set", "dimension=6", "--set", "shared_size=6", "--set", "private_size=4")


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counted: Counter[str] = Counter()
    normalise = tokens.normalise

    def counting(text: str) -> str:
        counted[text] += 1
        return normalise(text)

    monkeypatch.setattr(tokens, "normalise", counting)
    return counted


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word vectors are trained here, and not found."""
    monkeypatch.setenv("MULTIDOMAIN_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "sped"),
        ("--method", "man-nll", *SMALL),
        ("--method", "sp", "--extractor", "cnn", *WORDS, "--max-epochs", "1", "--min-count", "1"),
        ("--method", "ensemble", "--set", "members=fa-lr,sped,lr"),
        ("--method", "auto", "--methods", "lr,fa-lr"),
    ],
    ids=lambda options: options[1],
)
def test_train(
    options: tuple[str, ...], counts: Counter[str], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MULTIDOMAIN_CACHE", str(tmp_path / "cache"))
    corpus = load_corpus("demo").thinned(30)
    path = tmp_path / "reviews.csv"
    lines = [f'"{t}",{c},{d}' for t, c, d in zip(corpus.documents, corpus.labels, corpus.domains, strict=True)]
    path.write_text("\n".join(["text,label,domain", *lines]) + "\n", encoding="utf-8")
    code, _, err = run("train", path, "-o", tmp_path / "m", "--unlabelled", "shoes", *options)
    assert code == 0, err
    texts = Counter(corpus.documents)
    assert counts == texts, "each text as often as it stands in the file"
