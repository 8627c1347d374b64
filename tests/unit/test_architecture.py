"""What keeps the house in order: nobody asks what type a method is, and no import goes round in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "multidomain"
FILES = sorted(SOURCE.rglob("*.py"))
# Names of classes by which code could tell one method, featurizer, extractor or their settings from another.
BASES = ("Method", "Featurizer", "Extractor", "SourcesAndTarget", "ExtractorSettings", "LinearMethod")


def module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def subclasses() -> set[str]:
    """Every method, featurizer and extractor of the package and the settings of methods, by class name."""
    bases = {
        node.name: [ast.unparse(base) for base in node.bases]
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    found = set(BASES)
    while more := {name for name, of in bases.items() if name not in found and found & set(of)}:
        found |= more
    in_methods = {
        node.name
        for path in (SOURCE / "methods").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Settings")
    }
    return found | in_methods


def switches(path: Path, kinds: set[str]) -> Iterator[str]:
    """Every place that tells such types apart: by isinstance or issubclass, by a name, by an attribute one may have."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names = {n.id for argument in node.args[1:] for n in ast.walk(argument) if isinstance(n, ast.Name)}
            if node.func.id in ("isinstance", "issubclass") and names & kinds:
                yield f"{path.name}:{node.lineno} {ast.unparse(node)}"
        if isinstance(node, ast.Compare):
            text = ast.unparse(node)
            left = ast.unparse(node.left)
            if left.endswith(("method", "method_name")) and any(
                isinstance(other, ast.Constant) and isinstance(other.value, str) for other in node.comparators
            ):
                yield f"{path.name}:{node.lineno} {text}"


@pytest.mark.parametrize("path", FILES, ids=[module(path) for path in FILES])
def test_nobody_outside_asks_for_a_type(path: Path):
    kinds = subclasses()
    of_methods = {name for name in kinds if not name.endswith(("Featurizer", "Extractor"))}
    package = path.relative_to(SOURCE).parts[0]
    allowed = {
        "methods": {*of_methods, "Extractor"},  # a network collects its extractors
        "features": {name for name in kinds if name.endswith("Featurizer")},
        "nn": {name for name in kinds if name.endswith("Extractor")},
        "bench": kinds,  # the textbook is written from a network's parts
    }.get(package, set())
    assert list(switches(path, kinds - allowed)) == []


def test_the_count_finds_a_switch(tmp_path: Path):
    """The check above can fail."""
    (tmp_path / "bad.py").write_text(
        'isinstance(x, MAN)\nissubclass(y, (int, NgramFeaturizer))\nrun.method == "sped"\n'
    )
    assert len(list(switches(tmp_path / "bad.py", subclasses()))) == 3


def imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        yield node.module
        yield from (f"{node.module}.{name.name}" for name in node.names)
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)


def test_no_cycle_is_hidden_in_a_function():
    """With the imports inside functions and those for type checking, too, modules form no circle."""
    known = {module(path) for path in FILES}
    graph = {
        module(path): {
            name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for name in imports(node)
            if name in known and name != module(path)
        }
        for path in FILES
    }
    graph["multidomain"] = set()  # the public face names everything, for type checkers
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way[way.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*way, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_low_layers_know_no_option_of_the_command_line():
    """A flag stands in the package `cli` alone; elsewhere a hint names the setting. What a user copies is a command."""
    flag = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
    commands = (
        "multidomain train --config",
        "multidomain reproduce",
        "multidomain predict",
        "pip",
        "--no-deps",
        "--hash",
        "curl",
        "--share",
    )
    found = []
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documentation = {id(node.body[0].value) for node in ast.walk(tree) if _has_docstring(node)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if id(node) not in documentation and not any(command in text for command in commands):
                found += [f"{module(path)}: {m[0]}" for m in flag.finditer(text)]
    of_pip = ("multidomain.data.named.vader", "multidomain.data.named.through_pip")
    elsewhere = ("multidomain.cli.", *of_pip, "multidomain.report.tables.results")  # commands
    assert [place for place in found if not place.startswith(elsewhere)] == []


def _has_docstring(node: ast.AST) -> bool:
    holds = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    return holds and ast.get_docstring(node) is not None  # type: ignore[arg-type]
