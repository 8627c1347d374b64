"""SPED: each of its parts alone against liblinear and loops, what it may learn from, and which values it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reports import Reports
from scipy.sparse import csr_matrix
from scipy.special import log_softmax
from sklearn.svm import LinearSVC

from multidomain.errors import ConfigError
from multidomain.methods.base import FitContext
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.evidence import class_evidence
from multidomain.methods.priors.alignment import align_to_prior
from multidomain.methods.registry import method_entry
from multidomain.methods.sped.method import SPED, SPEDSettings
from multidomain.methods.sped.pseudo_labels import pseudo_labels
from multidomain.methods.task import Task
from multidomain.threads import use_threads

COLUMNS, DOMAINS, LABELLED = 8, 3, (0, 2)  # domain 1 has no labels
WORDS_ALONE = {"denoised": 0, "C": 0.5}


def sparse(x: np.ndarray) -> csr_matrix:
    return csr_matrix(x, dtype=np.float32)


def random_text(n: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    x = (random.random((n, COLUMNS)) + 0.1) * (random.random((n, COLUMNS)) < 0.5)
    x[:, 0] += 0.1  # so that no row is empty
    return x


def answers_to(x: np.ndarray, d: np.ndarray, n_classes: int) -> np.ndarray:
    """Classes, which depend on the words a bit differently in each domain, and are sometimes wrong."""
    random = np.random.default_rng(9)
    slope = random.normal(size=(COLUMNS, n_classes)) + 0.7 * random.normal(size=(DOMAINS, COLUMNS, n_classes))
    noise = 0.2 * random.normal(size=(len(x), n_classes))
    return (np.einsum("ij,ijc->ic", x - 0.4, slope[d]) + noise).argmax(axis=1)


def make_data(
    n_classes: int = 2,
    n_dev: int = 0,
    unlabelled: np.ndarray | None = None,
    d_unlabelled: Any = 1,
    weight: np.ndarray | None = None,
) -> TrainingData:
    """40 labelled rows, which are among the text, and the text of a domain without labels."""
    x, d = random_text(40, 0), np.tile(LABELLED, 20)
    y = answers_to(x, d, n_classes)
    assert set(y) == set(range(n_classes))
    more = random_text(30, 1) if unlabelled is None else unlabelled
    text = Examples(sparse(np.vstack([x, more])), np.r_[d, np.broadcast_to(d_unlabelled, len(more))])
    x_dev, d_dev = random_text(n_dev, 2), np.resize(LABELLED, n_dev)
    dev = Examples(sparse(x_dev), d_dev, answers_to(x_dev, d_dev, n_classes))
    task = Task(COLUMNS, n_classes, ("a", "b", "c"), LABELLED)
    has_label = np.arange(len(text)) < 40
    return TrainingData(task, tuple("xyz"[:n_classes]), Examples(sparse(x), d, y, weight), text, dev, has_label)


def fitted(data: TrainingData, **settings: Any) -> SPED:
    method = SPED(data.task, SPEDSettings.parse(settings))
    method.fit(data, FitContext())
    return method


def logits(method: SPED, x: np.ndarray, d: int | None) -> np.ndarray:
    return method.logits(sparse(x), d)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class Machine:
    """Support vector machines on explicit copies of the features and of a constant, one against the rest."""

    def __init__(self, phi: np.ndarray, d: np.ndarray, y: np.ndarray, cost: np.ndarray, private: float):
        phi = np.hstack([phi, np.ones((len(phi), 1))])
        copies = [phi, *(np.sqrt(private) * phi * (d == code)[:, None] for code in range(DOMAINS))]
        weight = []
        for c in [1] if y.max() == 1 else range(y.max() + 1):
            machine = LinearSVC(C=1, dual=True, tol=1e-8, max_iter=100_000, fit_intercept=False)
            machine.fit(np.hstack(copies), y == c, sample_weight=cost)
            w, *v = machine.coef_.reshape(1 + DOMAINS, -1)
            weight.append(np.stack([w, *(w + np.sqrt(private) * v_d for v_d in v)]))
        self.weight = np.stack(weight, axis=-1)

    def logits(self, phi: np.ndarray, d: int | None) -> np.ndarray:
        scores = np.hstack([phi, np.ones((len(phi), 1))]) @ self.weight[0 if d is None else 1 + d]
        return scores * [-0.5, 0.5] if scores.shape[1] == 1 else scores


def without_biases(logits: np.ndarray) -> np.ndarray:
    return logits - logits.mean(axis=0)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("length", [0.0, 0.7])
@pytest.mark.parametrize("private", [0.0, 0.5])
def test_the_first_fit_is_a_support_vector_machine_on_both_views(n_classes: int, length: float, private: float):
    data = make_data(n_classes)
    second = {"denoised": 3, "denoised_words": 5, "denoised_length": length}
    method = fitted(data, rounds=0, C=0.5, evidence=0.4, private=private, **second)

    def phi(x: np.ndarray) -> np.ndarray:
        _, denoised = method.views.of(sparse(x))  # see the tests of views
        return np.hstack([unit(x * (0.6 + 0.4 * class_evidence(data.labelled, n_classes))), length * denoised])

    rows = data.labelled
    machine = Machine(phi(rows.x.toarray()), rows.d, rows.y, np.full(40, 0.5), private)
    new = random_text(25, 3)
    for d in (None, 0, 2):  # domain 1 is aligned to its estimated prior
        expected = machine.logits(phi(new), d)
        assert np.abs(expected).max() > 0.3
        np.testing.assert_allclose(without_biases(logits(method, new, d)), without_biases(expected), atol=0.02)
    apart = np.abs(without_biases(logits(method, new, 0) - logits(method, new, 2))).max()
    assert apart > 0.15 if private else apart < 1e-6


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_round_learns_from_answers_as_far_as_they_are_sure(n_classes: int):
    data = make_data(n_classes)
    shares = np.bincount(data.labelled.y, minlength=n_classes) / 40
    given = {"b": dict(zip("xyz", shares.tolist(), strict=False))}
    settings = {**WORDS_ALONE, "evidence": 0.0, "private": 0.5, "pseudo_label_weight": 0.8, "class_priors": given}
    method = fitted(data, rounds=1, **settings)
    rows, cost = data.labelled, np.full(40, 0.5)
    known, own = unit(rows.x.toarray()), unit(random_text(30, 1))
    first = Machine(known, rows.d, rows.y, cost, 0.5)
    aligned = align_to_prior(first.logits(own, 1), shares)
    answer, weight = pseudo_labels(aligned, np.ones(30, int), shares)
    assert len(set(answer)) == n_classes
    both, d = np.vstack([known, own]), np.r_[rows.d, np.ones(30, int)]
    second = Machine(both, d, np.r_[rows.y, answer], np.r_[cost, 0.8 * 0.5 * weight], 0.5)
    new = random_text(25, 3)
    assert np.abs(second.logits(unit(new), 1) - first.logits(unit(new), 1)).max() > 0.1
    for code in (None, 0, 2):
        expected = without_biases(second.logits(unit(new), code))
        np.testing.assert_allclose(without_biases(logits(method, new, code)), expected, atol=0.02)
    predicted = np.bincount(logits(method, random_text(30, 1), 1).argmax(axis=1), minlength=n_classes)
    np.testing.assert_allclose(predicted, np.bincount(answer, minlength=n_classes), atol=1)


def test_a_pseudo_label_counts_its_margin_and_rare_classes_are_made_up_for():
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.2, 0.2, 0.6]])
    answer, weight = pseudo_labels(np.log(p), np.array([0, 0, 0, 1]), np.array([0.25, 0.25, 0.5]))
    assert answer.tolist() == [0, 1, 0, 2]
    margins = [0.2, 0.7, 0.5, 0.4]
    mass, total = {0: 0.7, 1: 0.7}, 1.4  # of domain 0
    expected = [0.25 * total / mass[0] * margins[0], 0.25 * total / mass[1] * margins[1]]
    expected += [0.25 * total / mass[0] * margins[2], 0.5 * margins[3]]
    np.testing.assert_allclose(weight, expected)


def test_a_class_with_hardly_any_pseudo_label_does_not_outweigh_the_others():
    p = np.vstack([np.tile([0.9, 0.1], (99, 1)), [[0.4, 0.6]]])
    _, weight = pseudo_labels(np.log(p), np.zeros(100, int), np.array([0.5, 0.5]))
    assert weight[-1] == pytest.approx(5 * 0.2)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("evidence", 2, r"less than or equal to 1, got 2\."),
        ("evidence", -0.1, r"greater than or equal to 0, got -0\.1\."),
        ("private", -1, r"greater than or equal to 0, got -1\."),
        ("denoised", -1, r"greater than or equal to 0, got -1\."),
        ("denoised_length", -1, r"greater than or equal to 0, got -1\."),
        ("noise", 1, r"less than 1, got 1\."),
        ("noise", 0, r"greater than or equal to 0.01, got 0\."),
        ("denoised_words", 0, r"greater than or equal to 1, got 0\."),
        ("rounds", -1, r"greater than or equal to 0, got -1\."),
        ("rounds", 1.5, r"got 1\.5\."),
        ("pseudo_label_weight", 0, r"greater than 0, got 0\."),
        ("class_priors", "{", r"is not JSON; .*, got '\{'\."),
        ("C", 0, r"greater than 0, got 0\."),
        ("C", float("inf"), r"got inf\."),
    ],
)
def test_settings_that_cannot_be_are_refused(name: str, value: Any, message: str):
    with pytest.raises(ConfigError, match=rf"^Invalid settings of method 'sped':\n  - '{name}': .*{message}$"):
        method_entry("sped").settings({name: value})


def test_a_mistyped_setting_brings_the_near_one():
    with pytest.raises(ConfigError, match=r"'evidense' is not a setting\. Did you mean 'evidence'\?"):
        method_entry("sped").settings({"evidense": 1})


def test_without_denoising_there_is_no_second_view():
    context = Reports()
    data = make_data(n_dev=20)
    method = SPED(data.task, SPEDSettings(denoised=0))
    chosen = method.fit(data, context).chosen
    assert method.views.projection.size == method.linear.denoised.size == 0
    first = [values for values in context.values if "round" not in values]
    assert {values["length"] for values in first} == {chosen["length"]} == {0.0}
    assert [values["C"] for values in first] == [0.1, 0.3, 1.0, 3.0]


def test_without_evidence_words_weigh_what_they_did():
    data = make_data()
    np.testing.assert_array_equal(fitted(data, evidence=0).views.evidence, np.ones(COLUMNS))
    assert fitted(data, evidence=0.5).views.evidence.std() > 0.05


def same_state(a: SPED, b: SPED) -> bool:
    return all(np.array_equal(value, b.weights()[name]) for name, value in a.weights().items())


def test_without_rounds_and_denoising_text_without_labels_is_not_looked_at():
    some, other = make_data(), make_data(unlabelled=random_text(17, 5))
    prior = {"class_priors": "labelled"}
    a, b = (fitted(data, rounds=0, **WORDS_ALONE, **prior) for data in (some, other))
    np.testing.assert_array_equal(a.linear.shared, b.linear.shared)
    np.testing.assert_array_equal(a.linear.private, b.linear.private)
    np.testing.assert_array_equal(a.linear.bias[[0, 1, 3]], b.linear.bias[[0, 1, 3]])
    assert not same_state(fitted(some, rounds=1, **WORDS_ALONE), fitted(other, rounds=1, **WORDS_ALONE))
    x = random_text(10, 3)
    method = fitted(some, rounds=0, **WORDS_ALONE)
    off = logits(method, x, 1) - logits(method, x, None)  # by the estimated prior alone
    np.testing.assert_allclose(off, np.broadcast_to(off[0], off.shape), atol=1e-5)


def test_text_of_labelled_domains_is_not_learnt_from_its_answers():
    alone = make_data(unlabelled=random_text(0, 1))
    more = make_data(unlabelled=random_text(30, 5), d_unlabelled=np.tile(LABELLED, 15))
    assert same_state(fitted(alone, rounds=3, **WORDS_ALONE), fitted(more, rounds=3, **WORDS_ALONE))


def test_denoising_learns_from_all_text():
    some, other = make_data(), make_data(unlabelled=random_text(17, 5))
    a, b = (fitted(data, rounds=0, denoised=3, C=0.5) for data in (some, other))
    assert np.abs(a.views.projection - b.views.projection).max() > 1e-3


def skewed_domain(n_dev: int = 0) -> tuple[TrainingData, np.ndarray, np.ndarray]:
    """Words 0 and 1 tell the classes. Domain b has word 1 in every document, of both classes, so it looks like class 1.

    Its documents of class 0 have more of word 0 than the others, though.
    """
    y = np.tile([0, 1], 20)
    labelled = np.eye(3)[y] + [0, 0, 0.3]
    random = np.random.default_rng(0)
    new = np.stack([np.where(y == 0, 0.6, 0.2) + 0.05 * random.random(40), np.ones(40), np.full(40, 0.3)], axis=1)
    text = Examples(sparse(np.vstack([labelled, new])), np.repeat([0, 1], 40))
    rows = Examples(sparse(labelled), np.zeros(40, int), y)
    task = Task(3, 2, ("a", "b"), (0,))
    return TrainingData(task, ("x", "y"), rows, text, rows.select(np.arange(n_dev)), text.d == 0), new, y


@pytest.mark.parametrize("n_dev", [0, 20])  # all of which are answered rightly, so that scores are scaled up a lot
def test_answers_aligned_to_the_right_prior_are_right(n_dev: int):
    data, new, y = skewed_domain(n_dev)
    first = fitted(data, rounds=0, C=1.0, denoised=0)
    assert (logits(first, new, None).argmax(axis=1) == 1).all()
    settings = {"rounds": 5, "C": 1.0, "denoised": 0, "pseudo_label_weight": 1.0, "private": 4.0}
    matched = fitted(data, **settings, class_priors="labelled")
    np.testing.assert_array_equal(logits(matched, new, 1).argmax(axis=1), y)
    known = data.labelled.x.toarray()
    np.testing.assert_array_equal(logits(matched, known, 0).argmax(axis=1), data.labelled.y)


def test_a_domain_that_was_not_in_training_has_shared_weights_alone():
    data = make_data()
    method = fitted(data, rounds=2, denoised=3, C=0.5, denoised_length=0.7, class_priors="labelled")
    x = random_text(10, 3)
    words, denoised = method.views.of(sparse(x))
    linear = method.linear
    score = linear.scale[0] * (words @ linear.shared[0] + denoised @ linear.denoised[0, 0])
    expected = np.stack([-score, score], axis=1) / 2 + linear.bias[0]
    np.testing.assert_allclose(logits(method, x, None), expected, atol=1e-5)
    for d in range(DOMAINS):
        assert np.abs(logits(method, x, d) - expected).max() > 0.02


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("d", [None, 0, 1, 2])
def test_views_of_the_shared_and_the_private_part(d: int | None, n_classes: int):
    method = fitted(make_data(n_classes), denoised=3, C=0.5, denoised_length=0.7)
    a, b = (sparse(random_text(10, seed)) for seed in (3, 4))
    np.testing.assert_allclose(method.logits_of_views(a, a, d), method.logits(a, d), rtol=1.3e-6, atol=1e-5)
    private = method.logits(b, d) - method.logits(b, None)
    expected = method.logits(a, None) + private
    np.testing.assert_allclose(method.logits_of_views(a, b, d), expected, rtol=1.3e-6, atol=1e-5)


def test_what_is_kept_is_all_that_predicts():
    data = make_data(3, n_dev=20)
    settings = {"denoised": 3, "denoised_words": 5}
    method = fitted(data, **settings)
    other = SPED(data.task, SPEDSettings(**settings))
    other.load_weights(method.weights())
    x = random_text(10, 3)
    for d in (None, 0, 1, 2):
        np.testing.assert_array_equal(logits(other, x, d), logits(method, x, d))


def test_without_development_rows_the_preferred_values_are_taken():
    data = make_data()
    context = Reports()
    method = SPED(data.task, SPEDSettings(denoised=3))
    chosen = method.fit(data, context).chosen
    assert chosen == {"length": 0.7, "C": 0.1}
    assert context.told[0] == (chosen, None)


def test_what_is_tried_on_development_rows():
    data = make_data(n_dev=60)
    context = Reports()
    method = SPED(data.task, SPEDSettings(denoised=3, rounds=2))
    chosen = method.fit(data, context).chosen
    pairs = [(values["length"], values["C"]) for values in context.values[:-2]]
    assert pairs == [(length, C) for length in (0.7, 0.0) for C in (0.1, 0.3, 1.0, 3.0)]
    assert context.values[-2:] == [{"round": number, **chosen} for number in (1, 2)]
    kept = [logits(method, data.dev.x.toarray(), d).argmax(axis=1) for d in range(DOMAINS)]
    right = [(kept[d] == data.dev.y)[data.dev.d == d].mean() for d in LABELLED]
    assert context.told[-1][1] == pytest.approx(np.mean(right))
    given = SPED(data.task, SPEDSettings(denoised=3, rounds=0, C=2.0, denoised_length=0.3))
    assert given.fit(data, FitContext()).chosen == {"length": 0.3, "C": 2.0}


def test_very_many_rows_are_not_denoised_unless_a_length_is_given(monkeypatch: pytest.MonkeyPatch):
    data, few, many = make_data(n_dev=20), Reports(), Reports()
    for rows, reports in ((len(data.text), few), (len(data.text) - 1, many)):
        monkeypatch.setattr("multidomain.methods.sped.method.MOST_DENOISED", rows)
        SPED(data.task, SPEDSettings()).fit(data, reports)
    assert {values["length"] for values in few.values} == {0.7, 0.0} and few.notes == []
    assert {values["length"] for values in many.values} == {0.0}
    assert [note.kind for note in many.notes] == ["not-denoised"]
    assert fitted(data, denoised_length=0.5).views.projection.size


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_number_of_threads_does_not_matter(n_classes: int):
    data = make_data(n_classes, n_dev=20)
    with_threads = []
    try:
        for n in (1, 2):
            use_threads(n)
            with_threads.append(fitted(data).weights())
    finally:
        use_threads(1)
    one, two = with_threads
    for name, array in one.items():
        np.testing.assert_array_equal(two[name], array)


def test_the_best_values_are_taken_where_all_domains_have_dev_rows_and_preferred_ones_otherwise():
    data = make_data(n_dev=60)
    chosen = []
    for last in (2, 1):  # the domain of the last dev row
        context = Reports()
        some = replace(data, dev=replace(data.dev, d=np.r_[data.dev.d[:-1], last]))
        chosen.append(SPED(data.task, SPEDSettings(denoised=3, rounds=0)).fit(some, context).chosen)
        best = max(accuracy for _, accuracy in context.told)
        good_enough = best if last == 1 else best - (best * (1 - best) / 60) ** 0.5
        assert chosen[-1] == next(values for values, accuracy in context.told if accuracy >= good_enough)
    assert chosen[0] != chosen[1]


def test_scores_are_scaled_to_the_development_rows():
    settings = {"denoised": 0, "C": 0.1, "rounds": 0}
    data = make_data(n_dev=60)
    x, y = data.dev.x.toarray()[data.dev.d == 0], data.dev.y
    raw, scaled = (without_biases(logits(fitted(given, **settings), x, 0)) for given in (make_data(), data))
    scale = scaled[0, 1] / raw[0, 1]
    assert abs(np.log(scale)) > 0.1
    np.testing.assert_allclose(scaled, scale * raw, rtol=1e-4, atol=1e-5)
    after = np.where(
        (data.dev.d == 0)[:, None],
        *(logits(fitted(data, **settings), data.dev.x.toarray(), d) for d in LABELLED),
    )

    def loss(of_classes: np.ndarray) -> float:
        return -log_softmax(of_classes, axis=1)[np.arange(len(y)), y].mean()

    assert loss(after / scale) > loss(after)


def test_a_row_that_counts_3_is_the_row_three_times():
    data = make_data(unlabelled=random_text(0, 1))
    once = data.labelled
    once.y[:8] = 1 - once.y[:8]  # so that it matters how much they count
    heavy = Examples(once.x, once.d, once.y, np.r_[np.full(8, 3.0), np.ones(32)])
    thrice = once.select(np.r_[np.arange(8), np.arange(8), np.arange(40)])
    x = random_text(10, 3)
    found = []
    for rows in (heavy, thrice, once):
        given = TrainingData(data.task, data.classes, rows, data.text, data.dev, data.text_has_label)
        found.append(logits(fitted(given, denoised=0, C=2.0), x, 0))
    assert np.abs(without_biases(found[1] - found[2])).max() > 0.1
    np.testing.assert_allclose(without_biases(found[0]), without_biases(found[1]), atol=0.02)
    np.testing.assert_allclose(found[0], found[1], atol=0.2)


@pytest.mark.parametrize("n_present", [1, 2, 3])
def test_a_class_without_rows_is_never_the_answer(n_present: int):
    data = make_data(3)
    task = Task(COLUMNS, n_present + 1, data.task.domains, LABELLED)
    rows = data.labelled.select(data.labelled.y < n_present)
    classes = tuple("wxyz"[: n_present + 1])
    method = fitted(TrainingData(task, classes, rows, data.text, data.dev, data.text_has_label), **WORDS_ALONE)
    x = np.abs(np.random.default_rng(2).normal(size=(300, COLUMNS))) * (random_text(300, 6) > 0.3)
    assert all(set(logits(method, x, d).argmax(axis=1)) <= set(range(n_present)) for d in (None, 0, 1, 2))
