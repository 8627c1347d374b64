"""The engine that a command is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multidomain.errors import Note

if TYPE_CHECKING:
    from multidomain.engines.base import Engine


def engine_for(name: str | None, address: str | None, workers: int | None, *, alone: bool = False) -> Engine:
    """Return the engine that options name.

    Parameters
    ----------
    alone
        On this machine, one worker by default.
    """
    from multidomain.engines.base import ENGINES

    here = name in (None, "local")
    return ENGINES.find(name or "local")(address, workers or (1 if here and alone else None))


def bounded_by_memory(engine: Engine) -> list[Note]:
    """Bound the workers by memory, since each will hold about what this process does by now; return notes."""
    from multidomain.engines.memory import bytes_like_here

    note = engine.bound_by_memory(bytes_like_here())
    return [note] if note else []
