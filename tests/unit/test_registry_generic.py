"""Things known by name: the modules of a package, entry points of other distributions, and single files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from multidomain.errors import ConfigError
from multidomain.registry import Registry, module_from_file

GROUP = "some_things.group"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[str]]:
    """A package with a registry, whose modules have an apple and a pear."""
    write(tmp_path / "some_things" / "__init__.py", "")
    base = f"from multidomain.registry import Registry\nTHINGS = Registry('thing', __package__, '{GROUP}')\n"
    write(tmp_path / "some_things" / "base.py", base)
    for module, name in (("apple", "apple"), ("inner/deeper/pear", "pear")):
        path = tmp_path / "some_things" / f"{module}.py"
        write(path, f"from some_things.base import THINGS\nTHINGS.add('{name}', 'own {name}')\n")
    write(tmp_path / "some_things" / "inner" / "__init__.py", "")
    write(tmp_path / "some_things" / "inner" / "deeper" / "__init__.py", "")
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("some_things.base").THINGS
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("some_things", "foreign"):
            del sys.modules[name]


def install(folder: Path, points: dict[str, str], **modules: str) -> None:
    """Write a distribution beside the package, with entry points and modules of its own package `foreign`."""
    lines = "".join(f"{name} = {module}\n" for name, module in points.items())
    write(folder / "foreign-1.0.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    write(folder / "foreign-1.0.dist-info" / "entry_points.txt", f"[{GROUP}]\n{lines}")
    write(folder / "foreign" / "__init__.py", "")
    for name, text in modules.items():
        write(folder / "foreign" / f"{name}.py", text)


PLUM = "from some_things.base import THINGS\nTHINGS.add('plum', 'foreign plum')\n"


def test_modules_register_what_they_have_when_it_is_asked_for(things: Registry[str]):
    assert "some_things.apple" not in sys.modules
    assert things["pear"] == "own pear"
    assert "some_things.apple" not in sys.modules
    assert list(things) == ["apple", "pear"]  # by name
    assert "some_things.apple" in sys.modules
    assert len(things) == 2
    assert dict(things) == {"apple": "own apple", "pear": "own pear"}
    assert "apple" in things and "plum" not in things
    assert things.get("plum") is None
    with pytest.raises(KeyError):
        things["plum"]
    assert things.broken == {}


def add_module(folder: Path, module: str, text: str) -> None:
    write(folder / "some_things" / f"{module}.py", f"from some_things.base import THINGS\n{text}")


def test_only_the_modules_whose_source_names_an_entry_are_imported_for_it(things: Registry[str], tmp_path: Path):
    add_module(tmp_path, "plum", 'THINGS.add("plum", "own plum")\n')
    add_module(tmp_path, "fig", 'THINGS.add("fig", "own fig")  # beside a "plum"\n')
    add_module(tmp_path, "quince", "raise RuntimeError('rotten')\n")
    assert things["plum"] == "own plum"
    assert "some_things.fig" in sys.modules
    assert not {"some_things.apple", "some_things.quince"} & sys.modules.keys()
    assert things["fig"] == "own fig"
    (tmp_path / "some_things" / "quince.py").write_text("", encoding="utf-8")
    assert list(things) == ["apple", "fig", "pear", "plum"]


def test_a_module_that_names_an_entry_without_having_it_is_not_the_last_word(things: Registry[str], tmp_path: Path):
    add_module(tmp_path, "about", 'OTHER = "pear"\n')
    assert things["pear"] == "own pear"


def test_modules_that_need_an_extra_are_left_out_and_say_so(things: Registry[str], tmp_path: Path, without_torch: None):
    add_module(tmp_path, "plum", 'import torch\nTHINGS.add("plum", "own plum")\n')
    add_module(tmp_path, "fig", 'from torch import Tensor\nTHINGS.add("fig", "own fig")\n')
    assert list(things) == ["apple", "pear"]
    assert "plum" not in things and things.broken == {}
    for name in ("plum", "fig"):
        with pytest.raises(ConfigError) as caught:
            things.find(name)
        assert str(caught.value) == (
            f"The thing '{name}' needs torch, which is not installed. Run: pip install 'multidomain[networks]'"
        )
    with pytest.raises(
        ConfigError, match=r"^There is no thing 'aple'\. Did you mean 'apple'\? Valid: 'apple', 'pear'\.$"
    ):
        things.find("aple")


def test_a_module_that_needs_anything_else_is_an_error_of_ours(things: Registry[str], tmp_path: Path):
    add_module(tmp_path, "plum", 'import a_package_that_is_not_there\nTHINGS.add("plum", "own plum")\n')
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        list(things)


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


def test_an_entry_that_is_added_again_replaces_the_first(things: Registry[str]):
    things.add("apple", "another apple")
    assert "some_things.apple" not in sys.modules
    assert things["apple"] == "own apple"  # its module is imported after that
    things.add("apple", "another apple")
    assert things["apple"] == "another apple"


def test_find_names_the_near_ones(things: Registry[str]):
    assert things.find("apple") == "own apple"
    with pytest.raises(ConfigError) as caught:
        things.find("aple")
    assert str(caught.value) == "There is no thing 'aple'. Did you mean 'apple'? Valid: 'apple', 'pear'."
    with pytest.raises(ConfigError) as caught:
        things.find("xyz", also=("auto",))
    assert str(caught.value) == "There is no thing 'xyz'. Valid: 'auto', 'apple', 'pear'."
    with pytest.raises(ConfigError, match=r"There is no thing 'atuo'\. Did you mean 'auto'\?"):
        things.find("atuo", also=("auto",))


def test_another_distribution_s_module_is_imported_when_its_name_is_asked_for(things: Registry[str], tmp_path: Path):
    install(tmp_path, {"plum": "foreign.plum", "fig": "foreign.fig"}, plum=PLUM, fig="raise RuntimeError('rotten')")
    assert things["apple"] == "own apple"
    assert "foreign" not in sys.modules
    assert things["plum"] == "foreign plum"
    assert "foreign.fig" not in sys.modules
    assert things.broken == {}
    assert list(things) == ["apple", "pear", "plum"]  # to list them all, all are imported
    assert things.broken == {"fig": "RuntimeError: rotten"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise RuntimeError('rotten')", "RuntimeError: rotten"),
        ("import a_package_that_is_not_there", "ModuleNotFoundError: No module named 'a_package_that_is_not_there'"),
        ("this is no Python", "SyntaxError: "),
    ],
)
def test_entry_points_that_fail_take_nothing_else_down(things: Registry[str], tmp_path: Path, text: str, why: str):
    install(tmp_path, {"fig": "foreign.fig", "plum": "foreign.plum"}, fig=text, plum=PLUM)
    assert "fig" not in things
    assert things.broken.keys() == {"fig"}
    assert things.broken["fig"].startswith(why)
    assert dict(things) == {"apple": "own apple", "pear": "own pear", "plum": "foreign plum"}
    with pytest.raises(ConfigError) as caught:
        things.find("fig")
    assert str(caught.value).startswith(
        f"There is no thing 'fig'. An installed package has it but cannot be imported: {why}"
    )


def test_an_entry_point_does_not_replace_an_own_name(things: Registry[str], tmp_path: Path):
    taken = "from some_things.base import THINGS\nTHINGS.add('apple', 'foreign apple')\n"
    install(tmp_path, {"apple": "foreign.apple"}, apple=taken)
    assert dict(things) == {"apple": "own apple", "pear": "own pear"}
    assert "foreign.apple" not in sys.modules


def test_an_entry_point_that_registers_another_name_is_not_found(things: Registry[str], tmp_path: Path):
    install(tmp_path, {"damson": "foreign.plum"}, plum=PLUM)
    with pytest.raises(ConfigError, match=r"There is no thing 'damson'\. Valid: 'apple', 'pear', 'plum'\."):
        things.find("damson")


def test_a_file_is_imported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path / "mine.py", "VALUES = []\n")
    module = module_from_file(tmp_path / "mine.py")
    module.VALUES.append(1)
    monkeypatch.chdir(tmp_path)
    assert module_from_file(Path("mine.py")) is module
    write(tmp_path / "other" / "mine.py", "VALUES = []\n")
    assert module_from_file(tmp_path / "other" / "mine.py") is not module  # the same name in another folder


def test_a_file_that_cannot_be_imported(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"There is no Python file '.*mine\.py'\."):
        module_from_file(tmp_path / "mine.py")
    with pytest.raises(ConfigError, match=r"There is no Python file"):
        module_from_file(tmp_path)
    write(tmp_path / "mine.py", "import a_package_that_is_not_there\n")
    with pytest.raises(ConfigError, match=r"mine\.py cannot be imported: ModuleNotFoundError: No module named 'a_pack"):
        module_from_file(tmp_path / "mine.py")
    write(tmp_path / "mine.py", "MENDED = True  # and longer than before, so that no cache is taken for it\n")
    assert module_from_file(tmp_path / "mine.py").MENDED
