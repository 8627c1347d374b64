"""The command ``multidomain serve``."""

from __future__ import annotations

import gc
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multidomain.cli.console import out, print_error, print_notes
from multidomain.cli.options import MethodFile, ModelArgument, option
from multidomain.errors import ConfigError, MultidomainError, Note, counted
from multidomain.serve.limits import Limits

if TYPE_CHECKING:
    from multidomain.serve.served import Served

_LIMITS = Limits()


def serve_command(
    model: ModelArgument,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all of this machine's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is any free one.")] = 8000,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads for prediction.")] = 1,
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
    On SIGHUP the model is loaded again from its folder, and no request is lost.
    """
    _refuse_without_extra()
    import torch

    from multidomain.serve.app import create_app
    from multidomain.serve.clients import trusted_proxies
    from multidomain.serve.connections import Connections, connection_limit
    from multidomain.serve.protocol import Guard
    from multidomain.serve.security import is_this_machine_only, own_hosts, token_from_environment
    from multidomain.serve.server import Server, listen, url_of

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
    limits = Limits.parse(given, "limits")
    proxies = trusted_proxies(trusted_proxy or [])
    most, notes = connection_limit(limits)
    print_notes(notes)
    guard = Guard(Connections(most, limits.max_connections_per_client), limits.header_timeout, proxies)
    token = token_from_environment()
    torch.set_num_threads(threads)
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
        served = _loaded(model, method, limits)
        url = url_of(listener)

        def ready() -> None:
            out.print(f"{model}: {_described(served)}", soft_wrap=True)
            out.print(f"serving at {url} (API: {url}/openapi.json); stop with Ctrl+C", soft_wrap=True)

        def reload() -> None:
            try:
                served.replace(_loaded(model, method, limits))
            except (MultidomainError, OSError) as error:
                print_error(error)
                print_notes([Note(f"{model} was not reloaded, and the previous model is still being served.")])
                return
            _exclude_from_collection()
            out.print(f"reloaded {model}: {_described(served)}", soft_wrap=True)

        app = create_app(served, limits, token=token, hosts=hosts, proxies=proxies, threads=threads)
        _exclude_from_collection()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn re-raises the signal after its own shutdown
        with suppress(KeyboardInterrupt):  # re-raised by uvicorn after a clean stop
            Server(app, listener, guard, ready=ready, reload=reload).run()


def _loaded(folder: Path, method: str | None, limits: Limits) -> Served:
    from multidomain.model.model import Model
    from multidomain.serve.app import model_facts
    from multidomain.serve.served import Served

    loaded = Model.load(folder, method=method)
    if loaded.features.vocabulary is None:
        raise ConfigError(f"{folder} was trained on vectors, and the service reads texts.", "Serve a model of texts.")
    return Served(loaded, model_facts(folder, loaded, limits))


def _described(served: Served) -> str:
    domains, classes = counted(len(served.model.domains), "domain"), len(served.model.classes)
    return f"{served.model.method_name}, {domains}, {classes} classes"


def _exclude_from_collection() -> None:
    """Exclude libraries and model from garbage collection, which paused requests for 0.3 s."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _refuse_without_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"The service needs {error.name}, which is not installed. Run: pip install 'multidomain[serve]'"
        ) from None
