"""The command line: parse, call, render."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from multidomain.cli.bench import app as bench
from multidomain.cli.console import out, print_error
from multidomain.cli.corpora import corpora_command, fetch_command
from multidomain.cli.evaluate import evaluate_command
from multidomain.cli.explain import explain_command
from multidomain.cli.export import export_command
from multidomain.cli.followers import follow_quietly, print_if_alone, speak_up
from multidomain.cli.init import init_command
from multidomain.cli.inspect import inspect_command
from multidomain.cli.label_next import label_next_command
from multidomain.cli.last_resort import end_with, flush_output, is_out_of_memory, out_of_memory, report_bug
from multidomain.cli.methods import methods_command
from multidomain.cli.predict import predict_command
from multidomain.cli.report import report_command
from multidomain.cli.reproduce import reproduce_command
from multidomain.cli.serve import serve_command
from multidomain.cli.signals import Stopped, exit_on_signals, print_stopped
from multidomain.cli.train import train_command
from multidomain.cli.tune import tune_command
from multidomain.cli.vectors import vectors_command
from multidomain.errors import MultidomainError
from multidomain.processes import is_first, refuse_several
from multidomain.version import __version__

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_COMMANDS: dict[str, Callable[..., None]] = {  # in the order in which they are needed
    "inspect": inspect_command,
    "init": init_command,
    "train": train_command,
    "tune": tune_command,
    "evaluate": evaluate_command,
    "report": report_command,
    "explain": explain_command,
    "predict": predict_command,
    "label-next": label_next_command,
    "serve": serve_command,
    "export": export_command,
    "methods": methods_command,
    "corpora": corpora_command,
    "fetch": fetch_command,
    "vectors": vectors_command,
    "reproduce": reproduce_command,
}
for name, command in _COMMANDS.items():
    app.command(name)(command)
app.add_typer(bench, name="bench")


def _print_version(asked: bool) -> None:
    if asked:
        out.print(f"multidomain {__version__}")
        raise typer.Exit


@app.callback()
def multidomain(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Multi-domain text classification with Multinomial Adversarial Networks."""
    if context.invoked_subcommand != "train":
        refuse_several(f"'{context.invoked_subcommand}' is run by one process")


def main() -> None:
    """Run the command line; an input or file error is printed as a message, with exit code 2.

    What nobody foresaw is one line and a log file, with exit code 70 (EX_SOFTWARE).
    """
    if is_first():
        exit_on_signals()
    else:
        follow_quietly()
    try:
        app()
    except Stopped as stopped:
        end_with(stopped.exit_code, print_stopped, stopped)
    except SystemExit:
        raise
    except (MultidomainError, OSError) as error:
        end_with(2, print_error if is_first() else print_if_alone, error)
    except BaseException as error:  # panics of polars are no Exception
        if not is_first():
            speak_up()
        if is_out_of_memory(error):
            end_with(2, print_error, out_of_memory(error))
        end_with(70, report_bug, error)
    finally:
        flush_output()


if __name__ == "__main__":
    main()
