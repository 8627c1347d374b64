"""Settings objects: frozen, validated together, all errors reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from multidomain.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Searched:
    """Metadata of a setting: the values among which `multidomain tune` searches by default.

    Attributes
    ----------
    values
        ``LOW..HIGH``, ``LOW..HIGH:log`` or ``A,B,C``.

    Examples
    --------
    >>> from typing import Annotated
    >>> class Example(Settings):
    ...     lr: Annotated[float, Searched("1e-5..1e-2:log")] = 1e-4
    """

    values: str


def listed(value: Any) -> Any:
    """Turn ``"100,50"`` into ``["100", "50"]``, for list settings from the command line."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings with their full names.

    Examples
    --------
    >>> list(flat({"seed": 0, "training": {"patience": 5}}))
    [('seed', 0), ('training.patience', 5)]
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


class Settings(BaseModel):
    """Base of all settings; unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def parse(
        cls,
        values: Mapping[str, Any],
        what: str = "settings",
        *,
        refused: Mapping[str, str] | None = None,
        fixed: Mapping[str, Any] | None = None,
        recorded: bool = False,
    ) -> Self:
        """Build the settings, or raise one `ConfigError` that lists all errors.

        Parameters
        ----------
        values
            Names and values; strings are converted where a number or a list is expected.
        what
            What to call these settings in the message.
        refused
            Settings that must not be set here, and why.
        fixed
            Settings that are added to the values.
        recorded
            Whether a saved model holds them, and not a user gives them. Validators that tell them apart find it as
            ``recorded`` in their context.
        """
        refused = refused or {}
        faults = [f"'{name}' {refused[name]}" for name in values if name in refused]
        try:
            given = {name: value for name, value in values.items() if name not in refused}
            settings = cls.model_validate({**given, **(fixed or {})}, context={"recorded": recorded})
        except ValidationError as error:
            faults += [cls._describe(fault, refused) for fault in error.errors()]
        if faults:
            raise ConfigError(f"Invalid {what}:\n" + "\n".join(f"  - {fault}" for fault in faults)) from None
        return settings

    @classmethod
    def _describe(cls, fault: Any, refused: Mapping[str, str]) -> str:
        *inner, last = [str(part) for part in fault["loc"]] or [""]
        name = ".".join([*inner, last])
        if fault["type"] == "extra_forbidden":
            part: Any = cls
            for step in inner:
                if not step.isdigit():  # an index in a list of settings
                    part = part.model_fields[step].annotation
                    part = next((inside for inside in get_args(part) if hasattr(inside, "model_fields")), part)
            valid = sorted(part.model_fields.keys() - refused.keys())
            return f"'{name}' is not a setting.{did_you_mean(last, valid)}"
        if fault["type"] == "missing":
            about = cls.model_fields[last].description if not inner else None
            return f"'{name}' is missing{f': {about}' if about else ''}."
        message = fault["msg"].removeprefix("Value error, ")
        if not name:  # two incompatible settings
            return f"{message.removesuffix('.')}."
        said = f"'{name}': {message[0].lower() + message[1:]}"
        got = repr(fault["input"])
        return said if said.endswith(".") else f"{said}, got {got if len(got) <= 200 else f'{got[:200]} ...'}."
