"""The endpoints."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Query, Request
from fastapi.responses import JSONResponse, Response

from multidomain.data.columns import Columns
from multidomain.errors import MultidomainError
from multidomain.serve import examples
from multidomain.serve.batching import Batcher
from multidomain.serve.bodies import check_length, check_request_texts, check_words
from multidomain.serve.errors import ApiError, as_parameter
from multidomain.serve.limits import Limits
from multidomain.serve.metrics import CLIENT_LEFT, CONTENT_TYPE, Metrics
from multidomain.serve.predictor import Predictor
from multidomain.serve.schemas import (
    ExplainRequest,
    ExplainResponse,
    Health,
    ModelFacts,
    OnUnknown,
    PredictRequest,
    PredictResponse,
    prediction_json,
)
from multidomain.serve.security import TOKEN_VARIABLE
from multidomain.serve.served import Served
from multidomain.serve.tables import TableOptions, Tables, warnings_header
from multidomain.serve.threads import ClientLeft, WorkerThread, while_connected

router = APIRouter()
RELOAD_PATH = "/-/reload"


@dataclass(frozen=True)
class Service:
    """Dependencies of the endpoints."""

    served: Served
    limits: Limits
    metrics: Metrics
    predictor: Predictor
    batcher: Batcher
    tables: Tables
    explaining: WorkerThread
    reload: Callable[[], Awaitable[MultidomainError | None]] | None


async def _service(request: Request) -> Service:
    return request.app.state.service


Serving = Annotated[Service, Depends(_service)]


@router.post("/v1/predict", response_model=PredictResponse, responses=examples.errors(401, 408, 413, 421, 422, 503))
async def predict(asked: Annotated[PredictRequest, Body(openapi_examples=examples.PREDICT)], service: Serving) -> Any:
    """Predict one text or several, with a domain for all (`domain`) or for each (`domains`)."""
    question = asked.question()
    check_request_texts(question.texts, service.limits, is_list=not asked.is_one)
    answers = await service.batcher.predict(question)
    service.metrics.predicted(len(answers))
    return JSONResponse({"predictions": [prediction_json(answer) for answer in answers]})


@router.post("/v1/explain", response_model=ExplainResponse, responses=examples.errors(401, 408, 413, 421, 422, 503))
async def explain(
    asked: Annotated[ExplainRequest, Body(openapi_examples=examples.EXPLAIN)], request: Request, service: Serving
) -> Any:
    """Explain a prediction: each word's contribution, through shared and through private features."""
    check_length(asked.text, "'text'", service.limits.max_explain_length)
    check_request_texts([asked.text], service.limits, is_list=False)
    check_words(asked.text, service.limits.max_explain_words)
    abandoned = threading.Event()
    job = partial(service.predictor.explain, asked.text, asked.domain, asked.target, asked.unknown_domain, abandoned)
    try:
        return JSONResponse(await while_connected(request.receive, service.explaining.run(job), abandoned))
    except ClientLeft:
        return Response(status_code=CLIENT_LEFT)  # for the metrics


@router.post(
    "/v1/predict/csv",
    response_class=Response,
    responses={
        200: {
            "description": "The table with the columns prediction and confidence added.",
            "content": {"text/csv": {"example": "text,domain,prediction,confidence\nsuperb,books,positive,0.981234\n"}},
            "headers": {
                "Multidomain-Rows": {"schema": {"type": "string"}, "description": "Number of rows."},
                "Multidomain-Rows-Without-Text": {
                    "schema": {"type": "string"},
                    "description": "Number of rows without text, which got no prediction.",
                },
                "Multidomain-Rows-Abstained": {
                    "schema": {"type": "string"},
                    "description": "Number of rows whose confidence was too low for a prediction.",
                },
                "Multidomain-Warnings": {
                    "schema": {"type": "string"},
                    "description": "Warnings: a JSON list of texts, truncated to about 4 kB.",
                },
            },
        },
        **examples.errors(401, 408, 413, 421, 422, 503),
    },
    openapi_extra=examples.TABLE,
)
async def predict_csv(
    request: Request,
    service: Serving,
    domain: Annotated[str | None, Query(description="Domain of all rows, in place of a domain column.")] = None,
    text_column: Annotated[str | None, Query(description="Text column, if it is not auto-detected.")] = None,
    domain_column: Annotated[str | None, Query(description="Domain column, if it is not auto-detected.")] = None,
    probabilities: Annotated[bool, Query(description="Add a column for each class.")] = False,
    unknown_domain: Annotated[OnUnknown, Query()] = "shared",
    encoding: Annotated[Literal["utf-8", "cp1252", "latin-1", "utf-16"], Query()] = "utf-8",
    abstain: Annotated[float, Query(ge=0, le=1, description="Leave predictions of lower confidence empty.")] = 0.0,
) -> Response:
    """Send a CSV as the body, and get it back with predictions, as `multidomain predict` writes it."""
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise ApiError(
            422,
            "invalid_table",
            "The body is a form (multipart). Send the CSV itself: curl -H 'Content-Type: text/csv' --data-binary @FILE",
        )
    options = TableOptions(
        Columns(text=text_column, domain=domain_column), domain, probabilities, unknown_domain, encoding, abstain
    )
    table = await service.tables.predict(await request.body(), options)
    service.metrics.predicted(table.rows - table.without_text)
    headers = {"Multidomain-Rows": str(table.rows), "Multidomain-Rows-Without-Text": str(table.without_text)}
    if abstain:
        headers["Multidomain-Rows-Abstained"] = str(table.abstained)
    if table.warnings:
        headers["Multidomain-Warnings"] = warnings_header(table.warnings)
    return Response(table.content, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/v1/model", response_model=ModelFacts, responses=examples.errors(401, 413, 421, 503))
async def model(service: Serving) -> Any:
    """Describe the model: method, classes, domains and the test scores of each."""
    return service.served.facts


@router.post(RELOAD_PATH, response_model=ModelFacts, responses=examples.errors(401, 403, 409, 413, 421, 503))
async def reload(service: Serving) -> Any:
    """Load the model folder again, and serve what it holds now; needs a token."""
    if service.reload is None:
        raise ApiError(
            403,
            "token_needed",
            f"This server has no token, so it is not reloaded over HTTP. Set {TOKEN_VARIABLE} and start it again, or "
            "send SIGHUP to its process.",
        )
    error = await service.reload()
    if error is not None:
        why = error.worded(as_parameter)
        raise ApiError(409, "not_reloaded", f"{why} The previous model is still being served.")
    return service.served.facts


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", response_model=Health, responses=examples.errors(413, 421, 503))
async def healthz() -> Any:
    """Health check; needs no token."""
    return {"status": "ok"}


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"description": "Prometheus text format.", "content": {"text/plain": {}}},
        **examples.errors(401, 413, 421, 503),
    },
)
async def metrics(service: Serving) -> Response:
    """Count and time requests, in the text format of Prometheus."""
    return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})
