"""The service as an ASGI app, from a model, limits and a token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from multidomain.model.model import Model
from multidomain.runs.folder import RunFolder
from multidomain.serve.batching import Batcher
from multidomain.serve.bodies import BodyLimit
from multidomain.serve.clients import ForwardedClients
from multidomain.serve.errors import handle_errors
from multidomain.serve.limits import Limits
from multidomain.serve.metrics import Measured, Metrics
from multidomain.serve.predictor import Predictor
from multidomain.serve.routes import Service, router
from multidomain.serve.schemas import DomainFacts, ModelFacts, Scores
from multidomain.serve.security import OwnHostsOnly, SafeHeaders, TokenRequired
from multidomain.serve.served import Served
from multidomain.serve.tables import Tables
from multidomain.serve.workers import Worker
from multidomain.version import __version__

_PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/server.js": ("server.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
OPEN_PATHS = (*_PAGE, "/healthz")
_DOCUMENT = "/openapi.json"
_TOLD_LIMITS = {"max_body_bytes", "max_texts", "max_text_length", "max_explain_length", "max_explain_words"}
_MOST_BATCHES, _MOST_TABLES, _MOST_EXPLANATIONS = 1, 8, 32


def create_app(
    served: Served,
    limits: Limits,
    *,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    proxies: Collection[str] = (),
    threads: int = 1,
) -> SafeHeaders:
    """Return the service as an ASGI app.

    Parameters
    ----------
    token
        The token that requests must carry; None for no token.
    hosts
        Host names that are accepted, see `own_hosts`; None accepts any.
    proxies
        Proxies whose forwarded client addresses are believed; see `trusted_proxies`.
    threads
        How many threads torch may use.
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
    predictor, metrics = Predictor(lambda: served.model), Metrics([*_PAGE, *methods, _DOCUMENT])
    predicting = Worker("batches", _MOST_BATCHES, threads=threads)
    reading = Worker("tables", _MOST_TABLES)
    explaining = Worker("explanations", _MOST_EXPLANATIONS, threads=threads)
    batcher = Batcher(predictor, predicting, limits, metrics)
    app.state.threads = (reading, explaining, predicting)
    app.state.service = Service(
        served, limits, metrics, predictor, batcher, Tables(lambda: served.model, reading, predicting), explaining
    )
    handle_errors(app)
    app.include_router(router)
    for path, (name, media_type) in _PAGE.items():
        app.add_api_route(path, _page(name, media_type), include_in_schema=False, methods=["GET", "HEAD"])
    if token is not None:
        _document_token(app)
    with_body = [path for path, allowed in methods.items() if "POST" in (allowed or ())]
    inner: ASGIApp = BodyLimit(
        app, limits, paths=with_body, bare_paths={*OPEN_PATHS, _DOCUMENT, *methods} - {*with_body}
    )
    if token is not None:
        inner = TokenRequired(inner, token, OPEN_PATHS)
    if hosts is not None:
        inner = OwnHostsOnly(inner, hosts)
    if proxies:
        inner = ForwardedClients(inner, limits.max_connections_per_client, proxies)
    return SafeHeaders(Measured(inner, metrics))


def model_facts(folder: Path, model: Model, limits: Limits) -> ModelFacts:
    """Return the description of a model; scores are included if its folder holds a finished run."""
    test = RunFolder(folder).test_scores()
    scores = {
        score["domain"]: Scores(**{n: score[n] for n in Scores.model_fields}) for score in test.get("domains", [])
    }
    return ModelFacts(
        name=folder.resolve().name,
        method=model.method_name,
        version=__version__,
        classes=[str(name) for name in model.classes],
        domains=[
            DomainFacts(name=name, labelled=name in model.labelled_domains, test=scores.get(name))
            for name in model.domains
        ],
        answers_without_domain=model.requirements.unseen_domains,
        accuracy=test.get("accuracy"),
        limits=limits.model_dump(include=_TOLD_LIMITS),
    )


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
