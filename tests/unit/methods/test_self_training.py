"""Self-training: which answers are kept, what the base method is fitted to, and a case where it helps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reports import Reports
from scipy.sparse import csr_matrix

from multidomain.errors import ConfigError
from multidomain.methods.base import FitContext
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.history import History
from multidomain.methods.linear.base import solve_one
from multidomain.methods.linear.plain import Linear, LinearSettings
from multidomain.methods.registry import method_entry
from multidomain.methods.self_training import SelfTraining, SelfTrainingSettings, most_confident
from multidomain.methods.task import Task

COLUMNS = 4


def sparse(x: np.ndarray) -> csr_matrix:
    return csr_matrix(x, dtype=np.float32)


def make_data(x: np.ndarray, d: np.ndarray, y: np.ndarray, unlabelled: np.ndarray, d_unlabelled: Any) -> TrainingData:
    """Labelled rows, which are among the text, and further text; no development rows."""
    names = tuple("abc"[: 1 + max(d.max(), np.max(d_unlabelled, initial=0))])
    task = Task(x.shape[1], int(y.max()) + 1, names, tuple(int(code) for code in np.unique(d)))
    text = Examples(sparse(np.vstack([unlabelled, x])), np.r_[np.broadcast_to(d_unlabelled, len(unlabelled)), d])
    has_label = np.arange(len(text)) >= len(unlabelled)
    none = Examples(sparse(x[:0]), d[:0], y[:0])
    return TrainingData(task, tuple("xyz"[: task.n_classes]), Examples(sparse(x), d, y), text, none, has_label)


def random_data(n_classes: int = 2) -> TrainingData:
    """Labels in domain a, text in both."""
    random = np.random.default_rng(0)
    x = random.normal(size=(60, COLUMNS))
    y = (x @ random.normal(size=(COLUMNS, n_classes)) + random.normal(size=(60, n_classes))).argmax(axis=1)
    return make_data(x[:20], np.zeros(20, int), y[:20], x[20:], np.repeat([0, 1], 20))


def make_method(data: TrainingData, **settings: Any) -> SelfTraining:
    return SelfTraining(data.task, SelfTrainingSettings.parse(settings))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 1.0])
def test_the_surest_share_of_each_domain_and_class(share: float):
    random = np.random.default_rng(0)
    p = random.dirichlet([1, 1, 1], size=90)
    d = random.choice([0, 2, 5], size=90)
    chosen = most_confident(p, d, share)
    assert sorted(set(chosen)) == list(chosen)
    for domain in (0, 2, 5):
        for y in range(3):
            group = [i for i in range(90) if d[i] == domain and max(range(3), key=lambda c: p[i, c]) == y]
            assert len(group) > 2
            kept = [i for i in group if i in chosen]
            assert len(kept) >= 1
            assert abs(len(kept) - share * len(group)) <= 0.5 or len(kept) == 1
            left = [i for i in group if i not in chosen]
            assert all(p[i, y] >= p[j, y] for i in kept for j in left)


def test_one_answer_of_a_class_is_enough_to_be_kept():
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.45, 0.55]])  # never as sure as of the other class
    np.testing.assert_array_equal(most_confident(p, np.zeros(4, int), 0.34), [0, 3])


class Spy:
    """Notes the rows that the base method is fitted to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.fits: list[TrainingData] = []
        fit = Linear.fit

        def noted(model: Linear, data: TrainingData, context: FitContext) -> History:
            self.fits.append(data)
            return fit(model, data, context)

        monkeypatch.setattr(Linear, "fit", noted)


def test_rounds(monkeypatch: pytest.MonkeyPatch):
    """Round 0 has the labels alone; round r of R adds the share rho r / R, with the weight omega."""
    data, spy = random_data(), Spy(monkeypatch)
    context = Reports()
    method = make_method(data, base="lr", base_settings={"C": 1.0}, rounds=4, share=0.8, weight=0.3)
    assert method.fit(data, context).chosen == {"C": 1.0}
    assert [values["round"] for values in context.values] == [0, 1, 2, 3, 4]
    first, *later = spy.fits
    assert first.labelled is data.labelled
    for r, seen in enumerate(later, start=1):
        rows = seen.labelled
        np.testing.assert_array_equal(rows.x[:20].toarray(), data.labelled.x.toarray())
        np.testing.assert_array_equal(rows.y[:20], data.labelled.y)
        np.testing.assert_array_equal(rows.weight, np.r_[np.ones(20), np.full(len(rows) - 20, 0.3)])
        for d in (0, 1):  # 20 unlabelled rows each, of two classes, each share rounded
            assert abs((rows.d[20:] == d).sum() - 0.8 * r / 4 * 20) <= 1
        assert seen.task.labelled == (0, 1)
        assert seen.dev is data.dev


