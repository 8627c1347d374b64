"""10,000 domains in the command line: seconds, and tables that fit on a screen."""

from __future__ import annotations

import csv
import json
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from multidomain.cli.data_tables import shown_domains, split_table, summary_table
from multidomain.cli.render import evaluation_table, unlabelled_table, verdict_lines
from multidomain.data.checks import summarise
from multidomain.data.corpus import Corpus
from multidomain.data.splits import holdout_split
from multidomain.evaluation.evaluate import DomainScore, Evaluation
from multidomain.runs.unlabelled import UnlabelledDomain

N_DOMAINS = 10_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "many.csv"
    random_ = random.Random(0)
    words = [f"w{i}" for i in range(5000)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "domain"])
        for i in range(10 * N_DOMAINS):
            d = i % N_DOMAINS
            label = "" if d % 7 == 0 else random_.choice(["good", "bad"])
            writer.writerow([" ".join(random_.choices(words, k=15)), label, f"domain {d}"])
    return path


def cpu_seconds(*command: object) -> tuple[float, str, str]:
    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    done = subprocess.run([sys.executable, "-m", "multidomain", *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return used() - before, done.stdout, done.stderr


def test_inspect_takes_seconds(table: Path):
    seconds, out, _ = cpu_seconds("inspect", table)
    assert seconds < 8  # 1.6 where this was written; 12 when every domain looked at all rows and was printed
    assert "100,000 rows, 10,000 domains" in out
    assert len(out.splitlines()) < 60


def test_a_dry_run_takes_seconds(table: Path, tmp_path: Path):
    seconds, out, err = cpu_seconds("train", table, "--dry-run", "-o", tmp_path / "m")
    assert seconds < 15  # 4.4 where this was written, 3 of them for start-up; 74 before
    assert "and 9,970 more" in out
    assert "cannot be scored: no test row has a label" in out
    assert len(out.splitlines()) < 120
    assert len(err.splitlines()) < 5


def test_json_holds_every_domain(table: Path):
    _, out, _ = cpu_seconds("inspect", table, "--json")
    found = json.loads(out)
    assert (found["rows"], found["class_names"], len(found["domains"])) == (100_000, ["bad", "good"], N_DOMAINS)
    assert found["domains"]["domain 7"] == {
        "rows": 10,
        "labelled": 0,
        "per_class": {"bad": 0, "good": 0},
        "repeated_texts": 0,
        "conflicting_texts": 0,
    }


def lines(table: Table) -> list[str]:
    console = Console(width=200, record=True)
    with console.capture() as captured:
        console.print(table)
    return captured.get().splitlines()


def test_fifty_domains_are_shown_in_their_order():
    assert shown_domains(list(range(50)), [0] * 50) == list(range(50))


def test_of_more_the_largest_the_smallest_and_the_troubled_are_shown_by_size():
    trouble = [0.0] * 100
    trouble[50], trouble[40] = 2, 1
    assert shown_domains(list(range(100)), trouble) == [*range(99, 79, -1), 50, 40, *range(9, -1, -1)]


def test_a_summary_names_those_with_conflicts():
    texts = [f"{d} {i}" for d in range(60) for i in range(d + 2)]
    domains = [f"domain {d}" for d in range(60) for _ in range(d + 2)]
    labels = ["x" if i % 2 else "y" for i in range(len(texts))]
    at = domains.index("domain 30")
    texts[at] = texts[at + 1]
    shown = lines(summary_table(summarise(Corpus(texts, labels, domains))))
    assert any(line.split("│")[1].strip() == "domain 30" for line in shown if line.startswith("│"))
    assert any("and 29 more" in line for line in shown)
    assert "prints all" in shown[-1]


def test_a_long_rule_is_cut_in_the_title_only():
    corpus = Corpus([f"t{i}" for i in range(400)], ["x", "y"] * 200, [f"domain {i % 100}" for i in range(400)])
    split = holdout_split(corpus).hide_labels(corpus, corpus.domain_names[1:])
    title = str(split_table(corpus, split).title)
    assert "domain 98, domain 99" in split.rule
    assert "domain 20, domain 21" in title
    assert title.endswith(" ...")
    assert len(title) < 420


def test_scores_of_many_domains():
    scores = [DomainScore(f"domain {i}", True, 1000 + i, 0.9, 0.9) for i in range(200)]
    scores[100] = DomainScore("worst", True, 1100, 0.1, 0.1)
    shown = lines(evaluation_table(Evaluation(scores), "title"))
    assert any("worst" in line for line in shown)
    assert any("mean of domains" in line for line in shown)
    assert any("more" in line for line in shown)
    assert len(shown) < 60


def test_many_domains_without_labels():
    domains = [UnlabelledDomain(f"domain {i}", 0, None, {"x": 1.0}, 0.5 if i == 90 else 0.0) for i in range(100)]
    shown = lines(unlabelled_table(domains))
    assert any("domain 90" in line for line in shown), "the doubtful one"
    assert any("and 70 more" in line for line in shown)
    said = verdict_lines(domains)
    assert len(said) == 17
    assert said[-1] == "(84 more domains are not listed.)"
    assert verdict_lines(domains[:2]) == [one.verdict for one in domains[:2]]
