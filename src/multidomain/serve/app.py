"""The service as an ASGI app, from a model, limits and a token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from typing import Any, TypeAlias

import numpy as np
from fastapi import FastAPI
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from multidomain.errors import MultidomainError
from multidomain.serve.batching import Batcher
from multidomain.serve.bodies import BodyLimit
from multidomain.serve.clients import ForwardedClients
from multidomain.serve.errors import handle_errors
from multidomain.serve.metrics import Measured, Metrics
from multidomain.serve.predictor import Predictor
from multidomain.serve.routes import RELOAD_PATH, Service, router
from multidomain.serve.security import OwnHostsOnly, SafeHeaders, TokenRequired
from multidomain.serve.served import Served
from multidomain.serve.setup import Setup
from multidomain.serve.tables import Tables
from multidomain.serve.threads import WorkerThread
from multidomain.version import __version__

_PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/server.js": ("server.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
ReloadNow: TypeAlias = Callable[[], MultidomainError | None]

OPEN_PATHS = (*_PAGE, "/healthz")
_DOCUMENT = "/openapi.json"
_MOST_BATCHES, _MOST_TABLES, _MOST_EXPLANATIONS, _MOST_RELOADS = 1, 8, 32, 4


def create_app(served: Served, setup: Setup, counts: np.ndarray, worker: int, reload: ReloadNow) -> SafeHeaders:
    """Return the service as an ASGI app.

    Parameters
    ----------
    counts, worker
        See `Metrics`.
    reload
        Serves what the model folder holds now, or returns why not. Offered only if there is a token: any web page can
        let a browser on this machine send a request.
    """
    app = FastAPI(
        title="multidomain",
        version=__version__,
        description="Predictions of a multi-domain text classifier. Errors all have the shape "
        '`{"error": {"code", "message", "details"}}`.',
        docs_url=None,  # it would load scripts from a CDN
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    methods = {route.path: route.methods for route in router.routes if isinstance(route, APIRoute)}
    metrics = Metrics([*_PAGE, *methods, _DOCUMENT], counts, worker)
    app.state.service, app.state.threads = _service(served, setup, metrics, reload)
    handle_errors(app)
    app.include_router(router)
    for path, (name, media_type) in _PAGE.items():
        app.add_api_route(path, _page(name, media_type), include_in_schema=False, methods=["GET", "HEAD"])
    if setup.token is not None:
        _document_token(app)
    with_body = [path for path, allowed in methods.items() if "POST" in (allowed or ()) and path != RELOAD_PATH]
    inner: ASGIApp = BodyLimit(
        app, setup.limits, paths=with_body, bare_paths={*OPEN_PATHS, _DOCUMENT, *methods} - {*with_body}
    )
    if setup.token is not None:
        inner = TokenRequired(inner, setup.token, OPEN_PATHS)
    if setup.hosts is not None:
        inner = OwnHostsOnly(inner, setup.hosts)
    if setup.proxies:
        inner = ForwardedClients(inner, setup.limits.max_connections_per_client, setup.proxies)
    return SafeHeaders(Measured(inner, metrics))


def _service(
    served: Served, setup: Setup, metrics: Metrics, reload: ReloadNow
) -> tuple[Service, Sequence[WorkerThread]]:
    """Return what the endpoints need, and the threads behind it in the order in which they end."""
    predictor = Predictor(lambda: served.model)
    predicting = WorkerThread("batches", _MOST_BATCHES, threads=setup.threads)
    reading = WorkerThread("tables", _MOST_TABLES)
    explaining = WorkerThread("explanations", _MOST_EXPLANATIONS, threads=setup.threads)
    reloading = WorkerThread("reloads", _MOST_RELOADS)
    service = Service(
        served,
        setup.limits,
        metrics,
        predictor,
        Batcher(predictor, predicting, setup.limits, metrics),
        Tables(lambda: served.model, reading, predicting),
        explaining,
        partial(reloading.run, reload) if setup.token is not None else None,
    )
    return service, (reloading, reading, explaining, predicting)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    batcher = app.state.service.batcher
    await batcher.start()
    yield
    await batcher.close()
    for thread in app.state.threads:
        thread.close()


def _page(name: str, media_type: str) -> Any:
    content = resources.files("multidomain.serve").joinpath("page", name).read_bytes()

    async def page() -> Response:
        return Response(content, headers={"Content-Type": f"{media_type}; charset=utf-8"})

    return page


def _document_token(app: FastAPI) -> None:
    """Declare in the OpenAPI document that a token is required; it is checked before any endpoint."""
    document = app.openapi()
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        if path not in OPEN_PATHS:
            for operation in operations.values():
                operation["security"] = [{"token": []}]
