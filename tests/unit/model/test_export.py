"""Exported models give the package's own predictions, in ONNX Runtime."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multidomain import MultiDomainClassifier
from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import CORPORA, load_corpus
from multidomain.data.splits import default_split
from multidomain.errors import ConfigError, FetchError
from multidomain.features.tokens import tokenise
from multidomain.methods.registry import METHODS
from multidomain.model import export as exporting
from multidomain.model.export import export
from multidomain.model.model import Model
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

Run = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[3]
DEMO = load_corpus("demo")
ODD_TEXTS = ["", "?!", "zzz qqq", "ＦＩＮＥ ﬁlm's 東京", "&amp;quot;cannot&amp;quot;", "a pan " * 300]


def code_of_the_page(file: Path) -> dict[str, Any]:
    """Return the functions that the documentation gives to programs without this package."""
    page = (ROOT / "docs" / "onnx.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1].split("session = ")[0]
    names: dict[str, Any] = {}
    exec(code.replace('"model.tokens.json"', repr(str(file))), names)
    return names


def answers(path: Path, texts: Sequence[str], domains: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and probabilities as a program has them that knows only the exported files."""
    names = code_of_the_page(path.with_suffix(".tokens.json"))
    session = onnxruntime.InferenceSession(path)
    parts = []
    for first in range(0, len(texts), 16):
        tokens = names["padded"]([names["tokens_of"](text) for text in texts[first : first + 16]])
        inputs = {"tokens": tokens, "domain": np.array(domains[first : first + 16], dtype=object)}
        parts.append(session.run(["label", "probabilities"], inputs))
    labels, probabilities = (np.concatenate(part) for part in zip(*parts, strict=True))
    return labels, probabilities


def check_equal(model: Model, path: Path, texts: Sequence[str], domains: Sequence[str]) -> None:
    export(model, path)
    labels, probabilities = answers(path, texts, domains)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # domains that were not in training
        wanted = model.predict_proba(list(texts), list(domains))
    assert np.abs(probabilities - wanted).max() < 2e-6
    assert (labels == np.array(model.classes).astype(str)[wanted.argmax(axis=1)]).all()
    assert len(set(labels)) == len(model.classes)


def trained(corpus: Corpus, method: str, features: dict | None = None, **settings: object) -> Model:
    run = RunSettings(method=method, method_settings=settings, features={"ngrams": features or {}})
    return train_model(corpus, default_split(corpus), run).model


@pytest.mark.parametrize(
    ("method", "features", "settings"),
    [
        ("lr", {"ngram_range": (2, 3)}, {"C": 1.0}),
        ("fa-svm", {"weighting": "counts"}, {"C": 0.1}),
        ("cmsc-ls", {"max_features": 200}, {"ridge": 0.01, "beta": 0.01}),
        ("sped", {}, {"C": 1.0, "denoised_length": 0.0}),
        ("sped", {}, {"C": 1.0, "denoised_length": 0.7, "denoised": 20}),
    ],
)
def test_predictions_are_the_same(tmp_path: Path, method: str, features: dict, settings: dict):
    model = trained(DEMO, method, features, **settings)
    texts, domains = [*DEMO.documents, *ODD_TEXTS], list(DEMO.domains) + ["books"] * len(ODD_TEXTS)
    domains[::9] = ["elsewhere"] * len(domains[::9])
    check_equal(model, tmp_path / "model.onnx", texts, domains)


def test_words_without_evidence_are_no_words(tmp_path: Path):
    """With evidence alone, words that occur in unlabelled text only have the weight 0."""
    kinds = {"good": "fine fair neat", "bad": "poor weak dull"}
    texts = [f"{word} pan" for words in kinds.values() for word in words.split()] * 8
    labels = [label for label, words in kinds.items() for _ in words.split()] * 8
    strange = ["zebra yak"] * 5
    model = MultiDomainClassifier("sped", method_settings={"C": 1.0, "evidence": 1.0, "denoised": 0}, random_state=0)
    model.fit([*texts, *strange], [*labels, *[None] * 5])
    check_equal(model.model_, tmp_path / "model.onnx", [*texts, *strange], ["all"] * (len(texts) + 5))


def test_predictions_of_three_classes_and_of_one_domain_are_the_same(tmp_path: Path):
    texts = [f"{word} pan {i % 7}" for i in range(120) for word in ("fine", "poor", "usual")]
    for method, settings in (("sped", {"C": 1.0}), ("lr", {"C": 1.0})):
        model = MultiDomainClassifier(method, method_settings=settings, random_state=0).fit(texts, [2, 0, 1] * 120)
        export(model.model_, tmp_path / "model.onnx")
        labels, probabilities = answers(tmp_path / "model.onnx", texts, [""] * len(texts))
        assert np.abs(probabilities - model.model_.predict_proba(texts)).max() < 2e-6
        assert labels.tolist() == [str(label) for label in model.predict(texts)]


