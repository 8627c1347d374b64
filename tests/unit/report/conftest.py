"""Small models, trained by the real command, whose folders are reported on."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from multidomain.cli import main as cli

SMALL = ["--method", "man-nll", "--set", "hidden=16", "--set", "lr=0.01", "--max-epochs", "3", "--seed", "1"]
HOSTILE = ("<b>x</b>", 'a "quoted" & b', "</td><script>alert(1)</script>")
CLASSES = {"good": "great", "<i>bad</i>": "awful", "so & so": "plain"}


def train(folder: Path, data: object, *arguments: object, warning: str = "") -> Path:
    result = CliRunner().invoke(
        cli.app, ["train", str(data), "-o", str(folder), *map(str, arguments)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    warnings = [line for line in lines if "label-next" not in line]  # small domains without labels are uncertain
    assert [line[len("warning: ") :][: len(warning)] for line in warnings] == ([warning] if warning else [])
    return folder


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def man(place: Path) -> Path:
    """MAN with an unlabelled domain: everything that a report can show is there."""
    return train(place / "man", "demo", "--unlabelled", "shoes", *SMALL)


@pytest.fixture(scope="session")
def fitted(place: Path) -> Path:
    """A method that does not learn in epochs and has no features."""
    return train(place / "fitted", "demo", "--method", "fa-lr")


@pytest.fixture(scope="session")
def specific(place: Path) -> Path:
    """No shared features, and answers only for domains that were in training."""
    return train(place / "specific", "demo", *SMALL, "--method", "mlp", "--set", "category=domain-specific")


@pytest.fixture(scope="session")
def joined_models(place: Path) -> Path:
    """An ensemble, whose log tells of epochs and of values tried."""
    members = ["--set", "members=man-nll,fa-lr"]
    return train(place / "joined", "demo", "--method", "ensemble", *members, "--max-epochs", "2")


def write_texts(path: Path, rows: list[list[str]], header: list[str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture(scope="session")
def hostile(place: Path) -> Path:
    """Names and texts that are markup, three classes, long texts, and a domain without any label."""
    random, rows = np.random.default_rng(1), []
    for domain in (*HOSTILE, "mute"):
        for number in range(60):
            label = list(CLASSES)[number % 3]
            word = CLASSES[label] if random.random() < 0.6 else str(random.choice(list(CLASSES.values())))
            text = (
                f"<script>alert('{number}')</script> {word} \x07 {'and more ' * (60 if number % 5 == 0 else 1)}{domain}"
            )
            rows.append([text, "" if domain == "mute" else label, domain])
    data = write_texts(place / "hostile.csv", rows, ["text", "label", "domain"])
    return train(place / "hostile", data, *SMALL)


@pytest.fixture(scope="session")
def unscored(place: Path) -> Path:
    """No test row has a label, and no development row either."""
    rows = []
    for number in range(80):
        # The text does not tell the domain: the meter of invariance would take its time over domains fully apart.
        domain, part = ("pans", "phones")[number // 40], ("train", "train", "dev", "test")[number % 4]
        label, word = (("good", "great"), ("bad", "awful"))[number // 4 % 2]
        rows.append([f"{word} {number}", label if part == "train" else "", domain, part])
    data = write_texts(place / "u.csv", rows, ["text", "label", "domain", "split"])
    return train(place / "unscored", data, *SMALL, warning="The dev set has no labelled rows")


@pytest.fixture(scope="session")
def vectors(place: Path) -> Path:
    """Vectors in place of texts."""
    random = np.random.default_rng(0)
    (place / "vectors-data").mkdir()
    for domain in ("books", "dvd"):
        lines = []
        for number in range(80):
            label = 1 if number % 2 else -1
            values = random.normal(size=4).round(3) + np.array([label, 0, 0, 0])
            lines.append(f"{label} " + " ".join(f"{i}:{value}" for i, value in enumerate(values, start=1)))
        (place / "vectors-data" / f"{domain}.svmlight").write_text("\n".join(lines) + "\n")
    return train(place / "vectors", place / "vectors-data", "--weighting", "raw", *SMALL)
