"""The command ``multidomain serve``."""

from __future__ import annotations

import signal
import socket
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multidomain.cli.console import out, print_error, print_notes
from multidomain.cli.last_resort import try_to
from multidomain.cli.options import MethodFile, ModelArgument, option
from multidomain.errors import ConfigError, Note
from multidomain.serve.limits import Limits

if TYPE_CHECKING:
    from multidomain.serve.setup import Setup

_LIMITS = Limits()


def serve_command(
    model: ModelArgument,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all of this machine's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is any free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes that serve the model, each with a copy of it.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads for prediction, in each worker.")] = 1,
    max_body_bytes: Annotated[int, option(Limits, "max_body_bytes")] = _LIMITS.max_body_bytes,
    max_texts: Annotated[int, option(Limits, "max_texts")] = _LIMITS.max_texts,
    max_text_length: Annotated[int, option(Limits, "max_text_length")] = _LIMITS.max_text_length,
    max_explain_length: Annotated[int, option(Limits, "max_explain_length")] = _LIMITS.max_explain_length,
    max_explain_words: Annotated[int, option(Limits, "max_explain_words")] = _LIMITS.max_explain_words,
    max_waiting: Annotated[int, option(Limits, "max_waiting")] = _LIMITS.max_waiting,
    max_batch: Annotated[int, option(Limits, "max_batch")] = _LIMITS.max_batch,
    batch_wait_ms: Annotated[float, option(Limits, "batch_wait_ms")] = _LIMITS.batch_wait_ms,
    header_timeout: Annotated[int, option(Limits, "header_timeout")] = _LIMITS.header_timeout,
    body_timeout: Annotated[int, option(Limits, "body_timeout")] = _LIMITS.body_timeout,
    max_connections: Annotated[int, option(Limits, "max_connections")] = _LIMITS.max_connections,
    max_connections_per_client: Annotated[
        int, option(Limits, "max_connections_per_client")
    ] = _LIMITS.max_connections_per_client,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of a proxy whose X-Forwarded-For is believed: limits then apply to the clients behind it. "
            "May be repeated.",
        ),
    ] = None,
    method: MethodFile = None,
) -> None:
    """Serve a trained model over HTTP: a web page at /, an API under /v1.

    If the environment variable MULTIDOMAIN_TOKEN is set, requests must carry it ('Authorization: Bearer TOKEN').
    On SIGHUP, or POST /-/reload with the token, the model is loaded again from its folder, and no request is lost.
    """
    _refuse_without_extra()
    from multidomain.serve.clients import trusted_proxies
    from multidomain.serve.connections import connection_limit
    from multidomain.serve.security import is_this_machine_only, own_hosts, token_from_environment
    from multidomain.serve.server import listen
    from multidomain.serve.setup import Setup

    given: dict[str, Any] = {
        "max_body_bytes": max_body_bytes,
        "max_texts": max_texts,
        "max_text_length": max_text_length,
        "max_explain_length": max_explain_length,
        "max_explain_words": max_explain_words,
        "max_waiting": max_waiting,
        "max_batch": max_batch,
        "batch_wait_ms": batch_wait_ms,
        "header_timeout": header_timeout,
        "body_timeout": body_timeout,
        "max_connections": max_connections,
        "max_connections_per_client": max_connections_per_client,
    }
    limits = Limits.parse(given, "limits").share(workers)
    proxies = trusted_proxies(trusted_proxy or [])
    most, notes = connection_limit(limits)
    print_notes(notes)
    limits = limits.model_copy(update={"max_connections": most})
    token = token_from_environment()
    if hasattr(signal, "SIGHUP"):  # not on Windows
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # before the model is loaded there is nothing to load again
    with listen(host, port) as listener:
        hosts = own_hosts(host, listener) if token is None and is_this_machine_only(listener) else None
        if token is None and hosts is None:
            print_notes(
                [
                    Note(
                        f"Listening on {host} without a token: anyone who can reach this machine can use the model.",
                        "Set MULTIDOMAIN_TOKEN to require one.",
                    )
                ]
            )
        _serve(Setup(model, method, limits, token, hosts, proxies, threads), listener, workers)


def _serve(setup: Setup, listener: socket.socket, workers: int) -> None:
    from multidomain.serve.setup import Operator

    operator = Operator(  # the service outlives whoever reads what it prints
        tell=partial(try_to, lambda line: out.print(line, soft_wrap=True)),
        warn=partial(try_to, lambda note: print_notes([note])),
        error=partial(try_to, print_error),
    )
    if workers > 1:
        from multidomain.serve.supervisor import Supervisor

        Supervisor(setup, listener, workers, operator).run()
        return
    from multidomain.serve.process import serve_alone

    serve_alone(setup, listener, operator)


def _refuse_without_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"The service needs {error.name}, which is not installed. Run: pip install 'multidomain[serve]'"
        ) from None
