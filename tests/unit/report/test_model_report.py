"""Reports of small models that are really trained; their figures are worked out here by other means."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from multidomain.report.model.folder import ModelFolder
from multidomain.report.model.markup import percent
from multidomain.report.model.page import SECTIONS, model_page, write_model_report
from multidomain.report.model.projection import features_section
from multidomain.report.model.verdict import verdict

Run = Callable[..., tuple[int, str, str]]

HOSTILE = ("<b>x</b>", 'a "quoted" & b', "</td><script>alert(1)</script>")  # of the fixture of that name
CLASSES = ("good", "<i>bad</i>", "so & so")
VOID = {"meta", "br", "hr"}


@dataclass
class Node:
    """An element of a page."""

    name: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child

    def all(self, name: str) -> list[Node]:
        return [node for node in self if node.name == name]

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class Parsed(HTMLParser):
    """A page as elements; one that is not closed, or closed twice, fails."""

    def __init__(self, page: str):
        super().__init__()
        self.root = Node("")
        self._open = [self.root]
        self.feed(page)
        self.close()
        assert self._open == [self.root], f"not closed: {[node.name for node in self._open]}"

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        assert len({key for key, _ in attributes}) == len(attributes), f"{name} has an attribute twice"
        node = Node(name, dict(attributes))
        self._open[-1].children.append(node)
        if name not in VOID:
            self._open.append(node)

    def handle_endtag(self, name: str) -> None:
        assert self._open.pop().name == name

    def handle_data(self, text: str) -> None:
        self._open[-1].children.append(text)

    def section(self, name: str) -> Node:
        return next(node for node in self.root.all("section") if node.attributes["aria-labelledby"] == name)

    def table(self, section: str, caption: str = "") -> dict[str, list[str]]:
        """Rows of the first table whose caption begins so, by their first cells."""
        tables = self.section(section).all("table")
        found = next(table for table in tables if table.all("caption")[0].text.startswith(caption))
        cells = [[cell.text for cell in row.all("th") + row.all("td")] for row in found.all("tr")]
        return {first: others for first, *others in cells}


def new_page(folder: Path) -> str:
    return model_page(ModelFolder.read(folder))


@cache
def page_of(folder: Path) -> str:
    """The page of a folder that no test changes; it takes a second to make."""
    return new_page(folder)


@pytest.fixture(scope="module")
def man_page(man: Path) -> str:
    return page_of(man)


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The labelled test rows, each with the answer and its probability."""
    classes = json.loads((folder / "model.json").read_text(encoding="utf-8"))["classes"]
    found = []
    for number, line in enumerate((folder / "held_out.jsonl").read_text(encoding="utf-8").split("\n")[:-1], start=1):
        row = json.loads(line)
        if row["part"] == "test" and row["label"] is not None:
            best = max(row["probabilities"])
            found.append({**row, "line": number, "sure": best, "answer": classes[row["probabilities"].index(best)]})
    return found


