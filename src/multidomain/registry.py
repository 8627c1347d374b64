"""Registries of named entries, from this package and from plug-ins."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from multidomain.errors import EXTRA_OF, ConfigError, did_you_mean, missing_package

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry], Generic[Entry]):
    """Entries by name.

    Each module of the registry's package registers its own entries with a decorator. Another distribution does so in a
    module that it declares as an entry point of the same name as the entry; the module is imported when that name is
    looked up.

    Parameters
    ----------
    what
        What an entry is, for messages.
    package
        Package whose modules, subpackages included, register entries.
    group
        Entry point group.
    """

    def __init__(self, what: str, package: str, group: str):
        self.what = what
        self._package = package
        self._group = group
        self._entries: dict[str, Entry] = {}
        self._own: dict[str, str] | None = None  # modules of the package that are not imported yet, and their sources
        self._looked_up: set[str] = set()
        self._points: list[EntryPoint] | None = None
        self.broken: dict[str, str] = {}  # entry points that cannot be imported, and why
        self.missing: dict[str, tuple[str, str]] = {}  # modules that need a package which is not installed; sources

    def add(self, name: str, entry: Entry) -> None:
        """Register an entry; a re-imported module replaces its own entries."""
        self._entries[name] = entry

    def __getitem__(self, name: str) -> Entry:
        if name not in self._looked_up:  # lookups are frequent
            self._load_own(name)
            self._looked_up.add(name)
        if name not in self._entries:
            self._load_foreign(name)
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._load_own()
        self._load_foreign()
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except KeyError:
            return False
        return True

    def find(self, name: str, also: tuple[str, ...] = ()) -> Entry:
        """Return an entry; the error for an unknown name lists similar names and other valid values (`also`)."""
        try:
            return self[name]
        except KeyError:
            if needed := self.needed_for(name):
                raise missing_package(f"The {self.what} '{name}'", needed) from None
            if name in self.broken:
                why = f" An installed package has it but cannot be imported: {self.broken[name]}."
            else:
                why = did_you_mean(name, [*also, *self])
            raise ConfigError(f"There is no {self.what} '{name}'.{why}") from None

    def needed_for(self, name: str) -> str | None:
        """Return the package that an entry needs and that is not installed, if there is one."""
        if name in self:
            return None
        registers = re.compile(rf'(register|add)\(\s*["\']{re.escape(name)}["\']')
        return next((package for package, source in self.missing.values() if registers.search(source)), None)

    def _load_own(self, name: str | None = None) -> None:
        """Import the modules of the package: first those whose source names an entry, which then is all it takes.

        So a linear model is found without importing the networks, and torch with them.
        """
        if self._own is None:
            self._own = dict(_sources(self._package))
        if name is not None:
            for module in [
                module for module, source in self._own.items() if re.search(rf'["\']{re.escape(name)}["\']', source)
            ]:
                self._import(module)
            if name in self._entries:
                return
        for module in list(self._own):
            self._import(module)

    def _import(self, module: str) -> None:
        assert self._own is not None
        source = self._own.pop(module, None)
        if source is None:
            return
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if error.name not in EXTRA_OF:
                raise
            self.missing[module] = (error.name, source)

    def _load_foreign(self, name: str | None = None) -> None:
        if self._points is None:  # finding them takes milliseconds, and lookups are frequent
            self._points = list(entry_points(group=self._group))
        for point in self._points:
            if point.name in self._entries or point.name in self.broken or (name is not None and point.name != name):
                continue
            try:
                point.load()
            except Exception as error:  # a broken plug-in must not break this package
                self.broken[point.name] = f"{type(error).__name__}: {error}"


def _sources(package: str) -> Iterator[tuple[str, str]]:
    """Yield the modules of a package, subpackages included, and their sources; none but the package is imported."""
    folders = [Path(folder) for folder in import_module(package).__path__]
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])
            if name != package:
                yield name, path.read_text(encoding="utf-8")


def module_from_file(path: Path) -> ModuleType:
    """Import a Python file outside any package; importing it again returns the same module."""
    path = path.resolve()
    name = f"_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ConfigError(f"There is no Python file '{path}'.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{path} cannot be imported: {type(error).__name__}: {error}.") from error
    return module
