import pytest
import torch
from test_trunk import extractor, make_trunk
from torch import nn

from multidomain.nn.encoders.optimiser import BASE_RATE, optimiser_of, rate_at, set_rates
from multidomain.nn.encoders.settings import EncoderSettings


def rate_of(optimiser: torch.optim.Optimizer, p: torch.Tensor) -> tuple[float, float]:
    (group,) = [g for g in optimiser.param_groups if any(p is one for one in g["params"])]
    return group["lr"], group["weight_decay"]


def test_each_layer_learns_at_its_own_rate_and_biases_do_not_decay():
    trunk, head = make_trunk(lr=1e-4, layer_decay=0.5, weight_decay=0.1), nn.Linear(16, 2)
    F_d = extractor("lora", copies=3)
    optimiser = optimiser_of(trunk, [head, F_d], lr=1e-2)
    layers = trunk.encoder.layers
    assert rate_of(optimiser, head.weight) == (1e-2, 0.1)
    assert rate_of(optimiser, head.bias) == (1e-2, 0.0)
    assert [rate_of(optimiser, layer.query.weight)[0] for layer in layers] == pytest.approx([2.5e-5, 5e-5, 1e-4])
    assert rate_of(optimiser, layers[2].norm.weight)[1] == 0.0
    assert rate_of(optimiser, F_d.bias) == (1e-2, 0.0)  # shape (domains, 1, features)
    assert {rate_of(optimiser, p) for p in (F_d.weight, F_d.updates.query.up)} == {(1e-2, 0.1)}
    assert rate_of(optimiser, trunk.encoder.words.weight) == (pytest.approx(1.25e-5), 0.1)
    learning = {id(p) for p in (*trunk.parameters(), *head.parameters(), *F_d.parameters())}
    assert sorted(id(p) for group in optimiser.param_groups for p in group["params"]) == sorted(learning)


def test_frozen_layers_are_left_out():
    trunk = make_trunk(frozen_layers=3)
    assert optimiser_of(trunk, [nn.Linear(2, 2)], lr=1.0).param_groups[0]["lr"] == 1.0


def test_rates_rise_and_fall_as_functions_of_the_step_alone():
    settings = EncoderSettings(source="x", warm_up=0.1)
    rates = [rate_at(step, 100, settings) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * i for i in range(1, 11)])
    assert rates[10:] == pytest.approx([1 - i / 90 for i in range(90)])
    assert [rate_at(step, 10, settings.model_copy(update={"schedule": "constant"})) for step in range(10)] == [1.0] * 10
    assert rate_at(0, 1, settings) == 1.0


def test_a_rate_that_was_lowered_stays_lower():
    """After training has diverged the base is halved."""
    trunk = make_trunk()
    optimiser = optimiser_of(trunk, [nn.Linear(2, 2)], lr=1.0)
    optimiser.param_groups[-1][BASE_RATE] *= 0.5
    set_rates(optimiser, 0.5)
    assert optimiser.param_groups[-1]["lr"] == 0.25
