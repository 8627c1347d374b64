"""Health, metrics, facts and headers."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import httpx
import pytest
from serving import serving

from multidomain.version import __version__

SAMPLE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="[^"\\\n]*",?)*)\})? (\+Inf|[0-9.e+-]+)$')


def samples(text: str) -> dict[tuple[str, str], float]:
    """Parse the text format of Prometheus, strictly."""
    kinds: dict[str, str] = {}
    found: dict[tuple[str, str], float] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert len(line.split(" ", 3)) == 4
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            kinds[name] = kind
        else:
            match = SAMPLE.match(line)
            assert match, line
            name, labels, value = match[1], match[2] or "", float(match[3])
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in kinds or kinds.get(family) == "histogram", line
            assert (name, labels) not in found
            found[name, labels] = value
    return found


def test_metrics_are_prometheus_text_and_count(client: httpx.Client) -> None:
    before = samples(client.get("/metrics").text)
    client.post("/v1/predict", json={"texts": ["fine", "well", "good"]})
    client.post("/v1/predict", json={"texts": []})
    client.get("/nowhere/at/all")
    response = client.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    after = samples(response.text)

    def grown(name: str, labels: str = "") -> float:
        return after[name, labels] - before.get((name, labels), 0)

    assert grown("multidomain_requests_total", 'path="/v1/predict",status="200"') == 1
    assert grown("multidomain_requests_total", 'path="/v1/predict",status="422"') == 1
    assert grown("multidomain_requests_total", 'path="other",status="404"') == 1
    assert grown("multidomain_texts_predicted_total") == 3
    assert grown("multidomain_batch_texts_sum") == 3
    assert grown("multidomain_batch_texts_count") == 1
    assert grown("multidomain_request_seconds_count", 'path="/v1/predict"') == 2
    assert after["multidomain_requests_in_flight", ""] == 1  # this one
    assert after["multidomain_texts_waiting", ""] == 0
    assert not any("nowhere" in labels for _, labels in after)


def test_buckets_of_histograms_add_up(client: httpx.Client) -> None:
    found = samples(client.get("/metrics").text)
    histograms: dict[str, list[tuple[float, float]]] = {}
    for (name, labels), value in found.items():
        if name.endswith("_bucket"):
            rest, le = re.match(r'(.*?),?le="(.*)"$', labels).groups()  # type: ignore[union-attr]
            histograms.setdefault(f"{name.removesuffix('_bucket')}|{rest}", []).append((float(le), value))
    assert len(histograms) >= 2
    for key, buckets in histograms.items():
        name, rest = key.split("|")
        bounds, counts = zip(*buckets, strict=True)
        assert list(bounds) == sorted(bounds)
        assert bounds[-1] == math.inf
        assert list(counts) == sorted(counts)
        assert counts[-1] == found[f"{name}_count", rest]


def test_model_facts_are_those_of_the_folder(client: httpx.Client, model_folder: Path) -> None:
    facts = client.get("/v1/model").json()
    metrics = json.loads((model_folder / "metrics.json").read_text())
    assert facts["method"] == "man-nll"
    assert facts["version"] == __version__
    assert facts["classes"] == ["negative", "positive"]
    assert {domain["name"]: domain["labelled"] for domain in facts["domains"]} == {
        "books": True,
        "kitchen": True,
        "electronics": True,
        "shoes": False,
    }
    for domain, score in zip(facts["domains"], metrics["result"]["test"]["domains"], strict=True):
        assert domain["test"] == {name: score[name] for name in ("accuracy", "macro_f1", "rows")}
    assert facts["accuracy"] == metrics["result"]["test"]["accuracy"]
    assert facts["limits"]["max_texts"] == 1000
    assert facts["answers_without_domain"] is True


def test_model_facts_say_that_a_domain_specific_model_needs_a_domain(domain_specific_folder: Path) -> None:
    with serving(domain_specific_folder) as server:
        assert httpx.get(f"{server.url}/v1/model").json()["answers_without_domain"] is False
        refused = httpx.post(f"{server.url}/v1/predict", json={"text": "fine"})
        answered = httpx.post(f"{server.url}/v1/predict", json={"text": "fine", "domain": "books"})
    assert refused.status_code == 422
    assert "Name one of these" in refused.json()["error"]["message"]
    assert answered.json()["predictions"][0]["domain"] == "books"


@pytest.mark.parametrize("path", ["/", "/page.js", "/healthz"])
def test_head_answers_like_get_without_a_body(client: httpx.Client, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert head.status_code == 200
    assert head.content == b""
    for name in ("content-type", "content-length", "x-frame-options"):
        assert head.headers[name] == got.headers[name]
    assert client.get(path).content == got.content  # nothing is left on the connection


def test_every_answer_has_the_safe_headers(client: httpx.Client) -> None:
    for response in (client.get("/"), client.get("/healthz"), client.get("/nowhere"), client.post("/v1/predict")):
        assert response.headers["content-security-policy"].startswith("default-src 'self';")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "server" not in response.headers


def test_the_page_and_what_it_loads_come_from_the_server_alone(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert {"page.js", "page.css", "icon.svg"} <= set(loaded)
    kinds = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "json": "application/json"}
    loaded += re.findall(r'from "\./([^"]+)"', client.get("/page.js").text)
    for name in loaded:
        response = client.get(f"/{name}")
        assert response.status_code == 200, name
        assert response.headers["content-type"].startswith(kinds[name.rpartition(".")[2]])
    everything = page.text + "".join(client.get(f"/{name}").text for name in loaded if not name.endswith("svg"))
    assert not re.search(r"https?://|url\(", everything.replace("http://127.0.0.1", ""))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", everything)


def test_no_documentation_page_loads_from_elsewhere(client: httpx.Client) -> None:
    assert client.get("/docs").status_code == 404
    assert client.get("/redoc").status_code == 404
    assert client.get("/healthz").json() == {"status": "ok"}
