"""Command-line options, derived from the declarations of settings."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import typer

from multidomain.data.settings import ReadingSettings
from multidomain.model.settings import UnknownDomain
from multidomain.runs.config import Option, train_options
from multidomain.settings import Settings

if TYPE_CHECKING:
    from multidomain.data.corpus import Corpus


def option(settings: type[Settings], name: str, *names: str, **options: Any) -> Any:
    """Return the option of a setting, with the help text of its declaration."""
    return typer.Option(*names, help=sentence(settings.model_fields[name].description), **options)


def sentence(text: str | None) -> str:
    """Return a description as a sentence."""
    return f"{text[0].upper()}{text[1:]}." if text else ""


DataArgument = Annotated[str, typer.Argument(metavar="DATA", help="A corpus by name, or a file or folder.")]
TextColumn = Annotated[str | None, option(ReadingSettings, "text_column")]
LabelColumn = Annotated[str | None, option(ReadingSettings, "label_column")]
DomainColumn = Annotated[str | None, option(ReadingSettings, "domain_column")]
Encoding = Annotated[str, option(ReadingSettings, "encoding")]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")]
MethodFile = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="FILE.py:Class",
        help="Method of the model, if no installed package has it. Code named in the folder is never run.",
    ),
]
PredictOn = Annotated[
    str,
    typer.Option("--device", metavar="auto|cpu|cuda|cuda:N|mps", help="Device that a network predicts on."),
]
Unknown = Annotated[
    UnknownDomain,
    typer.Option(help="Domain not in training: predict from the shared features, or refuse."),
]
ConfigFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="TOML file of settings, which options override. See 'init'.")
]
MethodSettings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method.")
]
Extractor = Annotated[str | None, typer.Option(help="Short for --set extractor=NAME.", metavar="NAME")]
Encoder = Annotated[
    str | None,
    typer.Option(
        help="A pretrained encoder: minilm, mpnet or a folder. Short for --set extractor=encoder --set "
        "encoder.source=NAME.",
        metavar="NAME|PATH",
    ),
]
AllowDownload = Annotated[
    bool, typer.Option("--allow-download", help="Look for other encoders on the Hugging Face Hub.")
]
Engine = Annotated[
    str | None,
    typer.Option(help="Where tasks run: local, dask, ray or spark; by default in processes of this machine."),
]
Address = Annotated[str | None, typer.Option(help="Address of the engine's cluster; one is started here by default.")]


READING = [one for one in train_options() if one.path[0] == "reading" and one.name not in ("dev", "test", "text_only")]
"""How a command reads data that it is given by name or path."""


def load_data(data: str, given: Mapping[tuple[str, ...], Any]) -> Corpus:
    """Read the data that a command is given, as its options of `READING` say."""
    from multidomain.data.load import load_data

    return load_data(data, ReadingSettings.parse({path[-1]: value for path, value in given.items()}, "options"))


def with_options(
    options: list[Option], show: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's parameter ``**given`` by an option for each of some settings.

    The command gets the values that were given, by the paths of the settings.

    Parameters
    ----------
    show
        Options of typer for some settings, by name.
    """

    def with_them(command: Callable[..., None]) -> Callable[..., None]:
        def called(**values: Any) -> None:
            given = {}
            for one in options:
                value = values.pop(one.name)
                if value is not None and value != []:
                    given[one.path] = value
            command(given, **values)

        own = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in _parameters(command)]
        derived = [_parameter(one, (show or {}).get(one.name, {})) for one in options]
        called.__signature__ = Signature([*derived, *own])  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in (*derived, *own)}
        called.__doc__ = command.__doc__
        return called

    return with_them


def _parameters(command: Callable[..., None]) -> list[Parameter]:
    from inspect import signature

    return list(signature(command, eval_str=True).parameters.values())[1:]


def _parameter(one: Option, how: dict[str, Any]) -> Parameter:
    default = one.default
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
    kind = how.get("type") or _plain_type(one.field.annotation)
    text = how.get("help") or sentence(one.field.description)
    annotation: Any
    if how.get("argument"):
        annotation = Annotated[str | None, typer.Argument(metavar=one.name.upper(), help=text, show_default=False)]
    else:
        # Named here, so that typer adds no --no-... to a flag.
        names = how.get("names", [f"--{one.name.replace('_', '-')}"])
        options = {"metavar": how["metavar"]} if "metavar" in how else {}
        visible = False if shown is None or shown is False or shown == "" else str(shown)
        annotation = Annotated[kind | None, typer.Option(*names, help=text, show_default=visible, **options)]
    return Parameter(one.name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _plain_type(annotation: Any) -> Any:
    """Return the type for typer: an optional one unwrapped, a pair as a string, names as a list."""
    if get_origin(annotation) is Annotated:
        return _plain_type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return _plain_type(next(part for part in get_args(annotation) if part is not type(None)))
    if get_origin(annotation) is tuple:
        return list[str] if get_args(annotation) == (str, ...) else str
    return annotation