def test_a_round_fits_the_base_method_to_its_own_answers():
    """The whole of one round, written out: all answers, each with the weight omega."""
    data = random_data(3)
    assert set(data.labelled.y) == {0, 1, 2}
    method = make_method(data, base="lr", base_settings={"C": 2.0}, rounds=1, share=1.0, weight=0.4)
    method.fit(data, FitContext())
    x, y = data.labelled.x.toarray(), data.labelled.y
    unlabelled = data.text.x.toarray()[:40]
    weight, bias = solve_one("lr", csr_matrix(x), y, None, 3, 2.0)
    answers = (unlabelled @ weight + bias).argmax(axis=1)
    omega = np.r_[np.ones(20), np.full(40, 0.4)]
    again, bias = solve_one("lr", csr_matrix(np.vstack([x, unlabelled])), np.r_[y, answers], omega, 3, 2.0)
    assert np.abs(again - weight).max() > 0.05
    np.testing.assert_allclose(method.base.weight[0], again, atol=2e-3)
    np.testing.assert_allclose(method.logits(data.text.x[:40], 1), unlabelled @ again + bias, atol=5e-3)


@pytest.mark.parametrize("base", ["lr", "ls", "svm", "fa-lr", "fa-svm", "msda"])
def test_answers_of_next_to_no_weight_leave_the_base_as_it_is(base: str):
    data, entry = random_data(), method_entry(base)
    settings = {"C": 1.0}
    alone = entry.build(data.task, entry.settings(settings))
    alone.fit(data, FitContext())
    x = data.text.x
    expected = alone.logits(x, 1)
    assert np.abs(expected).max() > 0.3
    for weight, same in ((1e-7, True), (1.0, False)):
        method = make_method(data, base=base, base_settings=settings, rounds=2, weight=weight)
        method.fit(data, FitContext())
        assert np.allclose(method.logits(x, 1), expected, rtol=1e-5, atol=5e-3) == same


def two_domains() -> tuple[TrainingData, np.ndarray, np.ndarray]:
    """Words 0 and 1 tell the classes in both domains; 2 and 3 only in domain b, where they occur beside them.

    New documents of domain b have words 2 and 3 alone. Domain a, the one with labels, does not have these.
    """
    y = np.tile([0, 1], 15)
    known, new = np.eye(4)[y], np.eye(4)[2 + y]
    data = make_data(known, np.zeros(30, int), y, known + new, 1)
    return data, new, y


@pytest.mark.parametrize("base", ["fa-lr", "lr", "svm"])
def test_words_that_occur_beside_known_ones_are_learnt(base: str):
    data, new, y = two_domains()
    settings = {"C": 1.0}
    entry = method_entry(base)
    alone = entry.build(data.task, entry.settings(settings))
    alone.fit(data, FitContext())
    x = sparse(new)
    before = alone.logits(x, 1).argmax(axis=1)
    assert (before == y).mean() == 0.5  # it has never seen these words
    method = make_method(data, base=base, base_settings=settings)
    method.fit(data, FitContext())
    np.testing.assert_array_equal(method.logits(x, 1).argmax(axis=1), y)


def test_a_domain_without_labels_gets_private_weights():
    data, new, _ = two_domains()
    method = make_method(data, base="fa-lr", base_settings={"C": 1.0})
    method.fit(data, FitContext())
    x = sparse(new)
    assert np.abs(method.logits(x, 1) - method.logits(x, None)).max() > 0.1


@pytest.mark.parametrize("base", ["man-nll", "dann", "self-training"])
def test_a_base_that_is_not_fitted_at_once_is_refused(base: str):
    with pytest.raises(
        ConfigError,
        match=r"Self-training needs a base method that does not learn in epochs, such as 'fa-lr' or 'svm', and "
        rf"'{base}' is none\. Choose another 'base'\.$",
    ):
        make_method(random_data(), base=base)


def test_settings_and_name_of_the_base_are_checked():
    with pytest.raises(ConfigError, match=r"Invalid settings of method 'svm':\n  - 'D' is not a setting"):
        make_method(random_data(), base="svm", base_settings={"D": 1})
    with pytest.raises(ConfigError, match=r"There is no method 'fa-ls'\. Did you mean 'fa-l"):
        make_method(random_data(), base="fa-ls")


def test_no_unlabelled_text_is_refused():
    x, y = np.eye(4)[[0, 1, 2]], np.array([0, 1, 1])
    data = make_data(x, np.zeros(3, int), y, x[:0], [])
    with pytest.raises(
        ConfigError,
        match=r"^Self-training learns from unlabelled text, and there is none\. Give some "
        r"\(a row without a label is enough\), or use method='lr'\.$",
    ):
        make_method(data, base="lr").fit(data, FitContext())


def test_weights_reach_the_solver_of_the_base():
    """A row that counts 2 is the row twice."""
    data = random_data()
    model = Linear(data.task, LinearSettings())
    once = data.labelled
    heavy = Examples(once.x, once.d, once.y, np.r_[2.0, np.ones(19)])
    twice = once.select(np.r_[0, np.arange(20)])
    results = [model.solve(replace(data, labelled=rows), {"C": 1.0}, FitContext()) for rows in (heavy, twice, once)]
    np.testing.assert_allclose(results[0].weight, results[1].weight, atol=1e-4)
    assert np.abs(results[0].weight - results[2].weight).max() > 1e-3
