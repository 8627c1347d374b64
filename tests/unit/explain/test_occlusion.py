"""Why this answer: what words add to it, where they stand, and how the command shows it."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy.special import softmax

from multidomain.cli.explain import coloured_text, words_table
from multidomain.data.corpus import Corpus
from multidomain.data.settings import SplitSettings
from multidomain.data.splits import split_by
from multidomain.data.values import corpus_from_rows
from multidomain.errors import ConfigError, DataError
from multidomain.explain.occlusion import MAX_WORDS, Explanation, WordContribution, explain, log_odds
from multidomain.explain.spans import unknown_word, without_word, word_spans
from multidomain.features.token_rules import TOKEN_PATTERN, normalise
from multidomain.model.joining import join_models
from multidomain.model.model import Model
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

Run = Callable[..., tuple[int, str, str]]


SMALL = {"hidden": (8,), "shared_size": 6, "private_size": 4, "lr": 0.01}
METHODS = {
    "fa-lr": RunSettings(method="fa-lr", features={"ngrams": {"weighting": "counts"}}),
    "lr": RunSettings(method="lr"),
    "lr of each domain": RunSettings(method="lr", method_settings={"category": "domain-specific"}),
    "self-training": RunSettings(method="self-training"),
    "man-nll": RunSettings(method="man-nll", method_settings=SMALL, training={"max_epochs": 12, "patience": 12}),
    "mlp of each domain": RunSettings(
        method="mlp", method_settings={**SMALL, "category": "domain-specific"}, training={"max_epochs": 3}
    ),
    "asp-mtl": RunSettings(method="asp-mtl", method_settings={**SMALL, "extractor": "mlp"}, training={"max_epochs": 3}),
    "cnn": RunSettings(
        method="man-nll",
        method_settings={"extractor": "cnn", "filters": 4, "dimension": 8},
        features={"sequences": {"vectors": "random"}},
        training={"max_epochs": 2},
    ),
}
TEXT = "They are fast, and fast is what they are: superb!"


def make_corpus(unlabelled: bool = True) -> Corpus:
    """Fast shoes are good and fast films bad; 'superb' and 'awful' mean the same everywhere; pans have no labels."""
    random = np.random.default_rng(0)
    rows = []
    for i in range(240):
        domain, good = ("shoes", "films", "pans")[i % 3 if unlabelled else i % 2], bool(random.integers(2))
        own = "fast" if good == (domain == "shoes") else "slow"
        everywhere = "superb" if good else "awful"
        carrier = own if random.random() < 0.6 else everywhere
        words = [carrier, f"{domain}{random.integers(5)}", f"no{i}", "and", "they", "are", "so"]
        label = None if domain == "pans" else ("good" if good else "bad")
        rows.append((" ".join(random.permutation(words)), label, domain))
    return corpus_from_rows(*(list(column) for column in zip(*rows, strict=True)))


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    everywhere, some = make_corpus(unlabelled=False), make_corpus()
    models = {}
    for name, settings in METHODS.items():
        corpus = everywhere if "each domain" in name else some
        models[name] = train_model(corpus, split_by(corpus, SplitSettings()), settings).model
    models["ensemble"] = join_models("ensemble", [models[name] for name in ("fa-lr", "man-nll", "cnn")])
    return models


@pytest.fixture(scope="module")
def folder(models: dict[str, Model], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m"
    models["fa-lr"].save(path)
    return path


@pytest.fixture(scope="module")
def on_vectors() -> Model:
    matrix = sp.csr_matrix(np.random.default_rng(0).integers(0, 3, (40, 6)))
    corpus = corpus_from_rows(matrix, ["good", "bad"] * 20, ["shoes"] * 20 + ["films"] * 20)
    settings = RunSettings(method="fa-lr", features={"ngrams": {"weighting": "counts"}})
    return train_model(corpus, split_by(corpus, SplitSettings()), settings).model


def tokens(text: str) -> list[str]:
    return re.findall(TOKEN_PATTERN, normalise(text))


def shown_words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_spans(text)]


# What words add


@pytest.mark.parametrize("domain", ["shoes", "films"])
def test_of_a_linear_model_on_counts_words_add_the_weights_of_their_ngrams(models: dict[str, Model], domain: str):
    model = models["fa-lr"]
    explanation = explain(model, TEXT, domain, target="good")
    assert model.features.vocabulary is not None
    column_of = {ngram: column for column, ngram in enumerate(model.features.vocabulary)}
    weight = model.method.weight.astype(np.float64)
    towards_good = weight[:, :, model.classes.index("good")] - weight[:, :, model.classes.index("bad")]
    shared = towards_good[0]
    private = towards_good[1 + model.domains.index(domain)] - shared
    scale = float(model.method.inverse_temperature[1 + model.domains.index(domain)])
    words = tokens(TEXT)
    assert [normalise(word.text) for word in explanation.words] == words
    for i, word in enumerate(explanation.words):
        ngrams = [words[i], " ".join(words[i : i + 2]), *([" ".join(words[i - 1 : i + 1])] if i else [])]
        columns = [column_of[ngram] for ngram in ngrams if ngram in column_of]
        assert word.shared == pytest.approx(scale * float(shared[columns].sum()), abs=1e-5)
        assert word.private == pytest.approx(scale * float(private[columns].sum()), abs=1e-5)
    assert sum(abs(word.total) > 0.1 for word in explanation.words) >= 3


@pytest.mark.parametrize("name", [*METHODS, "ensemble"])
def test_a_word_adds_what_is_missing_without_it(models: dict[str, Model], name: str):
    """The parts of a word against the formula, one document at a time, and their sum against plain predictions."""
    model = models[name]
    explanation = explain(model, TEXT, "films")
    c, d = model.classes.index(explanation.target), model.domains.index("films")
    for word in explanation.words:
        assert TEXT[word.start : word.end] == word.text
        without = f"{TEXT[: word.start]} qqqqqq {TEXT[word.end :]}"
        rows = model.features.transform([TEXT, without])
        v = {}
        for S in (0, 1):
            for P in (0, 1):
                logits = model.method.calibrated_logits_of_views(rows[1 - S], rows[1 - P], d)
                p = float(softmax(logits.astype(np.float64), axis=1)[0, c])
                v[S, P] = math.log(p) - math.log(1 - p)
        assert word.shared == pytest.approx((v[1, 1] - v[0, 1]) / 2 + (v[1, 0] - v[0, 0]) / 2, abs=1e-4)
        assert word.private == pytest.approx((v[1, 1] - v[1, 0]) / 2 + (v[0, 1] - v[0, 0]) / 2, abs=1e-4)
        p = model.predict_proba([TEXT, without], ["films"] * 2)[:, c].astype(float)
        odds = np.log(p / (1 - p))
        assert word.shared + word.private == word.total == pytest.approx(odds[0] - odds[1], abs=1e-3)
    assert max(abs(word.total) for word in explanation.words) > 1e-3


@pytest.mark.parametrize("name", ["fa-lr", "man-nll"])
def test_the_private_part_speaks_for_its_domain(models: dict[str, Model], name: str):
    fast = {
        domain: explain(models[name], "they are so fast", domain, target="good").words[-1]
        for domain in ("shoes", "films")
    }
    assert fast["shoes"].private > 0.05
    assert fast["films"].private < -0.05
    superb = [explain(models[name], "they are superb", domain, target="good").words[-1] for domain in fast]
    assert min(word.shared for word in superb) > max(0.05, *(abs(word.shared) for word in fast.values()))


@pytest.mark.parametrize("name", ["fa-lr", "man-nll", "asp-mtl", "cnn", "ensemble"])
@pytest.mark.parametrize("domain", ["pans", None])
def test_without_a_private_part_all_is_shared(models: dict[str, Model], name: str, domain: str | None):
    explanation = explain(models[name], TEXT, domain)
    assert explanation.domain == domain
    assert {word.private for word in explanation.words} == {0.0}
    assert any(word.shared for word in explanation.words)


@pytest.mark.parametrize("name", ["lr of each domain", "mlp of each domain"])
def test_of_a_model_of_each_domain_all_is_private(models: dict[str, Model], name: str):
    explanation = explain(models[name], TEXT, "shoes")
    assert {word.shared for word in explanation.words} == {0.0}
    assert any(word.private for word in explanation.words)
    with pytest.raises(DataError, match="knows nothing about a domain that was not in its training"):
        explain(models[name], TEXT)


def test_a_method_without_private_features_shares_all(models: dict[str, Model]):
    assert {word.private for word in explain(models["lr"], TEXT, "shoes").words} == {0.0}


@pytest.mark.parametrize("name", [*METHODS, "ensemble"])
def test_the_answer_is_the_models(models: dict[str, Model], name: str):
    model = models[name]
    explanation = explain(model, TEXT, "films")
    expected = model.predict_proba([TEXT], ["films"])[0]
    assert explanation.probabilities == tuple(map(float, expected))
    assert explanation.classes == model.classes
    assert explanation.answer == explanation.target == model.predict([TEXT], ["films"])[0]
    other = next(name for name in model.classes if name != explanation.answer)
    against = explain(model, TEXT, "films", target=other)
    assert (against.answer, against.target) == (explanation.answer, other)
    for a, b in zip(
        explanation.words, against.words, strict=True
    ):  # of two classes, what is for one is against the other
        assert (a.shared, a.private) == pytest.approx((-b.shared, -b.private), abs=1e-6)


def test_words_that_the_model_does_not_know_add_nothing(models: dict[str, Model]):
    for name in ("fa-lr", "cnn", "ensemble"):
        words = explain(models[name], "fast zork", "shoes").words
        assert (words[1].shared, words[1].private) == (0, 0)
        assert words[0].total


@pytest.mark.parametrize("text", ["", " \n", "... — 👍 <br/> &amp;"])
@pytest.mark.parametrize("name", ["fa-lr", "man-nll", "cnn"])
def test_a_text_without_words_has_an_answer_all_the_same(models: dict[str, Model], name: str, text: str):
    explanation = explain(models[name], text, "shoes")
    assert (explanation.words, explanation.n_words) == ((), 0)
    assert explanation.probabilities == tuple(map(float, models[name].predict_proba([text], ["shoes"])[0]))


def test_of_many_words_the_first_are_explained_and_all_are_read(models: dict[str, Model]):
    model = models["fa-lr"]
    text = "fast " * (MAX_WORDS + 4) + "slow"
    explanation = explain(model, text, "shoes", target="good")
    assert (len(explanation.words), explanation.n_words) == (MAX_WORDS, MAX_WORDS + 5)
    assert explanation.probabilities == tuple(map(float, model.predict_proba([text], ["shoes"])[0]))
    # Counts: all in the middle take the same n-grams with them, whatever batch they are in.
    middle = explanation.words[1:]
    assert [word.start for word in middle] == list(range(5, 5 * MAX_WORDS, 5))
    assert np.ptp([word.total for word in middle]) < 1e-3 < middle[0].private


# Names


def test_domains_are_taken_as_predictions_take_them(models: dict[str, Model]):
    model = models["fa-lr"]
    plain, near = explain(model, TEXT, "shoes"), explain(model, TEXT, "SHOES ")
    assert plain.notes == ()
    (note,) = near.notes
    assert note.kind == "other-spelling" and "'SHOES ' is taken for 'shoes'" in str(note)
    assert replace(near, notes=()) == plain
    unknown, without = explain(model, TEXT, "hats"), explain(model, TEXT)
    (note,) = unknown.notes
    assert note.kind == "unknown-domain" and "Domain 'hats' was not in training" in str(note)
    (note,) = without.notes
    assert note.kind == "no-domain" and "No domain given" in str(note)
    assert replace(unknown, notes=()) == replace(without, notes=())
    with pytest.raises(DataError, match=r"'shoe' was not in training. Did you mean 'shoes'"):
        explain(model, TEXT, "shoe", unknown_domain="error")


def test_a_class_that_the_model_does_not_know_is_refused(models: dict[str, Model]):
    with pytest.raises(ConfigError, match=r"no class 'goood'\. Did you mean 'good'\? Valid: 'bad', 'good'"):
        explain(models["fa-lr"], TEXT, "shoes", target="goood")


def test_a_model_on_vectors_is_refused(on_vectors: Model):
    with pytest.raises(DataError, match=r"trained on vectors, which have no words to explain. Train it on texts"):
        explain(on_vectors, TEXT)


def test_json_holds_all_of_it(models: dict[str, Model]):
    explanation = explain(models["man-nll"], "Fast!", "shoes")
    values = json.loads(json.dumps(explanation.as_json(), allow_nan=False))
    assert values == {
        "text": "Fast!",
        "domain": "shoes",
        "classes": ["bad", "good"],
        "probabilities": list(explanation.probabilities),
        "target": explanation.answer,
        "words": [
            {"text": text, "start": start, "end": end, "shared": w.shared, "private": w.private, "total": w.total}
            for (text, start, end), w in zip([("Fast", 0, 4), ("!", 4, 5)], explanation.words, strict=True)
        ],
        "n_words": 2,
    }


# The score


def test_log_odds_of_several_classes():
    logits = np.random.default_rng(0).standard_normal((50, 4), dtype=np.float32)
    p = softmax(logits.astype(np.float64), axis=1)
    for c in range(4):
        np.testing.assert_allclose(log_odds(logits, c), np.log(p[:, c] / (1 - p[:, c])), rtol=1e-7, atol=1e-7)


def test_log_odds_stay_finite_and_tell_apart_where_probabilities_round_to_one():
    v = log_odds(np.array([[200.0, 0.0], [300.0, 0.0], [-300.0, 0.0]], dtype=np.float32), 0)
    assert v.tolist() == [200, 300, -300]
    never = np.array([[0.0, -np.inf], [-np.inf, 0.0]], dtype=np.float32)  # as of an ensemble whose members are all sure
    assert log_odds(never, 0).tolist() == [104, -104]


# Where words stand


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I DON’T, won't & can`t!?", ["I", "DON’T", "won't", "can`t", "!", "?"]),
        ("caf&eacute; don&#39;t Q&amp;A", ["caf&eacute;", "don&#39;t", "Q", "A"]),
        ("salt &amp; pepper; AT&T &amp;quot;yes&amp;quot; &that;", ["salt", "pepper", "AT", "T", "yes", "that"]),
        ("so.<br /><A HREF='x y'>link</a> x < y > z &lt;br&gt;", ["so", "link", "x", "y", "z"]),
        ("<Blood Meridian> &lt;Blood&gt;", ["Blood", "Meridian", "Blood"]),
        ("-LRB- sic -rrb- well-put-on", ["sic", "well", "put", "on"]),
        ("İstanbul ﬁne cafe\u0301 ΣΟΦΌΣ ｗｉｄｅ！", ["İstanbul", "ﬁne", "cafe\u0301", "ΣΟΦΌΣ", "ｗｉｄｅ", "！"]),
        ("1½ cups, 1.5 m², 1,000. ½", ["1½", "cups", "1.5", "m²", "1,000", "½"]),
        ("हिन्दी में 非常好", ["हिन्दी", "में", "非", "常", "好"]),
        ("good👍🏽 I ❤️ it‼️ Brand™s", ["good", "I", "❤️", "it", "‼️", "Brand", "s"]),
        ("user_name [b]x[/b]", ["user", "name", "b", "x", "b"]),
        ("", []),
    ],
)
def test_words_stand_where_they_were_written(text: str, expected: list[str]):
    assert shown_words(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "wow!!Really?",
        "I don’t like caf&eacute; music.<br/>AT&T &amp; others, 1.5 stars; well-written!",
        "ÉCOLE cafe\u0301 非常好 ❤️ good👍",
        "the 's' key",
    ],
)
def test_a_word_that_is_left_out_takes_its_own_token_with_it_and_no_other(text: str):
    words, spans = tokens(text), word_spans(text)
    assert len(words) == len(spans)
    for i, span in enumerate(spans):
        assert tokens(without_word(text, span, "qqqqqq")) == [*words[:i], "qqqqqq", *words[i + 1 :]]


def test_of_a_treebank_clitic_the_rest_of_the_word_stays():
    text = "larkin 's book"
    larkin, clitic, _ = word_spans(text)
    assert tokens(without_word(text, larkin, "qqqqqq")) == ["qqqqqq's", "book"]
    assert tokens(without_word(text, clitic, "qqqqqq")) == ["larkin", "qqqqqq", "book"]


@given(st.one_of(st.text(), st.text(alphabet="&;#<>-lrbtampqgu39 '!é’/=\"AB_½❤\ufe0f\u200d")))
def test_spans_hold_all_that_is_read_of_any_text(text: str):
    end, between = 0, []
    for start, stop in word_spans(text):
        assert end <= start < stop
        assert tokens(text[start:stop])
        between.append(text[end:start])
        end = stop
    assert end <= len(text)
    assert tokens(" ".join([*between, text[end:]])) == []


def test_the_word_in_place_of_another_is_part_of_no_ngram():
    plain = unknown_word(["good", "not good"])
    other = unknown_word(["good", f"not {plain}"])
    assert other not in f"not {plain}"
    assert tokens(plain) == [plain]
    assert tokens(other) == [other]


# The command


def test_the_command_shows_answer_text_and_words(run: Run, folder: Path, models: dict[str, Model]):
    text = "[bold]Fast[/bold] and :smile: superb [/x] shoes"
    code, out, notes = run("explain", folder, text, "--domain", "shoes")
    assert (code, notes) == (0, "")
    assert "prediction: good (domain shoes)" in out
    assert text in out.splitlines()
    assert "\x1b" not in out, "not a terminal"
    explanation = explain(models["fa-lr"], text, "shoes")
    assert f"{100 * explanation.probabilities[1]:.2f} %" in out
    fast = next(word for word in explanation.words if word.text == "Fast")
    row = next(line for line in out.splitlines() if "│ Fast" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "Fast",
        *(f"{value:+.3f}" for value in (fast.shared, fast.private, fast.total)),
    ]


def test_names_of_classes_are_shown_as_they_are(run: Run, models: dict[str, Model], tmp_path: Path):
    replace(models["fa-lr"], classes=("[red]", ":smile:")).save(tmp_path)
    code, out, _ = run("explain", tmp_path, "superb", "--domain", "shoes")
    assert code == 0
    assert "prediction: :smile: (domain shoes)" in out
    assert "added to the log-odds of ':smile:'" in out
    assert "│ [red]" in out


def test_the_command_prints_json(run: Run, folder: Path, models: dict[str, Model]):
    code, out, _ = run("explain", folder, "fast, “superb”", "--domain", "films", "--target", "bad", "--json")
    assert code == 0
    assert json.loads(out) == explain(models["fa-lr"], "fast, “superb”", "films", target="bad").as_json()


def test_the_command_says_what_it_does_without_a_domain_or_words(run: Run, folder: Path):
    code, out, notes = run("explain", folder, "fast")
    assert code == 0
    assert "no known domain: shared features alone" in out
    assert "warning: No domain given" in notes
    assert "The text holds no words." in run("explain", folder, "", "--domain", "shoes")[1]
    assert "No word of the text changes the prediction." in run("explain", folder, "zork", "--domain", "shoes")[1]
    code, _, notes = run("explain", folder, "fast " * (MAX_WORDS + 1), "--domain", "shoes")
    assert code == 0
    assert "note: the first 1,000 words of 1,001 are explained" in notes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "god"], "Did you mean 'good'"),
        (["--domain", "shoe", "--unknown-domain", "error"], "Did you mean 'shoes'"),
        (["--unknown-domain", "guess"], "guess"),
    ],
)
def test_what_the_command_cannot_do_ends_with_code_2(run: Run, folder: Path, arguments: list[str], message: str):
    code, out, err = run("explain", folder, "fast", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_models_and_texts_that_the_command_cannot_use(run: Run, folder: Path, on_vectors: Model, tmp_path: Path):
    on_vectors.save(tmp_path / "vectors")
    for model, text, message in [
        (tmp_path, "fast", "is not a model folder"),
        (tmp_path / "vectors", "fast", "trained on vectors"),
        (folder, "fast \udcff", "bytes that are invalid"),
    ]:
        code, _, err = run("explain", model, text)
        assert code == 2
        assert message in err


def test_words_for_are_green_and_words_against_red_by_their_size():
    words = [
        WordContribution(t, i, i + 1, s, p) for i, (t, s, p) in enumerate([("a", 2, 2), ("b", 0.01, 0), ("c", 0, -4)])
    ]
    explanation = Explanation("abcd", "shoes", ("x", "y"), (0.2, 0.8), "y", tuple(words), 3)
    text = coloured_text(explanation)
    assert text.plain == "abcd"
    strong, weak, against = (span.style.bgcolor.get_truecolor() for span in text.spans)
    assert strong.green > weak.red > strong.red
    assert weak.green > weak.red
    assert against.red > against.green
    terminal = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", markup=False)
    terminal.print(text)
    assert "48;2;60;235;60ma\x1b" in terminal.file.getvalue()


def test_the_table_holds_the_words_that_count_most():
    words = [WordContribution(f"w{i}", i, i + 1, 0.0, float((-1) ** i * i)) for i in range(30)]
    table = words_table(Explanation("w" * 30, "shoes", ("x", "y"), (0.2, 0.8), "y", tuple(words), 30))
    assert [cell.plain for cell in table.columns[0].cells] == [f"w{i}" for i in range(29, 14, -1)]
