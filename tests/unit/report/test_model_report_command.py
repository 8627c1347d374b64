"""The command 'report' on a model's folder: where it writes, and what it refuses."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from multidomain.errors import ConfigError, ModelError
from multidomain.model.model import Model
from multidomain.report.model.page import write_model_report

Run = Callable[..., tuple[int, str, str]]


def test_the_command_writes_beside_the_model_or_where_it_is_told(run: Run, man: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(man, tmp_path / "copy")
    code, output, _ = run("report", copy)
    assert (code, output.strip()) == (0, str(copy / "report.html"))
    assert run("report", copy, "-o", tmp_path / "new" / "mine.html")[0] == 0
    assert (tmp_path / "new" / "mine.html").read_bytes() == (copy / "report.html").read_bytes()
    assert not list(copy.glob(".*.partial"))


def test_a_link_in_a_folder_from_anyone_is_not_written_through(run: Run, man: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(man, tmp_path / "copy")
    (tmp_path / "letter.txt").write_text("mine")
    (copy / "report.html").unlink(missing_ok=True)
    (copy / "report.html").symlink_to(tmp_path / "letter.txt")
    code, _, error = run("report", copy)
    assert code == 2 and "report.html is a link to another file, which is not replaced. Give --output FILE." in error
    assert (tmp_path / "letter.txt").read_text() == "mine"


def test_the_command_refuses_what_is_no_model(run: Run, man: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, what in (("empty", r"holds neither a model \(model.json\) nor records \(table1"), ("none", "does not")):
        code, _, error = run("report", tmp_path / folder)
        assert code == 2 and re.search(what, error) and "Give the folder of a trained model" in error
    (tmp_path / "empty" / "table1.jsonl").write_text("")
    code, _, error = run("report", tmp_path / "empty")
    assert code == 2 and "needs an output file: multidomain report" in error
    code, _, error = run("report", man, "-o", tmp_path / "report.pdf")
    assert code == 2 and "is one HTML file: give a name such as report.html" in error


def damage(name: str, content: str | None) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(content, encoding="utf-8")

    return do


def cut_answers(folder: Path) -> None:
    lines = (folder / "held_out.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "held_out.jsonl").write_text("".join(lines[:-5]), encoding="utf-8")


def strange_label(folder: Path) -> None:
    text = (folder / "held_out.jsonl").read_text(encoding="utf-8")
    (folder / "held_out.jsonl").write_text(text.replace('"positive"', '"other"', 1), encoding="utf-8")


def another_method(folder: Path) -> None:
    text = (folder / "metrics.json").read_text(encoding="utf-8")
    (folder / "metrics.json").write_text(text.replace('"method": "man-nll"', '"method": "sp"'), encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (damage("metrics.json", None), r"metrics\.json is missing: training has not finished"),
        (damage("metrics.json", "{"), r"metrics\.json is cut short or damaged \(.+\)"),
        (damage("metrics.json", "{}"), r"metrics\.json cannot be used: 'data': field required"),
        (damage("metrics.json", '{"settings": {}}'), r"metrics\.json cannot be used: 'data': field required.*another"),
        (damage("log.jsonl", None), r"log\.jsonl does not hold the 3 epochs of metrics\.json"),
        (damage("log.jsonl", "{}\n"), r"log\.jsonl cannot be used: 'epoch': field required"),
        (damage("log.jsonl", '{"epoch": 1'), r"log\.jsonl is cut short or damaged"),
        (damage("held_out.jsonl", None), r"does not hold the predictions for its held-out rows"),
        (damage("held_out.jsonl", "[]\n"), r"held_out\.jsonl, line 1, cannot be used"),
        (damage("held_out.safetensors", "x"), r"held_out\.safetensors is cut short or damaged"),
        (damage("model.json", "{}"), r"model\.json is cut short or damaged"),
        (cut_answers, r"does not match the model beside it|and metrics\.json disagree on the test rows"),
        (strange_label, r"held_out\.jsonl or held_out\.safetensors does not match the model beside it"),
        (another_method, r"metrics\.json is from a different run than the model beside it"),
    ],
)
def test_a_damaged_folder_is_refused_and_the_old_report_stays(
    run: Run, man: Path, tmp_path: Path, spoil: Callable[[Path], None], expected: str
) -> None:
    copy = shutil.copytree(man, tmp_path / "copy")
    (copy / "report.html").write_text("the old one")
    spoil(copy)
    code, output, error = run("report", copy)
    assert code == 2 and not output
    assert re.search(expected, error), error
    assert (copy / "report.html").read_text() == "the old one"


def test_a_model_that_was_saved_without_a_run_is_refused(man: Path, tmp_path: Path) -> None:
    Model.load(man).save(tmp_path / "only")
    with pytest.raises(ModelError, match=r"the model was not made by 'multidomain train'"):
        write_model_report(tmp_path / "only")
    with pytest.raises(ConfigError, match="one HTML file"):
        write_model_report(man, tmp_path)
