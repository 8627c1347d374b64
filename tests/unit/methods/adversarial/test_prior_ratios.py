"""MAN under class priors that differ: what D's objectives weigh, how lam grows, and what is aligned afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.errors import ConfigError
from multidomain.methods.adversarial.can import CAN, CANSettings
from multidomain.methods.adversarial.class_priors import prior_ratios
from multidomain.methods.adversarial.man import MANSettings
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.priors.estimate import PriorEstimate
from multidomain.methods.registry import method_entry
from multidomain.methods.task import Task
from multidomain.model.calibration import align_to_priors
from multidomain.model.prediction import predicted_probabilities
from multidomain.objectives.domain import OBJECTIVES
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

Make = Callable[..., Any]


def data_of(y: list[int], d: list[int], task: Task) -> TrainingData:
    rows = Examples(csr_matrix(np.ones((len(y), task.n_inputs))), np.array(d), np.array(y))
    return TrainingData(task, ("x", "y"), rows, rows, rows.select(np.arange(0)), np.ones(len(y), dtype=bool))


def estimate(positive: float, certainty: float) -> PriorEstimate:
    prior = np.array([1 - positive, positive])
    return PriorEstimate(prior, prior, prior, certainty)


def test_weights_bring_every_domain_to_the_labelled_prior() -> None:
    task = Task(2, 2, ("a", "b", "c"), (0, 1))
    data = data_of([0, 0, 0, 1, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1], task)  # 1/4 and 3/4 positive
    found = prior_ratios(data, {2: estimate(0.9, 1.0)})
    np.testing.assert_allclose(found, [[2 / 3, 2], [2, 2 / 3], [5, 5 / 9]], rtol=1e-3)
    half = prior_ratios(data, {2: estimate(0.9, 0.5)})[2]
    np.testing.assert_allclose(half, found[2].sqrt(), rtol=1e-5)
    np.testing.assert_allclose(prior_ratios(data, {2: estimate(0.9, 0.0)})[2], [1, 1])


def test_ratios_are_bounded_and_a_class_that_a_domain_lacks_counts_once() -> None:
    task = Task(2, 2, ("a", "b", "c"), (0, 1))
    data = data_of([0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1], task)
    found = prior_ratios(data, {2: estimate(0.001, 1.0)})
    assert found[0, 1] == 1 and found.max() <= 5 and found.min() >= 0.2
    assert found[2, 1] == 5


@pytest.mark.parametrize("draws", [1, 3])
def test_a_row_counts_as_much_as_the_classes_that_C_predicts(
    draws: int, make_task: Make, make_man: Make, make_data: Make
) -> None:
    task = make_task(labelled=(0, 2))
    method, data = make_man(task), make_data(task)
    assert method.D_input(torch.zeros(3, 4, 5).double(), data.batch().x)[1] is None
    method.prior_ratio = torch.tensor([[1.0, 1.0], [5.0, 0.5], [0.2, 2.0]]).double()
    method.eval()
    x = data.U.sample(draws).x
    f_s = method._f_s(x, 3 * draws)
    read, weight = method.D_input(f_s, x)
    assert read is f_s and weight is not None and weight.shape == (3 * draws, 4)
    expected = []
    for block in range(3 * draws):
        d = block % 3
        p = method.batch_logits(x.blocks([block], 4), d).softmax(dim=-1)
        counts = p @ method.prior_ratio[d]
        expected.append(counts / counts.mean())
    torch.testing.assert_close(weight, torch.stack(expected))
    assert (weight[1] - 1).abs().max() > 1e-3 and (weight[0] - 1).abs().max() < 1e-12


def test_D_s_objective_is_a_weighted_mean(make_task: Make, make_man: Make, make_data: Make) -> None:
    """Rows of weight 0 might as well not be there."""
    logits = torch.randn(3, 4, 3, dtype=torch.float64)
    weight = torch.tensor([[2.0, 2.0, 0.0, 0.0]] * 3, dtype=torch.float64)
    for objective in OBJECTIVES.values():
        torch.testing.assert_close(objective.J_D(logits, weight), objective.J_D(logits[:, :2], None))


def test_conditional_networks_weigh_classes_too(make_task: Make, make_data: Make) -> None:
    task = make_task()
    sizes = {"hidden": (6,), "shared_size": 5, "private_size": 4, "dropout": 0.0}
    method, data = CAN(task, CANSettings.parse(sizes)).double().eval(), make_data(task)
    x = data.batch().x
    f_s = method._f_s(x, 3)
    _, plain = method.D_input(f_s, x)
    method.prior_ratio = torch.tensor([[1.0, 1.0], [5.0, 0.5], [0.2, 2.0]]).double()
    _, weighted = method.D_input(f_s, x)
    p = method._class_probabilities(f_s, x)
    torch.testing.assert_close(weighted, plain * method._row_weight(p))


def test_lam_grows_over_epochs() -> None:
    assert [MANSettings(lam=0.6).lam_in(epoch) for epoch in (0, 7)] == [0.6, 0.6]
    growing = MANSettings(lam=0.6, lam_epochs=3)
    assert [growing.lam_in(epoch) for epoch in range(5)] == pytest.approx([0, 0.2, 0.4, 0.6, 0.6])


def test_in_an_epoch_of_lam_0_the_adversary_teaches_nothing(make_task: Make, make_man: Make, make_data: Make) -> None:
    after = {}
    for lam_epochs, epoch in ((0, 0), (2, 0), (2, 2)):
        task = make_task()
        method, data = make_man(task, lam=5.0, lam_epochs=lam_epochs), make_data(task)
        method.step(data.X, data.U, epoch, 0)
        after[lam_epochs, epoch] = method.C.out.weight.detach().clone(), method.F_s.table.detach().clone()
    without = make_man(make_task(), lam=0.0)
    without.step(make_data(make_task()).X, make_data(make_task()).U, 0, 0)
    torch.testing.assert_close(after[2, 0][1], without.F_s.table.detach())
    torch.testing.assert_close(after[2, 2][1], after[0, 0][1])
    assert not torch.equal(after[2, 0][1], after[0, 0][1])


def test_D_has_a_norm_of_its_own(make_task: Make, make_man: Make) -> None:
    method = make_man(make_task(), norm="all-domains", D_norm="none")
    assert isinstance(method.D.norm, torch.nn.Identity) and not isinstance(method.C.norm, torch.nn.Identity)


def test_class_priors_need_ngrams() -> None:
    with pytest.raises(ConfigError, match="class priors are estimated from n-grams, which 'cnn' does not read"):
        method_entry("man-nll").settings({"extractor": "cnn", "class_priors": "estimate"})


def test_aligned_probabilities_have_the_prior_and_saved_biases(make_task: Make, make_man: Make, make_data: Make):
    task = make_task(labelled=(0, 2))
    method, data = make_man(task).float(), make_data(task)
    x, d = csr_matrix(data.matrix), data.d
    before = predicted_probabilities(method, x, d)
    align_to_priors(method, x, d, {1: np.array([0.8, 0.2])}, {1: 1.0})
    after = predicted_probabilities(method, x, d)
    np.testing.assert_allclose(after[d == 1].mean(axis=0), [0.8, 0.2], atol=1e-3)
    np.testing.assert_array_equal(after[d != 1], before[d != 1])
    odds = np.diff(np.log(after[d == 1]), axis=1) - np.diff(np.log(before[d == 1]), axis=1)
    np.testing.assert_allclose(odds, odds[0, 0], atol=1e-4)
    again = make_man(task, seed=5).float()
    again.load_weights(method.weights())
    np.testing.assert_allclose(predicted_probabilities(again, x, d), after, atol=1e-6)


def three_domains() -> tuple[Corpus, Split]:
    """Domain c has no labels, and 15 % positive rows."""
    random = np.random.default_rng(0)
    texts, labels, domains = [], [], []
    for domain, share in (("a", 0.5), ("b", 0.5), ("d", 0.5), ("c", 0.15)):
        for _ in range(200):
            good = random.random() < share
            words = random.choice(["fine", "great", "lovely"] if good else ["poor", "awful", "sad"], 4)
            texts.append(" ".join([*words, domain, str(len(texts) % 7)]))
            labels.append("yes" if good else "no")
            domains.append(domain)
    rows, corpus = random.permutation(800), Corpus(texts, labels, domains)
    return corpus, Split(rows[:600], rows[600:700], rows[700:], [], rule="by hand").hide_labels(corpus, ["c"])


@pytest.mark.parametrize(
    ("how", "source"), [("estimate", "estimate"), ("labelled", "labelled"), ({"c": {"no": 0.85, "yes": 0.15}}, "given")]
)
def test_training_weighs_and_aligns(how: Any, source: str) -> None:
    corpus, split = three_domains()
    settings = {"hidden": (20,), "lr": 0.01, "class_priors": how}
    run = RunSettings(method="man-nll", method_settings=settings, training={"max_epochs": 3, "batch_size": 16})
    trained = train_model(corpus, split, run)
    found, method = trained.history.class_priors["c"], trained.model.method
    assert found.source == source
    place = corpus.domain_names.index("c")
    others = [code for code in range(5) if code != 1 + place]
    assert np.abs(method.class_bias[others]).max() == 0
    labels = corpus.labels[split.train[corpus.domains[split.train] != "c"]]
    common = np.array([(labels == name).mean() for name in ("no", "yes")])
    prior = np.array([found.prior[name] for name in ("no", "yes")])
    np.testing.assert_allclose(method.prior_ratio[place], (common / prior) ** found.certainty, rtol=0.01)
    if source != "estimate":
        wanted = common if source == "labelled" else [0.85, 0.15]
        np.testing.assert_allclose(trained.probabilities(corpus, split.unlabelled).mean(axis=0), wanted, atol=2e-3)
