"""Methods by name. A module registers its own, beside the class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from multidomain.errors import ConfigError, quoted
from multidomain.registry import Registry, module_from_file
from multidomain.renamings import REPLACED, method_settings_renamed, without_replaced
from multidomain.settings import Settings

if TYPE_CHECKING:
    from multidomain.methods.base import Method, Requirements
    from multidomain.methods.task import Task

RECOMMENDED = "sped"
"""The most accurate on the dev sets of all three protocols (decision 19), and so the default."""


@dataclass(frozen=True)
class MethodEntry:
    """A method under its name.

    Attributes
    ----------
    summary, paper
        What it is, and where it comes from.
    fixed
        Settings that make this method what its name says; a user cannot change them.
    defaults
        Settings whose default differs from the class's.
    unused
        Settings of the class that have no effect in this method.
    vocabulary
        What the words behind the features are needed for, if they are.
    """

    name: str
    summary: str
    paper: str
    method: type[Method]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    vocabulary: str = ""

    def settings(self, values: Mapping[str, Any]) -> Settings:
        """Check a user's settings, all at once, and add the defaults."""
        values = method_settings_renamed(self.name, values)
        refused = dict.fromkeys(self.fixed, f"makes '{self.name}' what it is; choose another method.")
        refused |= dict.fromkeys(self.unused, f"has no effect in '{self.name}'; leave it out.")
        refused |= REPLACED.get(self.name, {})
        known = self.method.settings_type.model_fields
        for name in values:
            if name not in known and (others := _methods_with(name)):
                refused[name] = f"is a setting of {quoted(others, 3)}, not of '{self.name}'."
        return self.method.settings_type.parse(
            {**self.defaults, **values}, f"settings of method '{self.name}'", refused=refused, fixed=self.fixed
        )

    def recorded_settings(self, values: Mapping[str, Any]) -> Settings:
        """Return settings from all their values, as a saved model holds them; what is new stands at its default.

        Raises
        ------
        ConfigError
            A setting is gone or no longer valid.
        """
        present = without_replaced(self.name, method_settings_renamed(self.name, values))
        values = {**self.defaults, **self.fixed, **present}
        return self.method.settings_type.parse(values, f"settings of '{self.name}'", recorded=True)

    @property
    def open_settings(self) -> list[str]:
        """Return the settings that a user can change."""
        return [s for s in self.method.settings_type.model_fields if s not in (*self.fixed, *self.unused)]

    def requirements(self, settings: Settings | None = None) -> Requirements:
        """Return what the method asks for with these settings, or with its defaults."""
        return self.method.requirements(self.settings({}) if settings is None else settings)

    @property
    def is_installed(self) -> bool:
        """Tell whether the method can be trained with its defaults: not if they need a package that is missing."""
        try:
            self.settings({})
        except ConfigError:
            return False
        return True

    @property
    def labels(self) -> str:
        """Say where training needs labels."""
        own = " (in every domain if category=domain-specific)" if "category" in self.open_settings else ""
        return f"in at least one domain{own}"

    def build(self, task: Task, settings: Settings) -> Method:
        """Make an untrained model."""
        return self.method(task, settings)


METHODS: Registry[MethodEntry] = Registry("method", __package__, "multidomain.methods")

MethodType = TypeVar("MethodType", bound="type[Method]")

_FILES_ARE_IMPORTED = ContextVar("files_are_imported", default=True)


def register(name: str, summary: str, *, paper: str, **options: Any) -> Callable[[MethodType], MethodType]:
    """Register a method under a name, as a decorator beside its class; one class may have several names.

    Parameters
    ----------
    name, summary, paper, options
        As for `MethodEntry`.
    """

    def registered(method: MethodType) -> MethodType:
        METHODS.add(name, MethodEntry(name, summary, paper, method, **options))
        return method

    return registered


def method_entry(name: str, also: tuple[str, ...] = ()) -> MethodEntry:
    """Return a method by its name, or by the file and class that register it (``my_method.py:MyMethod``).

    Parameters
    ----------
    also
        What can be given in place of a name, for the message.
    """
    in_file = file_and_class(name)
    if in_file and _FILES_ARE_IMPORTED.get():
        return method_from_file(*in_file)
    return METHODS.find(name, also)


def file_and_class(name: str) -> tuple[Path, str] | None:
    """Return the two parts of ``my_method.py:MyMethod``; None of another name."""
    path, colon, class_name = name.rpartition(":")
    return (Path(path), class_name) if colon and path.endswith(".py") else None


def absolute(name: str) -> str:
    """Return the name of a method so that it has the same meaning in another working directory."""
    in_file = file_and_class(name)
    return f"{in_file[0].absolute()}:{in_file[1]}" if in_file else name


@contextmanager
def registered_methods_only() -> Iterator[None]:
    """Import no file in the block, whatever settings name: those of a saved model may come from anyone."""
    before = _FILES_ARE_IMPORTED.set(False)
    try:
        yield
    finally:
        _FILES_ARE_IMPORTED.reset(before)


def method_from_file(path: Path, class_name: str) -> MethodEntry:
    """Import a file, and return the method that one of its classes registers."""
    module = module_from_file(path)
    class_ = getattr(module, class_name, None)
    entries = [entry for entry in METHODS.values() if entry.method is class_]
    if not entries:
        own = sorted({e.method.__name__ for e in METHODS.values() if e.method.__module__ == module.__name__})
        what = f"It registers {quoted(own)}." if own else "It registers no method."
        raise ConfigError(f"{path} registers no method of a class '{class_name}'. {what}", "See 'add a method'.")
    return entries[0]


def installed_methods() -> list[MethodEntry]:
    """Return the methods that can be trained here."""
    return [entry for entry in METHODS.values() if entry.is_installed]


def _methods_with(setting: str) -> list[str]:
    """Return the methods that have a setting."""
    return [entry.name for entry in METHODS.values() if setting in entry.open_settings]
