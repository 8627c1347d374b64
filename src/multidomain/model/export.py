"""Export of linear models to ONNX: from tokens and domains to labels and probabilities (decision 31)."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from multidomain.data.values import ONLY_DOMAIN
from multidomain.errors import ConfigError, missing_package
from multidomain.features.ngrams import NgramFeaturizer
from multidomain.features.token_rules import RULES, rules_as_data
from multidomain.features.tokens import tokenise
from multidomain.files import whole_file, write_json
from multidomain.methods.linear_form import DenoisedForm, LinearForm
from multidomain.model.model import Model
from multidomain.version import __version__

if TYPE_CHECKING:
    from onnx import ModelProto

    from multidomain.model.onnx_graph import Graph

_EXAMPLES = (
    "I can't put this “book” down: 1.5 stars?! cannot &amp; will not",
    "I ca n't put this `` book '' down",
    "<br/>Café №5, naïve ﬁlm's wi-fi; 東京 शब्द",
)


def export(model: Model, path: Path) -> Path:
    """Write a model as ONNX, and beside it the rules of its tokens as JSON, whose path is returned.

    Raises
    ------
    ConfigError
        The method is no sum over words, the model reads vectors, or the package onnx is missing.
    """
    about = {"token_rules": RULES, "n_gram_tokens": str(_featurizer(model).ngram_range[1])}
    about |= {"classes": json.dumps(list(map(str, model.classes))), "domains": json.dumps(list(model.domains))}
    content = onnx_model(model, about | {"method": model.method_name, "multidomain": __version__})
    rules = path.with_suffix(".tokens.json")
    examples = [{"text": text, "tokens": next(tokenise([text]).words())} for text in _EXAMPLES]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(rules, {**rules_as_data(), "examples": examples})
    with whole_file(path) as temporary:
        temporary.write_bytes(content.SerializeToString())
    return rules


def onnx_model(model: Model, about: dict[str, str]) -> ModelProto:
    """Return a model as an ONNX graph.

    Its inputs are ``tokens``, strings of shape (rows, tokens), where shorter rows end in empty strings, and ``domain``,
    strings of shape (rows,); its outputs are ``label``, strings of shape (rows,), and ``probabilities``, shape
    (rows, classes). A domain that was not in training has the shared weights; if there are none, the label is empty.
    """
    features = _featurizer(model)
    from onnx import TensorProto

    from multidomain.model.onnx_graph import Graph

    graph, form = Graph(), model.method.linear_form()
    counts = _counts(graph, graph.input("tokens", "rows", "tokens"), features)
    copy = _copies(graph, graph.input("domain", "rows"), model)
    rows = _Rows(graph, counts, copy, features.n_inputs)
    if features.idf is not None:
        tf = graph.node("Add", graph.node("Log", rows.value), graph.number(1))
        rows.value = rows.of_length_1(graph.node("Mul", tf, graph.rows(features.idf, rows.column)))
    logits = _calibrated(graph, _logits(graph, form, rows), copy, model)
    p = graph.node("Softmax", graph.node("Cast", logits, to=TensorProto.FLOAT), axis=1)
    best = graph.node("ArgMax", p, axis=1, keepdims=0)
    label = graph.node("Gather", graph.array(list(map(str, model.classes))), best)
    if not model.requirements.unseen_domains:
        known = graph.node("Greater", copy, graph.array(np.array(0)))
        label = graph.node("Where", known, label, graph.array([""]))
    graph.output("label", label, TensorProto.STRING, "rows")
    graph.output("probabilities", p, TensorProto.FLOAT, "rows", len(model.classes))
    return graph.model(model.method_name, about)


def _featurizer(model: Model) -> NgramFeaturizer:
    """Return the n-grams of a model that can be exported."""
    if not model.requirements.linear:
        raise ConfigError(
            f"'{model.method_name}' is no sum over words, and only such models are exported.",
            "Train a linear method, such as {method=sped}.",
        )
    if model.requirements.featurizer != "ngrams" or model.features.vocabulary is None:
        raise ConfigError("The model reads vectors. A model of texts was expected.", "Train it on texts.")
    if find_spec("onnx") is None:
        raise missing_package("The export of a model", "onnx")
    return cast(NgramFeaturizer, model.features)


def _counts(graph: Graph, tokens: str, features: NgramFeaturizer) -> str:
    """Return how often each n-gram occurs in each row."""
    assert features.vocabulary is not None
    ngrams = [ngram.split(" ") for ngram in features.vocabulary]
    lengths = np.array([len(ngram) for ngram in ngrams])
    order = np.argsort(lengths, kind="stable")  # the pool has the shortest first
    shortest, longest = int(lengths.min()), int(lengths.max())
    return graph.node(
        "TfIdfVectorizer",
        tokens,
        mode="TF",
        min_gram_length=shortest,
        max_gram_length=longest,
        max_skip_count=0,
        ngram_counts=[int((lengths < n).dot(lengths)) for n in range(1, longest + 1)],
        ngram_indexes=order.tolist(),
        pool_strings=[token for i in order for token in ngrams[i]],
    )


def _copies(graph: Graph, domain: str, model: Model) -> str:
    """Return which copy of the weights each row has, 0 in a domain that was not in training."""
    names = list(model.domains)
    copies = list(range(1, 1 + len(names)))
    default = 1 if names == [ONLY_DOMAIN] else 0  # trained without domains, as `Model.predict` has it
    return graph.lookup(domain, keys_strings=names, values_int64s=copies, default_int64=default)


class _Rows:
    """The entries of rows that are not 0: their row, column and value, and the copy of the weights of their row."""

    def __init__(self, graph: Graph, counts: str, copy: str, n_columns: int):
        from onnx import TensorProto

        self._graph, self.copy, self.n_columns = graph, copy, n_columns
        places = graph.node("NonZero", counts)
        self.row, self.column = (graph.node("Gather", places, graph.array(np.array(k)), axis=0) for k in (0, 1))
        found = graph.node("GatherND", counts, graph.node("Transpose", places, perm=[1, 0]))
        self.value = graph.node("Cast", found, to=TensorProto.DOUBLE)
        self._n_rows = graph.node("Shape", copy)

    def of_length_1(self, values: str) -> str:
        """Return values that are scaled to length 1 in each row."""
        squares = self._graph.sums(self._graph.node("Mul", values, values), self.row, self._n_rows)
        length = self._graph.node("Max", self._graph.node("Sqrt", squares), self._graph.number(1e-12))
        return self._graph.node("Div", values, self._graph.node("Gather", length, self.row))

    def products(self, values: str, vectors: str, size: int) -> str:
        """Return the sum of values times vectors of a size, shape (rows, size)."""
        column = self._graph.node("Unsqueeze", values, self._graph.axis(1))
        return self._graph.sums(self._graph.node("Mul", column, vectors), self.row, self._n_rows, size)


def _logits(graph: Graph, form: LinearForm, rows: _Rows) -> str:
    """Return what `Method.logits` does, shape (rows, classes)."""
    values, n_scores = rows.value, form.shared.shape[1]
    if form.evidence is not None:
        values = rows.of_length_1(graph.node("Mul", values, graph.rows(form.evidence, rows.column)))
    weight = graph.rows(form.shared, rows.column)
    if len(form.keys):
        copy = graph.node("Gather", rows.copy, rows.row)
        key = graph.node("Add", graph.node("Mul", copy, graph.array(np.array(rows.n_columns))), rows.column)
        places, none = list(range(len(form.keys))), len(form.keys)
        place = graph.lookup(key, keys_int64s=form.keys.tolist(), values_int64s=places, default_int64=none)
        private = np.vstack([form.private, np.zeros((1, n_scores), dtype=np.float32)])
        weight = graph.node("Add", weight, graph.rows(private, place))
    scores = rows.products(values, weight, n_scores)
    if form.denoised is not None:
        scores = graph.node("Add", scores, _denoised_scores(graph, form.denoised, rows))
    scores = graph.node("Mul", scores, graph.rows(form.scale[:, None], rows.copy))
    if n_scores < form.bias.shape[1]:  # of two classes: -s/2 and s/2
        scores = graph.node("Mul", scores, graph.array(np.array([[-0.5, 0.5]])))
    return graph.node("Add", scores, graph.rows(form.bias, rows.copy))


def _denoised_scores(graph: Graph, denoised: DenoisedForm, rows: _Rows) -> str:
    n, size = denoised.projection.shape
    place = np.full(rows.n_columns, n)
    place[denoised.columns] = np.arange(n)
    projection = np.vstack([denoised.projection, np.zeros((1, size), dtype=np.float32)])
    vectors = graph.rows(projection, graph.node("Gather", graph.array(place), rows.column))
    view = rows.products(rows.value, vectors, size)
    squares = graph.node("ReduceSum", graph.node("Mul", view, view), graph.axis(1))
    length = graph.node("Max", graph.node("Sqrt", squares), graph.number(1e-12))
    view = graph.node("Unsqueeze", graph.node("Div", view, length), graph.axis(1))
    return graph.node("Squeeze", graph.node("MatMul", view, graph.rows(denoised.weight, rows.copy)), graph.axis(1))


def _calibrated(graph: Graph, logits: str, copy: str, model: Model) -> str:
    scale, bias = model.method.inverse_temperature[:, None], model.method.class_bias.copy()
    if not model.requirements.unseen_domains:
        bias[0] = np.nan
    return graph.node("Add", graph.node("Mul", logits, graph.rows(scale, copy)), graph.rows(bias, copy))
