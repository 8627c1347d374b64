"""Settings objects: frozen, checked as a whole, with every fault reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from multidomain.errors import ConfigError, did_you_mean


def listed(value: Any) -> Any:
    """Turn ``"100,50"`` into ``["100", "50"]``, for settings that are lists and come from a command line."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class Settings(BaseModel):
    """Base of all settings; unknown names are faults, not silently kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def parse(cls, values: Mapping[str, Any], what: str = "settings") -> Self:
        """Build the settings, or raise one `ConfigError` that lists every fault.

        Parameters
        ----------
        values
            Names and values; strings are converted where a number or a list is wanted.
        what
            How to call these settings in the message.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            faults = [cls._describe(fault) for fault in error.errors()]
            raise ConfigError(f"Invalid {what}:\n" + "\n".join(f"  - {fault}" for fault in faults)) from None

    @classmethod
    def _describe(cls, fault: Any) -> str:
        name = ".".join(str(part) for part in fault["loc"]) or "settings"
        if fault["type"] == "extra_forbidden":
            return f"'{name}' is not a setting.{did_you_mean(name, sorted(cls.model_fields))}"
        return f"'{name}': {fault['msg'][0].lower() + fault['msg'][1:]}, got {fault['input']!r}."
