"""What works without torch, as after a plain ``pip install multidomain``, and what is said where it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from multidomain.runs.choice import Candidate

# As if torch were not installed: it is neither found nor among the distributions.
NOT_INSTALLED = """
import sys
from importlib.machinery import PathFinder


class WithoutTorch(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "torch" else super().find_spec(name, path, target)

    @classmethod
    def find_distributions(cls, *context):
        return (found for found in super().find_distributions(*context) if not found._path.name.startswith("torch-"))


assert "torch" not in sys.modules
sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTorch
"""
PIP = "Run: pip install 'multidomain[networks]'"
LINEAR = ["cmsc-lr", "cmsc-ls", "cmsc-svm", "fa-lr", "fa-svm", "lr", "ls", "majority", "msda", "mtl-graph", "rmtl"]
LINEAR += ["self-training", "sped", "svm"]


def run_program(program: str, *arguments: object, before: str = NOT_INSTALLED) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", before + textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"}, timeout=300
    )


def result_of(program: str, *arguments: object, before: str = NOT_INSTALLED) -> Any:
    """What a program of its own prints last, as JSON."""
    done = run_program(program, *arguments, before=before)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def command(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    program = f"""
    import os, sys
    os.chdir({str(folder)!r})
    sys.argv[0] = "multidomain"
    from multidomain.cli.main import main
    main()
    """
    return run_program(program, *arguments)


def test_torch_cannot_be_imported_here():
    program = """
    import json
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec
    said = []
    for name in ("torch", "torch.nn"):
        try:
            __import__(name)
        except ModuleNotFoundError as error:
            said.append(error.name)
    try:
        version("torch")
    except PackageNotFoundError:
        said.append("no distribution")
    print(json.dumps([*said, find_spec("torch"), version("numpy") > "1"]))
    """
    assert result_of(program) == ["torch", "torch", "no distribution", None, True]


# The registry of methods


@pytest.mark.parametrize("name", LINEAR)
def test_looking_up_a_method_that_is_no_network_imports_no_torch(name: str):
    """Though it is installed."""
    program = """
    import json, sys
    from multidomain.methods.registry import METHODS
    METHODS[sys.argv[1]]
    networks = sorted(name for name in sys.modules if name.startswith("multidomain.methods.adversarial."))
    print(json.dumps([networks, "torch" in sys.modules]))
    """
    assert result_of(program, name, before="") == [[], False]


def test_methods_are_listed_without_networks():
    program = """
    import json
    from multidomain.methods.registry import METHODS
    print(json.dumps([list(METHODS), len(METHODS), METHODS.broken, sorted(p for p, _ in METHODS.missing.values())]))
    """
    names, n, broken, missing = result_of(program)
    assert set(LINEAR) <= set(names) and n == len(names)
    assert {"ensemble"} == set(names) - set(LINEAR)
    assert broken == {} and set(missing) == {"torch"}


@pytest.mark.parametrize("listed", [False, True], ids=["at once", "after listing"])
def test_networks_say_what_to_install(listed: bool):
    names = ["man-nll", "man-l2", "sp", "mlp", "dann", "mdan-hmax", "cnn", "asp-mtl", "can"]
    program = """
    import json, sys
    from multidomain.errors import ConfigError
    from multidomain.methods.registry import METHODS
    listed, *names = sys.argv[1:]
    if listed == "True":
        list(METHODS)
    said = []
    for name in names:
        assert name not in METHODS
        try:
            METHODS.find(name)
        except ConfigError as error:
            said.append(str(error))
    print(json.dumps(said))
    """
    expected = [f"The method '{name}' needs torch, which is not installed. {PIP}" for name in names]
    assert result_of(program, listed, *names) == expected


def test_an_unknown_name_is_still_unknown():
    program = """
    import json
    from multidomain.errors import ConfigError
    from multidomain.methods.registry import METHODS
    try:
        METHODS.find("fa-lx")
    except ConfigError as error:
        print(json.dumps(str(error)))
    """
    assert result_of(program).startswith("There is no method 'fa-lx'. Did you mean 'fa-lr'? Valid: ")


def test_what_is_needed_and_what_is_installed():
    """An ensemble has a network among its default members."""
    program = """
    import json
    from multidomain.methods.registry import METHODS, installed_methods
    needed = [METHODS.needed_for(name) for name in ("man-nll", "sped", "fa-lx")]
    print(json.dumps([needed, sorted(entry.name for entry in installed_methods())]))
    """
    assert result_of(program) == [["torch", None, None], sorted(LINEAR)]


def test_the_list_of_methods_says_what_is_not_listed(tmp_path: Path):
    done = command("methods", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(method["name"] for method in json.loads(done.stdout)) == sorted(LINEAR)
    assert done.stderr.strip() == "not listed: methods that need torch (pip install 'multidomain[networks]')"


def test_auto_refuses_a_network_that_is_named_and_says_what_to_install():
    program = """
    import json, sys
    from multidomain.errors import ConfigError
    from multidomain.runs.auto import AutoSettings
    try:
        AutoSettings.parse({"methods": ["fa-lr", "man-nll"]})
    except ConfigError as error:
        print(json.dumps(str(error)))
    """
    said = result_of(program)
    assert "'man-nll' needs torch, which is not installed" in said and PIP.removeprefix("Run: ") in said


def test_auto_says_what_it_leaves_out():
    left_out = Candidate("man-nll", None, None, 0.0, needs="torch")
    assert str(left_out) == "man-nll left out: it needs torch (pip install 'multidomain[networks]')"


# Training, saving, loading, predicting and explaining

WHOLE_WAY = """
import json, sys
import numpy as np
from multidomain import Model, RunSettings, corpus_from_rows, train_model
from multidomain.data.splits import holdout_split
from multidomain.explain.occlusion import explain

name, folder = sys.argv[1:]
words = {"good": ["fine", "superb"], "bad": ["poor", "awful"]}
rows = [(f"{words[y][i % 2]} {d} no{i}", y if d != "toys" else None, d)
        for i in range(20) for y in words for d in ("books", "pans", "toys")]
corpus = corpus_from_rows(*(list(column) for column in zip(*rows)))
trained = train_model(corpus, holdout_split(corpus), RunSettings(method=name))
trained.model.save(folder)
model = Model.load(folder)
texts, domains = ["a superb book", "an awful pan", "a fine toy"], ["books", "pans", "toys"]
p = model.predict_proba(texts, domains)
assert np.allclose(p, trained.model.predict_proba(texts, domains), rtol=1e-5, atol=1e-7)
added = {word.text: word.total for word in explain(model, "a superb book", "books", target="good").words}
print(json.dumps([list(model.predict(texts, domains)), added, "torch" in sys.modules]))
"""


@pytest.mark.parametrize("name", ["sped", "fa-lr", "majority", "msda", "cmsc-lr", "mtl-graph", "self-training"])
def test_the_whole_way(name: str, tmp_path: Path):
    predicted, added, imported = result_of(WHOLE_WAY, name, tmp_path)
    assert not imported
    assert added.keys() == {"a", "superb", "book"}
    if name != "majority":
        assert predicted == ["good", "bad", "good"]
        assert added["superb"] == max(added.values()) > 1e-3


@pytest.mark.parametrize("name", ["sped", "fa-lr"])
def test_with_torch_at_hand_it_is_not_imported_either(name: str, tmp_path: Path):
    assert result_of(WHOLE_WAY, name, tmp_path, before="")[2] is False


@pytest.mark.parametrize("name", ["sped", "fa-lr"])
def test_the_whole_way_by_commands(name: str, tmp_path: Path):
    done = command("train", "demo", "-o", "model", "--method", name, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model" / "metrics.json").exists()
    machine = json.loads((tmp_path / "model" / "metrics.json").read_text(encoding="utf-8"))["machine"]
    assert "torch" not in machine and machine["numpy"] and machine["threads"] >= 1
    (tmp_path / "rows.csv").write_text("text,domain\nthey broke after a week,shoes\n", encoding="utf-8")
    for arguments in (
        ["predict", "model", "rows.csv", "-o", "out.csv"],
        ["evaluate", "model", "demo"],
        ["explain", "model", "they broke after a week", "--domain", "shoes"],
        ["report", "model"],
        ["methods"],
    ):
        done = command(*arguments, folder=tmp_path)
        assert done.returncode == 0, (arguments, done.stderr)
        assert "Traceback" not in done.stderr


def test_the_estimator():
    program = """
    import json
    from multidomain import MultiDomainClassifier
    texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    model = MultiDomainClassifier(random_state=0).fit(texts, labels, domains=domains)
    print(json.dumps(list(model.predict(["such a fine pan"], domains=["pans"]))))
    """
    assert result_of(program) == ["good"]


def test_a_command_for_a_network_says_what_to_install(tmp_path: Path):
    done = command("train", "demo", "-o", "model", "--method", "man-nll", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().endswith(f"The method 'man-nll' needs torch, which is not installed. {PIP}")
    assert not (tmp_path / "model").exists()


SAVED = Path(__file__).parents[1] / "compat" / "v0.1"


@pytest.mark.parametrize(("folder", "needed"), [("man-nll", "man-nll"), ("ensemble", None)])
def test_a_saved_network_says_what_to_install(folder: str, needed: str | None):
    program = """
    import json, sys
    from multidomain import Model
    from multidomain.errors import MultidomainError
    try:
        Model.load(sys.argv[1])
    except MultidomainError as error:
        print(json.dumps(str(error)))
    """
    said = result_of(program, SAVED / folder)
    assert "needs torch, which is not installed" in said and PIP in said
    assert needed is None or f"'{needed}'" in said


def test_cuda_is_not_there():
    program = """
    import json
    from multidomain.errors import ConfigError
    from multidomain.training.train import resolved_device
    try:
        resolved_device("cuda")
    except ConfigError as error:
        print(json.dumps([resolved_device("auto"), resolved_device("cpu"), str(error)]))
    """
    auto, cpu, said = result_of(program)
    assert auto == cpu == "cpu" and "Device 'cuda' was asked for and there is none." in said
