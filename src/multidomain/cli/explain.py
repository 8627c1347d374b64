"""The command ``multidomain explain``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.style import Style
from rich.table import Table
from rich.text import Text

from multidomain.cli.console import err, out, print_notes
from multidomain.cli.options import MethodFile, ModelArgument, Unknown
from multidomain.errors import DataError, counted

if TYPE_CHECKING:
    from multidomain.explain.occlusion import Explanation

MOST_ROWS = 15


def explain_command(
    model: ModelArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text, in quotes.")],
    domain: Annotated[str | None, typer.Option(help="Domain of the text.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="CLASS", help="Class to explain; the prediction by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    unknown_domain: Unknown = "shared",
    method: MethodFile = None,
) -> None:
    """Show each word's contribution to a prediction, through shared and through private features."""
    from multidomain.explain.occlusion import explain
    from multidomain.model.model import Model

    if any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError("The text holds bytes that are invalid in the encoding of this terminal.", "Retype it.")
    trained = Model.load(model, method=method)
    explanation = explain(trained, text, domain, target=target, unknown_domain=unknown_domain)
    print_notes(explanation.notes)
    if as_json:
        print(json.dumps(explanation.as_json(), indent=2))
        return
    of = f"domain {explanation.domain}" if explanation.domain is not None else "no known domain: shared features alone"
    out.print(f"prediction: {explanation.answer} ({of})", soft_wrap=True)
    out.print(probabilities_table(explanation))
    if not explanation.words:
        out.print("The text holds no words.")
        return
    out.print(coloured_text(explanation), soft_wrap=True)
    out.print()
    table = words_table(explanation)
    out.print(table if table.row_count else "No word of the text changes the prediction.")
    if len(explanation.words) < explanation.n_words:
        explained = counted(len(explanation.words), "word")
        err.print(f"note: the first {explained} of {explanation.n_words:,} are explained", soft_wrap=True)


def probabilities_table(explanation: Explanation) -> Table:
    """The probability of each class, in the model's order."""
    table = Table("class")
    table.add_column("probability", justify="right")
    for name, probability in zip(explanation.classes, explanation.probabilities, strict=True):
        style = "bold" if name == explanation.answer else None
        table.add_row(Text(str(name)), f"{100 * probability:.2f} %", style=style)
    return table


def coloured_text(explanation: Explanation) -> Text:
    """The text; words for the class are green, words against it red, by strength of their contribution."""
    largest = max((abs(word.total) for word in explanation.words), default=0.0)
    shown, end = Text(), 0
    for word in explanation.words:
        shown.append(explanation.text[end : word.start])
        shown.append(word.text, _style(word.total / largest) if word.total else None)
        end = word.end
    return shown.append(explanation.text[end:])


def words_table(explanation: Explanation) -> Table:
    """The words with the largest contributions, split into shared and private features."""
    table = Table("word", title=f"added to the log-odds of '{explanation.target}'", title_justify="left")
    for heading in ("shared", "private", "total"):
        table.add_column(heading, justify="right")
    speaking = [word for word in explanation.words if word.shared or word.private]
    for word in sorted(speaking, key=lambda word: -abs(word.total))[:MOST_ROWS]:
        numbers = (f"{value:+.3f}" if value else "0" for value in (word.shared, word.private, word.total))
        table.add_row(Text(word.text), *numbers)
    return table


def _style(strength: float) -> Style:
    """Green or red from pale to full, for -1 to 1, under black letters."""
    full = "rgb({0},235,{0})" if strength > 0 else "rgb(255,{0},{0})"
    return Style.parse("black on " + full.format(round(225 - 165 * abs(strength))))