def shown(share: float) -> str:
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def altered(folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a folder whose metrics are changed."""
    copy, metrics = shutil.copytree(folder, tmp_path / "copy"), metrics_of(folder)
    change(metrics)
    (copy / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    return copy


@pytest.mark.parametrize("name", ["man", "fitted", "specific", "joined_models", "hostile", "unscored", "vectors"])
def test_every_page_is_whole_and_has_all_sections(name: str, request: pytest.FixtureRequest) -> None:
    page = page_of(request.getfixturevalue(name))
    root = Parsed(page).root
    headings = [int(node.name[1]) for node in root if re.fullmatch("h[1-6]", node.name)]
    assert [node.attributes["id"] for node in root.all("h2")] == list(SECTIONS)
    assert [node.text for node in root.all("h2")] == [title for title, _ in SECTIONS.values()]
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(headings))
    ids = [node.attributes["id"] for node in root if "id" in node.attributes]
    assert len(set(ids)) == len(ids)
    links = [str(node.attributes["href"]) for node in root.all("a")]
    assert {link.removeprefix("#") for link in links} == {*SECTIONS, "content"}
    assert all(section.text.strip() != section.all("h2")[0].text for section in root.all("section"))
    for table in root.all("table"):
        assert table.all("caption")[0].text
        assert all(cell.attributes.get("scope") in ("row", "col") for cell in table.all("th"))
    for drawing in root.all("svg"):
        told = drawing.attributes.get("aria-hidden") == "true" or drawing.all("title")[0].text
        assert told
        assert not any(re.search("nan|inf", str(value)) for node in drawing for value in node.attributes.values())
    assert all(figure.all("figcaption")[0].text for figure in root.all("figure"))


@pytest.mark.parametrize("name", ["man", "hostile"])
def test_a_page_needs_no_network_and_runs_nothing(name: str, request: pytest.FixtureRequest) -> None:
    page = page_of(request.getfixturevalue(name))
    for node in Parsed(page).root:
        assert node.name not in ("script", "link", "img", "iframe", "object", "base", "form")
        assert not [key for key in node.attributes if key.startswith("on") or key in ("src", "srcset", "action")]
        assert str(node.attributes.get("href", "#")).startswith("#")
    assert not re.search(r"https?://|url\(|@import|javascript:", page)


def test_the_same_folder_gives_the_same_bytes(man: Path, tmp_path: Path) -> None:
    first, second = (write_model_report(man, tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert first == second
    moved = shutil.copytree(man, tmp_path / "elsewhere")
    assert write_model_report(moved).read_bytes() == first
    assert str(man).encode() not in first


def test_accuracy_stands_beside_its_interval_and_simpler_answers(man: Path, man_page: str) -> None:
    table, rows = Parsed(man_page).table("accuracy"), rows_of(man)
    for score in metrics_of(man)["result"]["test"]["domains"]:
        here = [row for row in rows if row["domain"] == score["domain"]]
        right = sum(row["label"] == row["answer"] for row in here)
        interval = stats.binomtest(right, len(here)).proportion_ci(0.95, method="wilson")
        assert table[score["domain"]] == [
            "none" if score["domain"] == "shoes" else "yes",
            str(len(here)),
            shown(right / len(here)),
            f"{shown(interval.low)} – {shown(interval.high)}",
            shown(score["macro_f1"]),
            shown(score["shared_accuracy"]),
            shown(score["majority_accuracy"]),
        ]
    by_domain = [[r["label"] == r["answer"] for r in rows if r["domain"] == d] for d in ("books", "kitchen")]
    by_domain += [[r["label"] == r["answer"] for r in rows if r["domain"] == d] for d in ("electronics", "shoes")]
    assert table["mean of domains"][2] == shown(float(np.mean([np.mean(of) for of in by_domain])))
    told = [node.text for node in Parsed(man_page).section("accuracy").all("title")]
    assert [text for text in told if text.startswith("shoes · no labels: ")]


def test_confusion_counts_every_test_row_once(man: Path, man_page: str) -> None:
    parsed, rows = Parsed(man_page), rows_of(man)
    for caption, here in [("All domains", rows)] + [(d, [r for r in rows if r["domain"] == d]) for d in ("shoes",)]:
        table = parsed.table("confusion", caption)
        for label in ("negative", "positive"):
            of_label = [row["answer"] for row in here if row["label"] == label]
            counts = [of_label.count(answer) for answer in ("negative", "positive")]
            assert [int(cell.split()[0].replace(",", "")) for cell in table[label]] == counts


def test_the_page_shows_the_calibration_of_labelled_test_rows(man: Path, man_page: str) -> None:
    rows = rows_of(man)
    sure, right = np.array([r["sure"] for r in rows]), np.array([r["label"] == r["answer"] for r in rows])
    table = Parsed(man_page).table("calibration", "Confidence")
    assert table["all rows"][:3] == [str(len(rows)), shown(sure.mean()), shown(right.mean())]
    error = 0.0
    for here in np.array_split(np.argsort(sure, kind="stable"), 15):  # bins of equally many
        error += abs(right[here].sum() - sure[here].sum()) / len(rows)
    assert table["all rows"][4] == shown(error)
    bins = Parsed(man_page).table("calibration", "Bins")
    assert sum(int(line[0]) for name, line in bins.items() if name != "confidence") == len(rows)


def test_the_page_shows_what_abstaining_gains(man: Path, man_page: str) -> None:
    rows = rows_of(man)
    table = Parsed(man_page).table("calibration", "Accuracy by coverage")
    lines = {name: line for name, line in table.items() if name != "coverage"}
    assert len(lines) == 5
    for wanted, (name, (threshold, n, accuracy, _)) in zip((1, 0.9, 0.8, 0.7, 0.5), lines.items(), strict=True):
        kept = [row for row in rows if row["sure"] >= float(threshold)]
        assert (name, int(n)) == (shown(len(kept) / len(rows)), len(kept))
        assert accuracy == shown(np.mean([row["label"] == row["answer"] for row in kept]))
        assert wanted <= len(kept) / len(rows) < wanted + 0.02
    svg = [node for node in Parsed(man_page).section("calibration").all("svg") if "Accuracy by coverage" in node.text]
    assert len(svg) == 1 and len(svg[0].all("circle")) == 10


@pytest.mark.parametrize(
    ("metric", "name"), [("macro-f1", "dev macro-F1"), ("worst-domain", "dev accuracy in the worst domain")]
)
@pytest.mark.parametrize("method", [["fa-lr"], ["man-nll", "--set", "hidden=8", "--max-epochs", "2"]])
def test_the_page_names_the_metric_that_selected(
    metric: str, name: str, method: list[str], tmp_path: Path, run: Run
) -> None:
    folder = tmp_path / "m"
    code, _, err = run("train", "demo", "-o", folder, "--metric", metric, "--method", *method)
    assert code == 0, err
    training = Parsed(model_page(ModelFolder.read(folder))).section("training").text
    assert name in training
    logged = [json.loads(line)["dev_score"] for line in (folder / "log.jsonl").read_text().splitlines()]
    assert all(shown(score) in training for score in logged)
    assert Parsed(page_of(folder)).table("settings", "Settings: objective")["metric"] == [metric]


def test_the_surest_mistakes_come_first(man: Path, man_page: str) -> None:
    lists = {
        node.all("summary")[0].text.split(":")[0]: [item.text for item in node.all("li")]
        for node in Parsed(man_page).section("mistakes").all("details")
    }
    for domain, items in lists.items():
        wrong = [row for row in rows_of(man) if row["domain"] == domain and row["answer"] != row["label"]]
        surest = sorted(wrong, key=lambda row: -row["sure"])[:5]
        assert len(surest) == 5
        assert items == [
            f"{row['text']}{row['label']} predicted as {row['answer']}, confidence {shown(row['sure'])}"
            f" · line {row['line']}"
            for row in surest
        ]


def test_texts_and_names_that_are_markup_are_shown_and_not_obeyed(hostile: Path) -> None:
    page = page_of(hostile)
    parsed = Parsed(page)  # which fails where a name closes a cell
    assert not re.search(r"<script|<b>x|<i>bad|alert\('?\d+'\)</script", page)
    assert "\x07" not in page
    assert {*HOSTILE, "mute"} <= set(parsed.table("data", "Rows"))
    assert set(HOSTILE) <= set(parsed.table("accuracy"))
    assert set(CLASSES) <= set(parsed.table("confusion", "All domains"))
    legends = {item.text for item in parsed.section("features").all("li")}
    assert {*HOSTILE, *CLASSES, "label not known"} <= legends
    quotes = [node.text for node in parsed.section("mistakes").all("blockquote")]
    assert quotes and all(quote.startswith("<script>alert('") for quote in quotes)


def test_a_domain_without_any_label_is_said_to_be_unknown(hostile: Path) -> None:
    run = ModelFolder.read(hostile)
    said = " ".join(verdict(run))
    assert "the mean over the 3 scored domains of hostile" in said
    assert "Accuracy in mute is unknown: no test row there has a label." in said
    assert Parsed(model_page(run)).table("data", "Rows")["mute"][0] == "none"


def test_data_and_split_are_told(man_page: str) -> None:
    parsed = Parsed(man_page)
    table = parsed.table("data", "Rows")
    assert table["domain"][3:5] == ["negative", "positive"]
    assert table["books"] == ["yes", "300", "300", "150", "150", "0", "0"]
    assert table["shoes"][0] == "hidden"
    assert table["all"] == ["", "1,200", "1,200", "600", "600", "0", "0"]
    split = parsed.table("data", "Split: held out 20% test, 10% dev, seed 1; labels hidden in shoes")
    assert [split[part][0] for part in ("train", "dev", "test", "unlabelled")] == ["630", "90", "240", "240"]


def test_learning_curves_mark_the_epoch_that_was_kept(man: Path, man_page: str) -> None:
    kept = metrics_of(man)["result"]["best_epoch"]
    section = Parsed(man_page).section("training")
    charts = [figure for figure in section.all("figure") if figure.all("svg")]
    names = {text.text for chart in charts for text in chart.all("text") if text.attributes.get("class") == "name"}
    assert {"dev accuracy", "J_C", "J_D", "J_Fs"} <= names
    assert f"accuracy of D (dashed: chance {shown(0.25)})" in names
    assert all(f"kept: epoch {kept}" in chart.text for chart in charts) and len(charts) == 5
    log = [json.loads(line) for line in (man / "log.jsonl").read_text().splitlines()]
    table = Parsed(man_page).table("training", "Epochs")
    assert [table[name][-2] for name in list(table)[1:]] == [shown(epoch["dev_accuracy"]) for epoch in log]
    assert list(table)[kept] == f"{kept} (kept)"


def test_a_method_that_is_fitted_at_once_shows_what_it_tried(fitted: Path) -> None:
    parsed = Parsed(page_of(fitted))
    table, log = parsed.table("training", "Hyperparameters tried"), (fitted / "log.jsonl").read_text().splitlines()
    chosen = metrics_of(fitted)["result"]["chosen"]["C"]
    assert len(table) - 1 == len(log)
    assert [name for name, line in table.items() if line[-1] == "chosen"] == [f"{chosen:.4g}"]
    assert f"was chosen: C = {chosen:.4g}." in parsed.section("training").text
    assert not parsed.section("training").all("figure")


def test_an_ensemble_shows_what_each_member_chose(joined_models: Path) -> None:
    parsed = Parsed(page_of(joined_models))
    chosen = metrics_of(joined_models)["result"]["chosen"]
    members = parsed.table("training", "What each member")
    assert members["1 man-nll"] == [f"epoch = {chosen['1 man-nll']['epoch']}"]
    assert members["2 fa-lr"] == [f"C = {chosen['2 fa-lr']['C']:.4g}"]
    assert "1 man-nll was trained for 2 epochs" in parsed.section("training").text
    assert len(parsed.table("training", "Hyperparameters tried")) > 5


def test_values_that_are_not_finite_are_left_out_of_the_curves(man: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(man, tmp_path / "copy")
    log = [json.loads(line) for line in (man / "log.jsonl").read_text().splitlines()]
    for number, epoch in enumerate(log):
        epoch["log"]["J_C"] = math.nan
        epoch["log"]["J_D"] = math.inf if number else 1.0
    (copy / "log.jsonl").write_text("".join(json.dumps(epoch) + "\n" for epoch in log))
    section = Parsed(new_page(copy)).section("training")
    assert "Never finite: J_C." in section.text
    paths = " ".join(str(node.attributes.get("d")) for node in section.all("path"))
    assert "nan" not in paths and "inf" not in paths


def test_the_adversary_is_told_in_words_and_bars(man: Path, man_page: str, tmp_path: Path) -> None:
    section = Parsed(man_page).section("adversary")
    found = metrics_of(man)["result"]
    after, before = found["invariance"], found["invariance_before"]
    assert f"predicts the domain of held-out rows with {shown(after['accuracy'])} accuracy" in section.text
    assert f"{before['nats']:.3f} nats" in section.text and f"{after['nats']:.3f} nats" in section.text
    assert "a run without the adversary (for MAN: lam = 0)" in section.text
    bars = [rect for rect in section.all("rect") if rect.all("title")]
    assert len(bars) == 4
    assert float(bars[2].attributes["width"] or 0) == pytest.approx(320 * before["accuracy"], abs=0.1)

    def apart(metrics: dict[str, Any]) -> None:
        metrics["result"]["invariance"] |= {"nats": 1.2, "accuracy": 0.9}
        metrics["result"]["invariance_before"] |= {"nats": 0.2}

    told = Parsed(new_page(altered(man, tmp_path, apart))).section("adversary").text
    assert "the shared features still reveal the domain" in told and "further apart, from 0.200 to 1.200 nats" in told


def test_features_are_shown_in_four_panels(man_page: str) -> None:
    section = Parsed(man_page).section("features")
    captions = [node.text for node in section.all("figcaption")]
    assert [caption.split(",")[0] for caption in captions] == ["Shared features", "Private features"] * 2
    assert ["domain" in caption for caption in captions] == [True, True, False, False]
    assert "330 rows" in captions[0] and "240 rows" not in captions[0]
    assert "shoes is not among the private features" in section.text


@pytest.mark.parametrize(
    ("shared", "expected"),
    [
        (lambda f: np.ones_like(f), "The shared features cannot be shown: they are the same for every row."),
        (lambda f: np.where(np.arange(len(f))[:, None] < 3, f, np.nan), "too few shared features to show: 3 rows"),
        (lambda f: None, "There are no shared features to show: man-nll, with these settings, has none."),
    ],
)
def test_features_that_cannot_be_shown_give_a_sentence(man: Path, shared: Callable[..., Any], expected: str) -> None:
    run = ModelFolder.read(man)
    run = replace(run, held_out=replace(run.held_out, shared=shared(run.held_out.shared)))
    section = Parsed(features_section(run)).root
    assert expected in section.text
    assert len(section.all("figure")) == 2  # the private ones


def test_what_is_missing_gives_a_sentence(fitted: Path, specific: Path, unscored: Path, vectors: Path) -> None:
    parsed = Parsed(page_of(fitted))
    assert "There are no features to show: fa-lr has neither" in parsed.section("features").text
    assert "Not measured: fa-lr, with these settings, has no shared features" in parsed.section("adversary").text

    parsed = Parsed(page_of(specific))
    assert "There are no shared features to show: mlp" in parsed.section("features").text
    assert len(parsed.section("features").all("figure")) == 2
    assert "The model has no shared part" in parsed.root.all("header")[0].text
    assert parsed.table("accuracy")["books"][-2] == "–"

    parsed = Parsed(page_of(unscored))
    assert "is unknown: no test row of u has a label" in parsed.root.all("header")[0].text
    for section in ("accuracy", "confusion", "calibration", "mistakes"):
        assert "Not measured: no test row has a label." in parsed.section(section).text
    assert "the last, since there is no dev set" in parsed.section("training").text
    assert "label not known" in parsed.section("features").text

    parsed = Parsed(page_of(vectors))
    assert "The model was trained on vectors, so there are no texts to show." in parsed.section("mistakes").text
    assert not parsed.section("mistakes").all("blockquote")


def test_the_verdict_follows_the_figures(man: Path, tmp_path: Path) -> None:
    accuracy = {"books": 0.9, "kitchen": 0.8, "electronics": 0.85, "shoes": 0.55}

    def change(metrics: dict[str, Any]) -> None:
        scores = metrics["result"]["test"]["domains"]
        for score in scores:
            had = score["had_labels"]
            score |= {"accuracy": accuracy[score["domain"]], "majority_accuracy": 0.5, "shared_accuracy": 0.7}
            score["shared_accuracy"] = 0.7 if had else score["accuracy"]

    said = " ".join(verdict(ModelFolder.read(altered(man, tmp_path, change))))
    assert f"reaches {shown(0.775)} accuracy, the mean over the 4 domains of demo, measured on 240 test" in said
    assert f"best in books ({shown(0.9)}) and worst in shoes ({shown(0.55)})." in said
    assert f"no labels of shoes, where accuracy is {shown(0.55)}; in domains with labels it is {shown(0.85)}." in said
    assert f"it reaches {shown(0.7)} in domains with labels: the private parts add 15.0 points." in said
    assert f"baseline reaches {shown(0.5)}; shoes is not clearly above that." in said


@pytest.mark.parametrize(
    ("accuracy", "expected"), [(0.5, "do not rely on this model"), (0.95, "every domain is clearly")]
)
def test_the_verdict_compares_with_the_most_frequent_class(
    man: Path, tmp_path: Path, accuracy: float, expected: str
) -> None:
    def change(metrics: dict[str, Any]) -> None:
        for score in metrics["result"]["test"]["domains"]:
            score |= {"accuracy": accuracy, "majority_accuracy": 0.5}

    said = " ".join(verdict(ModelFolder.read(altered(man, tmp_path, change))))
    assert expected in said and "It is equally good in all of them." in said


@pytest.mark.parametrize(
    ("sure", "expected"), [(0.99, "It is overconfident"), (0.3, "It is underconfident"), (None, "well calibrated")]
)
def test_the_verdict_says_whether_confidence_is_deserved(man: Path, sure: float | None, expected: str) -> None:
    run = ModelFolder.read(man)
    right = run.answers.correct.mean()
    level = right if sure is None else sure
    run.__dict__["answers"] = replace(run.answers, confidence=np.full(len(run.answers), level))
    assert expected in verdict(run)[-1] and percent(level) in verdict(run)[-1]


def test_settings_versions_and_the_hash_of_the_data_are_told(man: Path, tmp_path: Path) -> None:
    copy, metrics = shutil.copytree(man, tmp_path / "copy"), metrics_of(man)
    (copy / "train.toml").unlink(missing_ok=True)
    parsed = Parsed(new_page(copy))
    assert parsed.table("settings")["SHA-256 of the data"] == [metrics["data"]["sha256"]]
    assert parsed.table("settings", "Settings: method")["hidden"] == ["16"]
    assert parsed.table("settings", "Settings: training")["seed"] == ["1"]
    assert parsed.table("settings", "Settings: versions")["torch"] == [metrics["machine"]["torch"]]
    assert "The folder has no train.toml" in parsed.section("settings").text
    (copy / "train.toml").write_text("")
    assert "multidomain train --config MODEL/train.toml" in Parsed(new_page(copy)).section("settings").text
