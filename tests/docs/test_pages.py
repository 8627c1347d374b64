"""Every command and every piece of Python in README and docs runs, page by page and in its order.

Long commands are shrunk by ``--smoke``. Files that pages speak of (reviews.csv and so on) are made from the corpus
`demo`, with one domain unlabelled; Python whose first line names a file is written to it. Commands run in this process,
since importing torch takes longer than most of them; servers and lines that need a shell get processes of their own.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from make_walkthrough import wait_for_server

from encoders import write_encoder
from multidomain.data.named.registry import CORPORA, load_corpus
from multidomain.errors import FetchError
from multidomain.methods.registry import METHODS

Run = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# (\w+\.py)\n")
LONG = (
    "multidomain train",
    "torchrun --nproc-per-node 2 -m multidomain train",
    "multidomain reproduce",
    "multidomain tune",
)
FOR_A_SHELL = re.compile(r"(?!multidomain )|.*[|&;<>$`\\*?~(){}\[\]]")  # what bash may read in its own way
NOT_HERE = {  # and why
    "make": "what CI does anyway",
    "git": "this is the clone",
    "cd": "tests run in a folder of their own",
    "source": "tests run in the virtual environment",
    "pip": "installed by make",
}
NEEDS_DATA = ("amazon", "fdu-mtl", "table1", "table2", "table3")
BIN = Path(sys.executable).parent


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(block: str) -> list[str]:
    """The lines after a prompt, those that go on joined."""
    joined = block.replace("\\\n", " ")
    return [re.sub(r"\s+#.*$", "", line[2:]) for line in joined.splitlines() if line.startswith("$ ")]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that pages speak of."""
    corpus = load_corpus("demo").thinned(40)
    columns = {"text": corpus.documents, "label": corpus.labels, "domain": corpus.domains}
    rows = pl.DataFrame({name: list(values) for name, values in columns.items()})
    hidden = pl.when(pl.col("domain") == "shoes").then(None).otherwise(pl.col("label")).alias("label")
    rows.with_columns(hidden).write_csv(tmp_path / "reviews.csv")
    rows.with_columns(pl.col("text") + " More.").write_csv(tmp_path / "more-reviews.csv")
    (tmp_path / "parts").mkdir()
    for k, part in enumerate(rows.select("text", "domain").iter_slices(600)):
        part.write_parquet(tmp_path / "parts" / f"part-{k}.parquet")
    rows.drop("label").head(20).write_csv(tmp_path / "new.csv")
    # The pages' encoder is a small one here: tests fetch no weights.
    monkeypatch.setattr("multidomain.data.encoders.folder.fetch_encoder", lambda name: write_encoder(tmp_path / "tiny"))
    shutil.copytree(ROOT / "results", tmp_path / "results", ignore=shutil.ignore_patterns(".running"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


class Shell:
    """Runs the commands of a page; servers stay until it ends."""

    def __init__(self, run: Run) -> None:
        self._run_here = run
        self._servers: list[subprocess.Popen[bytes]] = []

    def run(self, command: str) -> None:
        if command.startswith(LONG):
            command += " --smoke"
        if command.startswith("multidomain reproduce") and "--only" not in command:
            command += " --only fa-lr"  # every method is trained elsewhere, and one of them is enough for the command
        if command.startswith("multidomain serve"):
            self._servers.append(subprocess.Popen(shlex.split(command)))
            wait_for_server()
            return
        if command.startswith("dask "):  # a worker waits for its scheduler, and what uses them for a worker
            self._servers.append(subprocess.Popen(shlex.split(command), stderr=subprocess.DEVNULL))
            return
        if FOR_A_SHELL.match(command):
            bash = ["bash", "-euo", "pipefail", "-c", command]
            done = subprocess.run(bash, capture_output=True, text=True, timeout=240)
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            code, out, err = self._run_here(*shlex.split(command)[1:])
        assert code == 0, f"{command}\n{out}\n{err}"

    def end(self) -> None:
        for server in reversed(self._servers):
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=30) in (0, -signal.SIGTERM)


@pytest.fixture
def shell(run: Run) -> Iterator[Shell]:
    shell = Shell(run)
    yield shell
    shell.end()


def in_use(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@cache
def names_after(code: str) -> dict[str, Any]:
    """Run code with no names yet; pages that begin with the same code wait for its training once."""
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def cases() -> list[object]:
    found = []
    for page in PAGES:
        text = "".join(body for _, body in blocks(page))
        needs_data = any(name in line for name in NEEDS_DATA for line in commands(text))
        marks = [pytest.mark.benchmark_data] if needs_data else []
        if any(kind == "console" or kind == "python" for kind, _ in blocks(page)):
            found.append(pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=marks))
    return found


@pytest.mark.parametrize("page", cases())
def test_what_a_page_tells_to_type_works(
    page: Path, workplace: Path, shell: Shell, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    if request.node.get_closest_marker("benchmark_data"):
        request.getfixturevalue("benchmark_data")
    if "multidomain fetch vader" in page.read_text(encoding="utf-8"):
        try:
            CORPORA["vader"].fetch(lambda file, size: None)
        except FetchError as error:
            pytest.skip(f"the corpus 'vader' cannot be had: {error}")
    if "multidomain serve" in page.read_text(encoding="utf-8") and in_use(8000):
        pytest.skip("port 8000 is in use")
    if "dask scheduler" in page.read_text(encoding="utf-8") and in_use(8786):
        pytest.skip("port 8786 is in use")
    monkeypatch.setattr(METHODS, "_entries", {**METHODS})  # what a page registers is gone after it
    names = None
    if page.name == "python.md":  # speaks of a model that the quick start has trained
        shell.run("multidomain train reviews.csv -o runs/reviews")
    for kind, body in blocks(page):
        if kind == "python" and (file := FILE_NAME.match(body)):
            (workplace / file[1]).write_text(body, encoding="utf-8")
        if kind == "python" and names is None:
            names = dict(names_after(ast.unparse(ast.parse(body, page.name))))
        elif kind == "python":
            exec(compile(body, page.name, "exec"), names)
        for command in commands(body) if kind == "console" else []:
            if command.split()[0] not in NOT_HERE:
                shell.run(command)


def test_commands_stand_in_blocks_that_are_run():
    for page in PAGES:
        for kind, body in blocks(page):
            if kind != "console":
                assert not re.search(r"^(\$ )?multidomain ", body, flags=re.MULTILINE), f"{page.name}: {body}"


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
