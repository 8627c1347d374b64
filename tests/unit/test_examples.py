"""Every example in a docstring is run, and every method and public class has one."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import multidomain
from multidomain.methods.registry import METHODS

MODULES = [module.name for module in pkgutil.walk_packages(multidomain.__path__, "multidomain.")]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


NEEDS = {"multidomain.engines.ray": "ray", "multidomain.engines.spark": "pyspark"}


def examples(name: str) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder(exclude_empty=True).find(import_module(name), name) if test.examples]


@pytest.mark.parametrize("name", [name for name in MODULES if name != "multidomain.__main__"])
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    said: list[str] = []
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    for test in examples(name):
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


def public_classes() -> list[type]:
    public = [getattr(multidomain, name) for name in multidomain.__all__]
    return [thing for thing in public if inspect.isclass(thing) and not issubclass(thing, Warning)]


CLASSES = sorted({*public_classes(), *(entry.method for entry in METHODS.values())}, key=lambda class_: class_.__name__)


@pytest.mark.parametrize("class_", CLASSES, ids=lambda class_: class_.__name__)
def test_there_is_one(class_: type):
    assert ">>> " in (class_.__doc__ or "")


@pytest.mark.parametrize("name", [name for name in multidomain.__all__ if name != "__version__"])
def test_what_is_public_is_documented(name: str):
    assert inspect.getdoc(getattr(multidomain, name))


@pytest.mark.parametrize("name", multidomain.__all__)
def test_what_is_public_is_no_module(name: str):
    """A package of the same name would hide a function once it is imported."""
    import_module("multidomain.cli.main")
    assert not inspect.ismodule(getattr(multidomain, name))
    assert f"multidomain.{name}" not in MODULES
