"""Predictions over HTTP are those that the model gives offline."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from multidomain.data.corpus import Corpus
from multidomain.errors import MultidomainWarning
from multidomain.explain.occlusion import explain
from multidomain.model.model import Model

TEXT = "My sister gave me this boot in spring. It is light, and simply superb."


def probabilities(answer: dict[str, Any], model: Model) -> np.ndarray:
    return np.array([[p["probabilities"][name] for name in model.classes] for p in answer["predictions"]])


def ask(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post("/v1/predict", json=body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("domain", ["books", "kitchen", "electronics", "shoes", None])
def test_one_text_is_answered_as_offline(client: httpx.Client, offline: Model, domain: str | None) -> None:
    answer = ask(client, text=TEXT, domain=domain)
    expected = offline.predict_proba([TEXT], [domain])
    np.testing.assert_allclose(probabilities(answer, offline), expected, rtol=0, atol=1e-6)
    (prediction,) = answer["predictions"]
    assert prediction["label"] == offline.classes[expected.argmax()]
    assert prediction["confidence"] == max(prediction["probabilities"].values())
    assert prediction["domain"] == domain


def test_domains_change_the_answer(client: httpx.Client) -> None:
    """Else the comparisons with the offline model would hold for a server that forgets the domain."""
    text = "Heavy and hard, hot and short."  # all of it praise of a pan and blame of a phone
    kitchen, electronics = ask(client, texts=[text] * 2, domains=["kitchen", "electronics"])["predictions"]
    assert kitchen["label"] == "positive" and electronics["label"] == "negative"
    assert kitchen["probabilities"]["positive"] - electronics["probabilities"]["positive"] > 0.5


def test_many_texts_with_their_domains_are_answered_as_offline_in_their_order(
    client: httpx.Client, offline: Model, corpus: Corpus
) -> None:
    rows = np.random.default_rng(0).permutation(len(corpus))[:500]
    texts, domains = corpus.documents[rows].tolist(), corpus.domains[rows].tolist()
    domains[::7] = [None] * len(domains[::7])
    answer = ask(client, texts=texts, domains=domains)
    np.testing.assert_allclose(probabilities(answer, offline), offline.predict_proba(texts, domains), rtol=0, atol=1e-6)


def test_one_domain_for_many_texts(client: httpx.Client, offline: Model) -> None:
    texts = ["It is light.", "It is heavy."]
    answer = ask(client, texts=texts, domain="shoes")
    expected = offline.predict_proba(texts, ["shoes"] * 2)
    np.testing.assert_allclose(probabilities(answer, offline), expected, rtol=0, atol=1e-6)


def test_unknown_domain_is_answered_from_shared_features_and_says_so(client: httpx.Client, offline: Model) -> None:
    (prediction,) = ask(client, text=TEXT, domain="cars")["predictions"]
    expected = offline.predict_proba([TEXT])
    assert abs(prediction["confidence"] - expected.max()) < 1e-6
    assert prediction["domain"] is None
    with pytest.warns(MultidomainWarning) as said:
        offline.predict_proba([TEXT], ["cars"])
    assert prediction["warnings"] == [str(said[0].message)]
    assert "Domain 'cars' was not in training" in prediction["warnings"][0]


def test_near_name_is_taken_for_the_domain_and_says_so(client: httpx.Client, offline: Model) -> None:
    near, exact = ask(client, texts=[TEXT] * 2, domains=[" Kitchen", "kitchen"])["predictions"]
    assert near["domain"] == "kitchen"
    assert near["probabilities"] == exact["probabilities"]
    assert near["warnings"] == ["Domain ' Kitchen' is taken for 'kitchen', which differs by case or blanks."]
    assert "warnings" not in exact


def test_unknown_domain_can_be_refused(client: httpx.Client) -> None:
    body = {"texts": [TEXT] * 2, "domains": ["books", "kichen"], "unknown_domain": "error"}
    response = client.post("/v1/predict", json=body)
    assert response.status_code == 422
    error = response.json()["error"]
    assert error["code"] == "unknown_domain"
    assert "Domain 'kichen' was not in training. Did you mean 'kitchen'?" in error["message"]


def test_concurrent_requests_get_the_answers_of_each_alone(
    client: httpx.Client, offline: Model, corpus: Corpus
) -> None:
    rng = np.random.default_rng(1)
    requests: list[dict[str, Any]] = []
    for _ in range(150):
        rows = rng.integers(len(corpus), size=rng.integers(1, 6))
        domains = [None if rng.random() < 0.2 else str(corpus.domains[row]) for row in rows]
        requests.append({"texts": corpus.documents[rows].tolist(), "domains": domains})
    requests[75] = {"texts": ["fine"], "domains": ["cars"], "unknown_domain": "error"}  # must harm no other
    before = batches(client)
    with ThreadPoolExecutor(30) as pool:
        responses = list(pool.map(lambda body: client.post("/v1/predict", json=body), requests))
    for body, response in zip(requests, responses, strict=True):
        if "unknown_domain" in body:
            assert response.status_code == 422
            continue
        expected = offline.predict_proba(body["texts"], body["domains"])
        np.testing.assert_allclose(probabilities(response.json(), offline), expected, rtol=0, atol=1e-6)
        names = [prediction["domain"] for prediction in response.json()["predictions"]]
        assert names == body["domains"]
        for prediction in response.json()["predictions"]:
            assert ("warnings" in prediction) == (prediction["domain"] is None)
    assert batches(client) - before < len(requests), "no two requests were predicted together"


def batches(client: httpx.Client) -> int:
    found = re.search(r"^multidomain_batch_texts_count (\d+)$", client.get("/metrics").text, re.MULTILINE)
    assert found
    return int(found[1])


@pytest.mark.parametrize(("domain", "target"), [("kitchen", None), (None, "positive"), ("Shoes", "negative")])
@pytest.mark.filterwarnings("ignore::multidomain.errors.MultidomainWarning")
def test_explanations_are_those_of_the_model(
    client: httpx.Client, offline: Model, domain: str | None, target: str | None
) -> None:
    text = "😀 The pan is heavy, and <b>superb</b>!"
    response = client.post("/v1/explain", json={"text": text, "domain": domain, "target": target})
    assert response.status_code == 200, response.text
    answer = response.json()
    warnings = answer.pop("warnings", [])
    assert answer == explain(offline, text, domain, target=target).as_json()
    assert len(warnings) == (domain != "kitchen")


def test_an_unknown_target_is_refused_with_the_classes(client: httpx.Client) -> None:
    response = client.post("/v1/explain", json={"text": "fine", "target": "postive"})
    assert response.status_code == 422
    assert "Did you mean 'positive'?" in response.json()["error"]["message"]
