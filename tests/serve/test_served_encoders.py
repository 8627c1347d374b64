"""A model on a pretrained encoder over HTTP."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest
from serving import serving, trained

from multidomain.explain.occlusion import explain
from multidomain.model.model import Model

TEXTS = ["a light boot", "so so", "simply superb " * 200, "A light boot"]


def test_it_answers_and_explains_as_offline(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    options = ["--method", "sp", "--encoder", str(tiny_encoder), "--set", "encoder.private=lora", "--max-epochs", "1"]
    folder = trained(tmp_path_factory.getbasetemp() / "encoder-model", [*options, "--max-subwords", "16"])
    offline = Model.load(folder)
    with serving(folder) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        body = {"texts": TEXTS, "domain": "shoes"}
        answer = client.post("/v1/predict", json=body).json()
        found = [[p["probabilities"][name] for name in offline.classes] for p in answer["predictions"]]
        np.testing.assert_allclose(found, offline.predict_proba(TEXTS, ["shoes"] * 4), rtol=0, atol=1e-5)
        assert found[0] == found[3]  # the encoder's tokenizer lower-cases
        words = client.post("/v1/explain", json={"text": TEXTS[0], "domain": "shoes"}).json()["words"]
        expected = explain(offline, TEXTS[0], "shoes").as_json()["words"]
        assert [word["text"] for word in words] == ["a", "light", "boot"]
        np.testing.assert_allclose([w["total"] for w in words], [w["total"] for w in expected], atol=1e-4)
