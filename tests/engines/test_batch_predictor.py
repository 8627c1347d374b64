"""A model as a function of batches: every type of batch has the same predictions, each in the row of its text."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import default_split
from multidomain.errors import ConfigError, DataError, ModelError
from multidomain.model.batch_predictor import BatchPredictor
from multidomain.model.model import Model
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

TEXTS = ["a delightful novel", None, "glitchy and useless", "  ", "a fine pan"]
DOMAINS = ["books", "books", "electronics", None, "elsewhere"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    corpus = load_corpus("demo")
    folder = tmp_path_factory.mktemp("trained")
    train_model(corpus, default_split(corpus), RunSettings(method="lr", method_settings={"C": 1.0})).model.save(folder)
    return folder


def expected(folder: Path, i: int) -> tuple[str, float]:
    model = Model.load(folder)
    domain = DOMAINS[i] if DOMAINS[i] in model.domains else None
    p = model.predict_proba([TEXTS[i]], [domain])[0]
    return model.classes[p.argmax()], round(float(p.max()), 6)


def as_lists(batch: Any) -> dict[str, list[Any]]:
    if isinstance(batch, dict):
        return {name: list(values) for name, values in batch.items()}
    return batch.to_pydict() if isinstance(batch, pa.Table) else batch.to_dict(as_series=False)


@pytest.mark.filterwarnings("ignore:Domain 'elsewhere'")
@pytest.mark.parametrize("kind", [dict, pl.DataFrame, pa.table])
def test_all_types_of_batches_have_the_same_predictions(folder: Path, kind: Any) -> None:
    batch = kind({"id": [5, 4, 3, 2, 1], "review": TEXTS, "product": DOMAINS})
    answered = as_lists(pickle.loads(pickle.dumps(BatchPredictor(folder, probabilities=True)))(batch))
    assert list(answered) == ["id", "review", "product", "prediction", "confidence", "p(negative)", "p(positive)"]
    assert answered["id"] == [5, 4, 3, 2, 1]
    for i, text in enumerate(TEXTS):
        found = answered["prediction"][i], answered["confidence"][i]
        if text is None or not text.strip():
            assert found[0] is None
            assert found[1] is None or np.isnan(found[1])
        else:
            assert found == expected(folder, i)
            assert answered["p(negative)"][i] + answered["p(positive)"][i] == pytest.approx(1, abs=2e-6)


def test_pandas_frames_keep_their_index(folder: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"text": ["a fine book", None, "a poor book"]}, index=[7, 3, 5])
    predictor = BatchPredictor(folder, domain="books")
    answered = predictor(frame)
    assert answered.index.tolist() == [7, 3, 5] and answered["prediction"].isna().tolist() == [False, True, False]
    as_arrays = predictor({"text": frame["text"].to_numpy()})
    np.testing.assert_array_equal(answered["confidence"], as_arrays["confidence"])
    assert list(map(len, predictor.map([frame, frame[:1]]))) == [3, 1]


@pytest.mark.parametrize("kind", [pl.DataFrame, pa.table])
def test_types_do_not_depend_on_the_rows(folder: Path, kind: Any) -> None:
    predictor = BatchPredictor(folder, domain="books")
    full, none, empty = (predictor(kind({"text": texts})) for texts in (["a fine book"], ["", " "], [""]))
    schemas = {str(batch.schema) for batch in (full, none, empty[:0])}
    assert len(schemas) == 1


def test_rows_of_little_confidence_have_no_prediction(folder: Path) -> None:
    batch = {"text": ["a delightful novel", "a novel"]}
    p = BatchPredictor(folder, domain="books")(batch)["confidence"]
    answered = BatchPredictor(folder, domain="books", abstain=(p.min() + p.max()) / 2)(batch)
    assert [one is None for one in answered["prediction"]] == (p < p.max()).tolist()
    np.testing.assert_array_equal(answered["confidence"], p)


def test_a_model_that_is_replaced_is_loaded_again(folder: Path, tmp_path: Path) -> None:
    model, batch = Model.load(folder), {"text": ["a delightful novel"]}
    model.save(tmp_path / "m")
    predictor = BatchPredictor(tmp_path / "m", domain="books")
    before = predictor(batch)["confidence"][0]
    model.method.inverse_temperature[:] *= 3
    model.save(tmp_path / "m")
    assert predictor(batch)["confidence"][0] > before


def test_what_cannot_be_used_is_said(folder: Path, tmp_path: Path) -> None:
    predictor = BatchPredictor(folder)
    with pytest.raises(ConfigError, match=r"Expected a pandas or polars frame.* got a 'list'"):
        predictor([1])
    with pytest.raises(DataError, match="A batch has a column 'prediction' already"):
        predictor({"text": ["a"], "prediction": ["b"]})
    with pytest.raises(DataError, match="A batch has no column that looks like the text"):
        predictor({"n": [1]})
    with pytest.raises(ModelError, match="nowhere"):
        BatchPredictor(tmp_path / "nowhere")({"text": ["a"]})


def test_making_one_loads_nothing(folder: Path) -> None:
    code = f"""
import pickle, sys
from multidomain.model.batch_predictor import BatchPredictor
pickle.dumps(BatchPredictor({str(folder)!r}))
assert not {{"torch", "sklearn", "numba", "pyarrow", "pandas"}} & set(sys.modules), sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
