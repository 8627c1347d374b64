"""The command ``multidomain serve``."""

from __future__ import annotations

import gc
import signal
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from multidomain.cli.console import out, print_notes
from multidomain.cli.options import MethodFile, ModelArgument, option
from multidomain.errors import ConfigError, Note, counted
from multidomain.serve.limits import Limits

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
    max_waiting: Annotated[int, option(Limits, "max_waiting")] = _LIMITS.max_waiting,
    max_batch: Annotated[int, option(Limits, "max_batch")] = _LIMITS.max_batch,
    batch_wait_ms: Annotated[float, option(Limits, "batch_wait_ms")] = _LIMITS.batch_wait_ms,
    method: MethodFile = None,
) -> None:
    """Serve a trained model over HTTP: a web page at /, an API under /v1.

    If the environment variable MULTIDOMAIN_TOKEN is set, requests must carry it ('Authorization: Bearer TOKEN').
    """
    _refuse_without_extra()
    import torch

    from multidomain.model.model import Model
    from multidomain.serve.app import create_app, model_facts
    from multidomain.serve.security import is_this_machine_only, own_hosts, token_from_environment
    from multidomain.serve.server import Server, listen, url_of

    given: dict[str, Any] = {
        "max_body_bytes": max_body_bytes,
        "max_texts": max_texts,
        "max_text_length": max_text_length,
        "max_explain_length": max_explain_length,
        "max_waiting": max_waiting,
        "max_batch": max_batch,
        "batch_wait_ms": batch_wait_ms,
    }
    limits = Limits.parse(given, "limits")
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
        loaded = Model.load(model, method=method)
        if loaded.features.vocabulary is None:
            raise ConfigError(
                f"{model} was trained on vectors, and the service reads texts.", "Serve a model of texts."
            )
        facts = model_facts(model, loaded, limits)
        url = url_of(listener)

        def ready() -> None:
            domains = counted(len(loaded.domains), "domain")
            out.print(f"{model}: {loaded.method_name}, {domains}, {len(loaded.classes)} classes", soft_wrap=True)
            out.print(f"serving at {url} (API: {url}/openapi.json); stop with Ctrl+C", soft_wrap=True)

        app = create_app(loaded, facts, limits, token=token, hosts=hosts, threads=threads)
        gc.collect()
        gc.freeze()  # exclude libraries and model from collection, which paused requests for 0.3 s
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn re-raises the signal after its own shutdown
        with suppress(KeyboardInterrupt):  # re-raised by uvicorn after a clean stop
            Server(app, listener, ready).run()


def _refuse_without_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"The service needs {error.name}, which is not installed. Run: pip install 'multidomain[serve]'"
        ) from None
