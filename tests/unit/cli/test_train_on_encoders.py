"""A pretrained encoder from the command line: train, predict, explain, evaluate, and what is refused."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from multidomain.runs.config import TrainConfig

Run = Callable[..., tuple[int, str, str]]
QUICK = ("--max-epochs", "1", "--max-subwords", "8", "--set", "shared_size=8")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "reviews.csv"
    rows = ["text,label,domain"]
    for i in range(60):
        label, word = ("pos", "great") if i % 2 else ("neg", "awful")
        thing, domain = ("book", "a") if i % 4 < 2 else ("pan", "b")
        rows.append(f"the {thing} was {word} {'so ' * (i % 7)}{i},{label},{domain}")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_from_training_to_explanations(run: Run, table: Path, tiny_encoder: Path, tmp_path: Path):
    model = str(tmp_path / "model")
    options = ("--method", "sp", "--encoder", str(tiny_encoder), "--set", "encoder.private=lora", *QUICK)
    code, out, err = run("train", str(table), "-o", model, *options)
    assert code == 0, err
    assert "texts of 60 have more than 8 subwords; the encoder reads their beginnings and ends" in err
    manifest = json.loads((tmp_path / "model" / "model.json").read_text())
    assert manifest["settings"]["encoder"]["config"]["width"] == 32
    assert 'source = "' in (tmp_path / "model" / "train.toml").read_text()

    new = tmp_path / "new.csv"
    new.write_text(f'text,domain\n"a great pan",b\n"{"good " * 200_000}",a\n"  ",a\n"so so",nowhere\n')
    code, out, err = run("predict", model, str(new), "-o", str(tmp_path / "predicted.csv"))
    assert code == 0, err
    cells = [line.rsplit(",", 2)[1:] for line in (tmp_path / "predicted.csv").read_text().splitlines()]
    assert [bool(answer) for answer, _ in cells[1:]] == [True, True, False, True]

    code, out, err = run("explain", model, "a great pan", "--domain", "b", "--json")
    assert code == 0, err
    words = json.loads(out)["words"]
    assert [word["text"] for word in words] == ["a", "great", "pan"]
    assert any(word["private"] for word in words) and any(word["shared"] for word in words)

    code, out, err = run("evaluate", model, str(table))
    assert code == 0, err


def test_an_ensemble_with_the_sparse_path(run: Run, table: Path, tiny_encoder: Path, tmp_path: Path):
    encoder, both = str(tmp_path / "encoder"), str(tmp_path / "both")
    code, _, err = run("train", str(table), "-o", encoder, "--method", "mlp", "--encoder", str(tiny_encoder), *QUICK)
    assert code == 0, err
    own = ("--set", f"members=sped,{encoder}", "--set", "combine=logits")
    code, out, err = run("train", str(table), "-o", both, "--method", "ensemble", *own)
    assert code == 0, err
    said = " ".join(out.split())  # lines are wrapped
    assert "weight of 1 sped" in said and "weight of 2 mlp" in said
    code, out, err = run("explain", both, "a great pan", "--json")
    assert code == 0, err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--encoder", "minilmm"), "There is no encoder 'minilmm'"),
        (("--encoder", ""), "The encoder has no name"),
        (("--encoder", "TINY", "--max-subwords", "500"), "reads at most 160 subwords"),
        (("--extractor", "encoder"), "needs to know which: encoder=minilm, mpnet or a folder"),
        (("--encoder", "TINY", "--set", "encoder.rank=x"), "'encoder.rank'"),
        (("--encoder", "TINY", "--extractor", "cnn"), "'encoder' has no effect with extractor 'cnn'"),
        (("--encoder", "TINY", "--max-features", "100"), "'sp' reads subwords with these settings"),
        (("--max-subwords", "100"), "'sp' reads ngrams with these settings"),
    ],
)
def test_what_is_refused(
    options: tuple[str, ...], said: str, run: Run, table: Path, tiny_encoder: Path, tmp_path: Path
):
    given = [str(tiny_encoder) if one == "TINY" else one for one in options]
    code, _, err = run("train", str(table), "-o", str(tmp_path / "model"), "--method", "sp", *given)
    assert code == 2 and said in " ".join(err.split())
    assert not (tmp_path / "model" / "model.json").exists()


def test_the_settings_on_the_page_are_valid():
    page = (Path(__file__).parents[3] / "docs" / "encoders.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    config = TrainConfig.parse_all(tomllib.loads(block))
    assert config.run.requirements.featurizer == "subwords"
    assert config.run.entry.settings(config.settings).encoder.frozen_layers == 2


def test_a_dry_run_says_whether_the_encoder_is_there(run: Run, table: Path, tmp_path: Path):
    options = ("-o", str(tmp_path / "model"), "--method", "sp", "--dry-run")
    code, _, err = run("train", str(table), *options, "--encoder", str(tmp_path / "nowhere"))
    assert code == 2 and "There is no encoder" in err