def test_a_model_without_shared_weights_has_no_label_for_other_domains(tmp_path: Path):
    model = trained(DEMO, "lr", C=1.0, category="domain-specific")
    texts, domains = list(DEMO.documents), list(DEMO.domains)
    check_equal(model, tmp_path / "model.onnx", texts, domains)
    labels, probabilities = answers(tmp_path / "model.onnx", ["a fine book"] * 2, ["books", "elsewhere"])
    assert labels[0] and not labels[1]
    assert np.isnan(probabilities).tolist() == [[False] * 2, [True] * 2]


def test_predictions_on_a_real_corpus_are_the_same_compact_or_not(tmp_path: Path):
    try:
        CORPORA["vader"].fetch(lambda file, size: None)
    except FetchError as error:
        pytest.skip(f"the corpus 'vader' cannot be had: {error}")
    corpus = load_corpus("vader")
    small = corpus.thinned(400)
    run = RunSettings(method="sped", method_settings={"C": 0.3}, objective={"compact": 0.02})
    both = train_model(small, default_split(small), run)
    rows = np.arange(0, len(corpus), 3)
    for model in (both.model, both.whole.model):
        check_equal(model, tmp_path / "model.onnx", list(corpus.documents[rows]), list(corpus.domains[rows]))


def test_the_file_says_what_it_is(tmp_path: Path):
    model = trained(DEMO, "lr", C=1.0)
    rules = export(model, tmp_path / "new" / "model.onnx")
    assert rules == tmp_path / "new" / "model.tokens.json"
    found = onnx.load(tmp_path / "new" / "model.onnx")
    onnx.checker.check_model(found, full_check=True)
    about = {prop.key: prop.value for prop in found.metadata_props}
    assert json.loads(about["classes"]) == list(model.classes)
    assert json.loads(about["domains"]) == list(model.domains)
    assert about["token_rules"] == json.loads(rules.read_text(encoding="utf-8"))["rules"] == "1"


@pytest.fixture(scope="module")
def tokens_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    path = tmp_path_factory.mktemp("export") / "model.onnx"
    return code_of_the_page(export(trained(DEMO, "lr", C=1.0), path))["tokens_of"]


@given(
    st.lists(
        st.one_of(
            st.text(max_size=12),
            st.sampled_from(
                ["&amp;", "& quot ;", "<br/>", "<a href='x'>", "n't", " 's", "''", "`", "_", "-lrb-", "1.5"]
            ),
            st.sampled_from(
                ["can", "not ", "gon na", "'t is", "東京", "ｶﾞ", "İ", "ſ", "ß", "™", "’", "e\u0301", "\u200d"]
            ),
        ),
        max_size=8,
    )
)
def test_the_rules_beside_the_model_give_the_same_tokens(tokens_of: Callable[[str], list[str]], parts: list[str]):
    text = "".join(parts)
    assert tokens_of(text) == next(tokenise([text]).words())


def test_the_examples_beside_the_model_are_right(tmp_path: Path):
    rules = export(trained(DEMO, "lr", C=1.0), tmp_path / "model.onnx")
    tokens_of = code_of_the_page(rules)["tokens_of"]
    for example in json.loads(rules.read_text(encoding="utf-8"))["examples"]:
        assert tokens_of(example["text"]) == example["tokens"] != []


def test_what_cannot_be_exported_is_refused(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    trained(DEMO.thinned(20), "majority").save(tmp_path / "majority")
    code, _, err = run("export", tmp_path / "majority", tmp_path / "m.onnx")
    assert code == 2 and "'majority' is no sum over words, and only such models are exported." in err
    assert "such as --method sped" in err
    assert not METHODS["man-nll"].requirements().linear and not METHODS["ensemble"].requirements().linear
    code, _, err = run("export", tmp_path / "majority", tmp_path / "m.txt")
    assert code == 2 and "Expected a file that ends in .onnx" in err
    vectors = MultiDomainClassifier("lr", method_settings={"C": 1.0}).fit(np.eye(2)[[0, 1] * 50], [0, 1] * 50)
    with pytest.raises(ConfigError, match="reads vectors"):
        export(vectors.model_, tmp_path / "m.onnx")
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs onnx.*pip install 'multidomain\[onnx\]'"):
        export(trained(DEMO, "lr", C=1.0), tmp_path / "m.onnx")
    assert not list(tmp_path.glob("m.*"))


def test_the_command_writes_both_files(tmp_path: Path, run: Run):
    model = trained(DEMO, "lr", C=1.0)
    model.save(tmp_path / "model")
    code, out, err = run("export", tmp_path / "model", tmp_path / "m.onnx")
    assert code == 0, err
    assert [Path(line).name for line in out.split()] == ["m.onnx", "m.tokens.json"]
    labels, _ = answers(tmp_path / "m.onnx", list(DEMO.documents[:50]), list(DEMO.domains[:50]))
    assert labels.tolist() == model.predict(list(DEMO.documents[:50]), list(DEMO.domains[:50])).tolist()
