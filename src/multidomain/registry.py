"""Registries of named entries, from this package and from plug-ins."""

from __future__ import annotations

import hashlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from multidomain.errors import ConfigError, did_you_mean

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
        self._has_own = False
        self._points: list[EntryPoint] | None = None
        self.broken: dict[str, str] = {}  # entry points that cannot be imported, and why

    def add(self, name: str, entry: Entry) -> None:
        """Register an entry; a re-imported module replaces its own entries."""
        self._entries[name] = entry

    def __getitem__(self, name: str) -> Entry:
        self._load_own()
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
            if name in self.broken:
                why = f" An installed package has it but cannot be imported: {self.broken[name]}."
            else:
                why = did_you_mean(name, [*also, *self])
            raise ConfigError(f"There is no {self.what} '{name}'.{why}") from None

    def _load_own(self) -> None:
        if not self._has_own:
            self._has_own = True
            package = import_module(self._package)
            for module in pkgutil.walk_packages(package.__path__, f"{self._package}."):
                import_module(module.name)

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
