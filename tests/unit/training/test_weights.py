"""Weights in training: of rows and of classes, from the corpus to the loss of every method."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor

from multidomain import MultiDomainClassifier
from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.errors import ConfigError
from multidomain.methods.data import TrainingData
from multidomain.methods.gradient import Batch
from multidomain.methods.registry import method_entry
from multidomain.nn.sparse import SparseMatrix
from multidomain.training.data import row_weights
from multidomain.training.sampling import labelled_stream
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

SOLVED = ("lr", "svm", "ls", "fa-lr", "fa-svm", "rmtl", "mtl-graph", "cmsc-lr", "msda", "self-training", "sped")
IN_EPOCHS = ("man-nll", "man-l2", "sp", "can", "mlp", "dann", "mdan-hmax", "mdan-smax", "fs-mtl", "asp-mtl")
CLASSES = ["ham", "spam", "toast"]
Y = np.array([0, 0, 0, 0, 1, 2, 2])


def settings_of(name: str) -> dict[str, Any]:
    """Settings of a small network that learns quickly; others stand at their defaults."""
    if name not in IN_EPOCHS:
        return {}
    return {"hidden": (8,), "lr": 0.02, **({"extractor": "mlp"} if name.endswith("-mtl") else {})}


def test_balanced_weights_are_scikit_learn_s():
    expected = compute_class_weight("balanced", classes=np.arange(3), y=Y)
    np.testing.assert_allclose(row_weights(None, Y, CLASSES, "balanced"), expected[Y])


def test_balanced_classes_have_the_same_total_weight_and_all_rows_the_same_as_before():
    own = np.array([1.0, 2.0, 0.5, 4.0, 1.5, 3.0, 0.1])
    weight = row_weights(own, Y, CLASSES, "balanced")
    totals = [sum(w for w, y in zip(weight, Y, strict=True) if y == c) for c in range(3)]
    assert totals == pytest.approx([own.sum() / 3] * 3)
    for c in range(3):  # within a class, rows keep their proportions
        factor = [w / before for w, before, y in zip(weight, own, Y, strict=True) if y == c]
        np.testing.assert_allclose(factor, factor[0])


def test_given_class_weights_multiply_those_of_the_rows():
    own = np.arange(1.0, 8.0)
    np.testing.assert_array_equal(
        row_weights(own, Y, CLASSES, {"spam": 3, "toast": 0.5}), [1, 2, 3, 4, 5 * 3, 6 * 0.5, 7 * 0.5]
    )
    np.testing.assert_array_equal(row_weights(None, Y, CLASSES, {"ham": 2}), [2, 2, 2, 2, 1, 1, 1])
    np.testing.assert_array_equal(row_weights(own, Y, CLASSES, None), own)
    assert row_weights(None, Y, CLASSES, None) is None


def test_mini_batches_have_the_weights_of_their_rows(training_data_of: Callable[..., TrainingData]):
    data = training_data_of(labelled=(9, 0, 12), text=(9, 6, 12))
    assert labelled_stream(data, 6, seed=0, balanced=False).sample().weight is None
    weighted = replace(data, labelled=replace(data.labelled, weight=np.arange(1.0, 22.0)))
    batch = labelled_stream(weighted, 6, seed=0, balanced=False).sample(3)
    rows = batch.x.value[batch.x.offset[:-1]].reshape(3 * 2, 6)  # column 0 is the number of a row, from 1
    assert batch.weight is not None and batch.weight.dtype == torch.float32
    torch.testing.assert_close(batch.weight * 21, rows)


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_weights_of_any_scale_fit_into_single_precision(scale: float, training_data_of: Callable[..., TrainingData]):
    data = training_data_of()
    weighted = replace(data, labelled=replace(data.labelled, weight=np.arange(1.0, 28.0) * scale))
    weight = labelled_stream(weighted, 6, seed=0, balanced=False).sample().weight
    assert weight is not None and ((weight > 0) & (weight <= 1)).all()


class Once:
    """Hands out the same mini-batches of three domains again and again."""

    def __init__(self, batch: Batch):
        self._batch = batch

    def sample(self, times: int = 1) -> Batch:
        x = self._batch.x
        return replace(self._batch, x=x.blocks([0, 1, 2] * times, len(x) // 3))


@pytest.mark.parametrize("name", IN_EPOCHS)
def test_the_loss_of_a_network_is_the_weighted_mean_of_each_domain_s_mini_batch(
    name: str, training_data_of: Callable[..., TrainingData]
):
    """J_C that is logged, against loops over what C has just returned."""
    data = training_data_of(labelled=(4, 4, 4), text=(4, 4, 4))
    entry = method_entry(name)
    torch.manual_seed(0)
    method = entry.build(data.task, entry.settings(settings_of(name)))
    captured: list[Tensor] = []
    method.C.register_forward_hook(
        lambda module, given, out: captured.append(out.detach()) if out.requires_grad else None
    )
    method.start_training()
    method.train()
    weight = torch.tensor(np.random.default_rng(0).uniform(0.1, 3, (3, 4)), dtype=torch.float32)
    x, y = SparseMatrix(data.labelled.x).all(), torch.from_numpy(data.labelled.y).reshape(3, 4)
    log = method.step(Once(Batch(x, y, weight)), Once(Batch(x)), 0, 0)
    expected = 0.0
    (learnt,) = captured  # of `can`, D also reads what C returns, without a gradient
    for of_domain, labels, weights in zip(learnt.tolist(), y.tolist(), weight.tolist(), strict=True):
        losses = [
            math.log(sum(math.exp(value) for value in row)) - row[label]
            for row, label in zip(of_domain, labels, strict=True)
        ]
        expected += sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
    assert float(log["J_C"]) == pytest.approx(expected, rel=1e-4)


def contradictory(times: int = 8) -> tuple[list[str], list[str], list[str], np.ndarray]:
    """Every text once as good and once as bad; the weights are with one of them."""
    texts, labels, domains, heavy = [], [], [], []
    for i in range(times):
        for domain in ("books", "pans"):
            for word, truth in (("fine", "good"), ("poor", "bad")):
                for label in ("good", "bad"):
                    texts.append(f"a {word} {domain} number{i}")
                    labels.append(label)
                    domains.append(domain)
                    heavy.append(label == truth)
    return texts, labels, domains, np.array(heavy)


@pytest.mark.parametrize("name", (*SOLVED, *IN_EPOCHS))
def test_every_method_learns_what_weighs_more(name: str):
    texts, labels, domains, heavy = contradictory()
    # Some methods need a domain without labels, or text.
    texts, labels, domains = [*texts, "a shoe", "the shoe"], [*labels, None, None], [*domains, "shoes", "shoes"]
    heavy = np.append(heavy, [True, True])
    for weight, truth in ((np.where(heavy, 8.0, 1.0), ["good", "bad"]), (np.where(heavy, 1.0, 8.0), ["bad", "good"])):
        model = MultiDomainClassifier(name, validation_fraction=0, max_epochs=25, random_state=0, **settings_of(name))
        model.fit(texts, labels, domains=domains, sample_weight=weight)
        for domain in ("books", "pans"):
            answers = model.predict([f"a fine {domain}", f"a poor {domain}"], domains=[domain] * 2)
            assert answers.tolist() == truth, domain


def skewed() -> tuple[Corpus, Split]:
    """Nine rows of ham for one of spam, which no word tells apart."""
    n = 60
    labels = ["spam" if i % 10 == 0 else "ham" for i in range(n)]
    corpus = Corpus([f"word{i % 3} and others" for i in range(n)], labels, ["a", "b"] * (n // 2))
    return corpus, Split(np.arange(n), [], [], [], rule="by hand")


@pytest.mark.parametrize("name", ["lr", "sped", "majority", "man-nll"])
def test_balanced_classes_are_predicted_more_evenly(name: str):
    corpus, split = skewed()
    share = {}
    for class_weight in (None, "balanced", {"spam": 81.0}):
        settings = RunSettings(
            method=name,
            method_settings=settings_of(name),
            training={"max_epochs": 20},
            objective={"class_weight": class_weight},
        )
        p = train_model(corpus, split, settings).probabilities(corpus, split.train)
        share[str(class_weight)] = float(p[:, 1].mean())
    none, balanced, heavy = share.values()
    assert none < balanced < heavy


def test_weights_of_a_class_that_is_none_are_refused_with_the_nearest():
    corpus, split = skewed()
    settings = RunSettings(method="lr", objective={"class_weight": {"spa": 2}})
    with pytest.raises(ConfigError, match=r"class_weight names 'spa', which is no class of 'corpus'\..*'spam'"):
        train_model(corpus, split, settings)


def test_equal_weights_change_nothing_and_weights_do():
    corpus, split = skewed()
    settings = RunSettings(method="man-nll", method_settings=settings_of("man-nll"), training={"max_epochs": 2})
    runs = [
        train_model(replace(corpus, weights=weights), split, settings).probabilities(corpus, split.train)
        for weights in (None, np.full(60, 0.25), np.linspace(0.1, 2, 60))
    ]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-4)
    assert np.abs(runs[0] - runs[2]).max() > 0.01


def test_weights_of_dev_rows_do_not_select():
    """Selection counts each dev row once."""
    corpus, _ = skewed()
    split = Split(np.arange(40), np.arange(40, 60), [], [], rule="by hand")
    settings = RunSettings(method="lr")
    weights = np.ones(60)
    weights[40:] = np.linspace(0.1, 50, 20)
    tried = [
        train_model(replace(corpus, weights=given), split, settings).history.chosen for given in (np.ones(60), weights)
    ]
    assert tried[0] == tried[1]
    assert Counter(corpus.labels) == Counter(replace(corpus, weights=weights).labels)
