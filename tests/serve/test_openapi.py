"""The OpenAPI document: complete, and true of the server whatever is sent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from serving import Server

from multidomain.serve.limits import Limits

BODIES = {"/v1/predict": "application/json", "/v1/explain": "application/json", "/v1/predict/csv": "text/csv"}
WITHOUT_BODY = ("/v1/model", "/healthz", "/metrics", "/-/reload")
# A schema cannot say that two lists are of one length, nor what a CSV is: not all that fits it is accepted.
NOT_CHECKED = [positive_data_acceptance]


@pytest.fixture(scope="module")
def document(client: httpx.Client) -> dict[str, Any]:
    return client.get("/openapi.json").json()


def test_every_endpoint_is_in_it(document: dict[str, Any]) -> None:
    assert document["paths"].keys() == {*BODIES, *WITHOUT_BODY}


@pytest.mark.parametrize("path", BODIES)
def test_every_request_has_examples_that_the_server_answers(
    client: httpx.Client, document: dict[str, Any], path: str
) -> None:
    content = document["paths"][path]["post"]["requestBody"]["content"][BODIES[path]]
    examples = [content["example"]] if "example" in content else [e["value"] for e in content["examples"].values()]
    assert examples
    for example in examples:
        body = {"content": example} if isinstance(example, str) else {"json": example}
        response = client.post(path, headers={"Content-Type": BODIES[path]}, **body)
        assert response.status_code == 200, response.text


@pytest.mark.parametrize("path", BODIES)
def test_error_answers_are_documented_in_the_one_shape(document: dict[str, Any], path: str) -> None:
    responses = document["paths"][path]["post"]["responses"]
    assert {"200", "401", "408", "413", "421", "422", "503"} == responses.keys()
    for status in responses.keys() - {"200"}:
        content = responses[status]["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/ErrorResponse"}
        assert content["example"]["error"].keys() == {"code", "message"}


def test_every_endpoint_says_that_it_may_be_asked_under_a_wrong_name(document: dict[str, Any]) -> None:
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert all("421" in operation["responses"] for operation in operations)


@pytest.mark.parametrize(
    ("path", "mode"),
    [(path, GenerationMode.POSITIVE) for path in (*BODIES, *WITHOUT_BODY)]
    + [(path, GenerationMode.NEGATIVE) for path in BODIES],
)
def test_generated_requests_get_documented_answers_and_never_a_fault_of_ours(
    server: Server, document: dict[str, Any], path: str, mode: GenerationMode
) -> None:
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=server.url)
    (method,) = document["paths"][path]
    operation = schema[path][method.upper()]

    @given(operation.as_strategy(generation_mode=mode))
    @settings(max_examples=25, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    def send(case: schemathesis.Case) -> None:
        case.call_and_validate(excluded_checks=NOT_CHECKED)

    send()


def test_the_page_of_the_docs_names_every_error_endpoint_and_limit(document: dict[str, Any]) -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "http-api.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in (root / "src/multidomain/serve").glob("*.py")]
    codes = {code for source in sources for code in re.findall(r'ApiError\(\s*\d+,\s*"(\w+)"', source)}
    assert {"too_busy", "unknown_domain", "body_too_large"} <= codes
    assert [code for code in codes if f"`{code}`" not in page] == []
    assert [path for path in document["paths"] if path not in page] == []
    for name, value in Limits().model_dump().items():
        assert f"| `--{name.replace('_', '-')}` | {value:,.0f} |" in page
