"""Methods that are not of this package: of an installed one, and of a single file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
METHOD_FILE = HERE / "example_plugin/src/example_plugin/nearest_centroid.py"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that has this package, what it needs, and the example."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    own = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True
    ).stdout.strip()
    # What is installed here stands there too, read only; the example is really built and installed.
    here = [path for path in sys.path if path.endswith("site-packages")]
    Path(own, "installed_here.pth").write_text("\n".join([*here, str(HERE.parents[1] / "src")]) + "\n")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-qq", "--no-deps"]
    done = subprocess.run([*command, str(HERE / "example_plugin")], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the example cannot be built here: {done.stderr[-300:]}")
    return python


def call(python: Path, *arguments: object, code: int = 0) -> str:
    done = subprocess.run(
        [python, "-m", "multidomain", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


@pytest.mark.network
def test_a_package_brings_a_method_and_a_corpus(python: Path, tmp_path: Path):
    listed = {entry["name"]: entry for entry in json.loads(call(python, "methods", "--json").split("\nwarning")[0])}
    assert listed["nearest-centroid"]["settings"] == {"sharpness": 10.0}
    assert "cannot-be-imported" in call(python, "methods") and "sped" in listed
    assert "weather" in call(python, "corpora")

    model = tmp_path / "model"
    said = call(python, "train", "weather", "-o", model, "--method", "nearest-centroid", "--set", "sharpness=5")
    assert "chosen: {'sharpness': 5.0}" in said
    assert "100.00" in call(python, "evaluate", model, "weather")
    (tmp_path / "new.csv").write_text("text,domain\nso sunny,york\nvery foggy,bath\n", encoding="utf-8")
    call(python, "predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert [line.split(",")[2] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]] == ["good", "bad"]

    script = (
        "from multidomain import MultiDomainClassifier, load_corpus\n"
        "c = load_corpus('weather')\n"
        "m = MultiDomainClassifier('nearest-centroid').fit(c.documents, c.labels, domains=c.domains)\n"
        "print(m.predict(['rainy'], domains=['york'])[0])"
    )
    done = subprocess.run([python, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "bad", done.stderr


@pytest.mark.network
def test_reproduce_knows_it(python: Path, tmp_path: Path):
    recipe = 'title = "Ours"\nprotocol = "five-fold"\n[[rows]]\ncategory = "shared"\nsystem = "Centroid"\n'
    (tmp_path / "ours.toml").write_text(recipe + 'method = "nearest-centroid"\nextractor = "linear"\n')
    env = {**os.environ, "MULTIDOMAIN_DATA": os.environ.get("MULTIDOMAIN_DATA", str(HERE.parents[2] / "shared/data"))}
    if not Path(env["MULTIDOMAIN_DATA"], "amazon").is_dir():
        pytest.skip("needs the benchmark corpus 'amazon': set MULTIDOMAIN_DATA to the folder that holds it")
    done = subprocess.run(
        [python, "-m", "multidomain", "reproduce", "ours.toml", "--smoke"],
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    records = (tmp_path / "results/smoke/ours.jsonl").read_text().splitlines()
    assert json.loads(records[0])["method"] == "nearest-centroid"


def test_a_folder_never_brings_its_own_code(tmp_path: Path):
    """In a process that does not have the method the model is refused, until the file is given."""
    (tmp_path / "reviews.csv").write_text(_reviews(), encoding="utf-8")
    model = tmp_path / "model"
    call(
        Path(sys.executable),
        "train",
        tmp_path / "reviews.csv",
        "-o",
        model,
        "--method",
        f"{METHOD_FILE}:NearestCentroid",
    )
    assert json.loads((model / "model.json").read_text())["method"] == "nearest-centroid"
    refused = call(Path(sys.executable), "evaluate", model, tmp_path / "reviews.csv", code=2)
    assert "'nearest-centroid', which no installed package has" in refused
    assert "--method FILE.py:Class" in refused
    scored = call(
        Path(sys.executable), "evaluate", model, tmp_path / "reviews.csv", "--method", f"{METHOD_FILE}:NearestCentroid"
    )
    assert "mean of domains" in scored


def test_a_file_without_such_a_method(run: Run, tmp_path: Path):
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("import nowhere\n")
    (tmp_path / "reviews.csv").write_text(_reviews(), encoding="utf-8")
    train = ("train", tmp_path / "reviews.csv", "-o", tmp_path / "m", "--method")
    for given, said in (
        (f"{tmp_path}/empty.py:Nothing", "registers no method of a class 'Nothing'. It registers no method."),
        (f"{tmp_path}/broken.py:Nothing", "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        (f"{tmp_path}/missing.py:Nothing", "There is no Python file"),
        (f"{METHOD_FILE}:Nothing", "It registers 'NearestCentroid'."),
    ):
        code, _, err = run(*train, given)
        assert code == 2 and said in err, err


def _reviews() -> str:
    rows = ["text,label,domain"]
    for domain in ("books", "pans"):
        for i in range(40):
            rows.append(f"{('fine', 'poor')[i % 2]} {domain} number {i},{('yes', 'no')[i % 2]},{domain}")
    return "\n".join(rows) + "\n"
