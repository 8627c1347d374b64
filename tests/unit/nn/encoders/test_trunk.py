"""The trunk: texts in groups, layers frozen or stored, and private parts of all domains in one pass."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from multidomain.data.encoders.config import EncoderConfig
from multidomain.nn.encoders import activations
from multidomain.nn.encoders.batching import groups_of
from multidomain.nn.encoders.settings import EncoderSettings
from multidomain.nn.encoders.transformer import LayerUpdate, Transformer, mean_of_text
from multidomain.nn.encoders.trunk import Trunk
from multidomain.nn.extractors.encoder import EncoderExtractor
from multidomain.nn.sparse import SparseMatrix

CONFIG = EncoderConfig(family="bert", vocabulary=50, positions=40, types=2, width=16, layers=3, heads=2, inner=24)
LENGTHS = (5, 12, 2, 12, 7, 30)


def texts(seed: int = 0, lengths: tuple[int, ...] = LENGTHS) -> csr_matrix:
    ids = np.random.default_rng(seed).integers(3, 50, sum(lengths))
    return csr_matrix((np.ones(len(ids), np.float32), ids, np.r_[0, np.cumsum(lengths)]), shape=(len(lengths), 50))


def make_trunk(has_shared: bool = True, has_private_layers: bool = False, **settings: object) -> Trunk:
    torch.manual_seed(1)
    own = EncoderSettings(source="tiny", config=CONFIG, dropout=0.0, **settings)
    return Trunk(Transformer(CONFIG), own, has_shared=has_shared, has_private_layers=has_private_layers)


def one_by_one(trunk: Trunk, x: csr_matrix, update: object = None) -> Tensor:
    """What the definition says: each text alone, through all layers."""
    read = []
    for row in range(x.shape[0]):
        ids = torch.from_numpy(x.indices[x.indptr[row] : x.indptr[row + 1]].astype(np.int64))[None]
        is_text = torch.ones_like(ids, dtype=torch.bool)
        h = trunk.encoder.run(trunk.encoder.embed(ids), is_text, range(3), 0.0, update and update(row))
        read.append(mean_of_text(h, is_text))
    return torch.cat(read)


def extractor(private: str, copies: int, **settings: object) -> EncoderExtractor:
    """Private extractors whose updates are not zero any more."""
    own = EncoderSettings(source="tiny", config=CONFIG, private=private, rank=3, **settings)
    torch.manual_seed(5)
    made = EncoderExtractor.from_settings(SimpleNamespace(encoder=own, dropout=0.0), copies, 50, 4)
    for name, p in made.named_parameters():
        if name.endswith("up"):
            torch.nn.init.normal_(p, std=0.3)
    return made


@pytest.mark.parametrize("budget", [1, 24, 40, 10_000])
def test_groups_hold_every_text_once_and_stay_within_the_budget(budget: int):
    groups = groups_of(torch.tensor(LENGTHS), budget)
    assert sorted(torch.cat([group.rows for group in groups]).tolist()) == list(range(6))
    for group in groups:
        assert group.is_text.sum(dim=1).tolist() == [LENGTHS[row] for row in group.rows]
        assert group.is_text.numel() <= budget or len(group.rows) == 1


@pytest.mark.parametrize("budget", [24, 10_000])
@pytest.mark.parametrize("training", [True, False])
def test_texts_in_groups_read_like_each_alone(budget: int, training: bool):
    trunk, x = make_trunk(tokens_at_a_time=budget), texts()
    reading = trunk.train(training)(SparseMatrix(x).all())
    torch.testing.assert_close(reading.pooled, one_by_one(trunk, x))


def test_equal_texts_are_read_once_where_nothing_is_dropped():
    trunk, x = make_trunk().eval(), texts()
    rows = SparseMatrix(x).take(np.array([2, 0, 2, 2, 5, 0]))
    pooled = trunk(rows).pooled
    torch.testing.assert_close(pooled, one_by_one(trunk, x)[[2, 0, 2, 2, 5, 0]])
    assert torch.equal(pooled[0], pooled[2]) and torch.equal(pooled[1], pooled[5])


def test_no_texts():
    for has_private_layers in (True, False):
        reading = make_trunk(has_private_layers=has_private_layers).eval()(SparseMatrix(texts(lengths=())).all())
        assert reading.pooled.shape == (0, 16)


@pytest.mark.parametrize("private", ["lora", "adapter"])
def test_private_parts_of_all_domains_in_one_pass_equal_those_of_each_alone(private: str):
    """Naively: the projections with their update added, or a bottleneck after each layer, for one text at a time."""
    trunk, F_d, x = make_trunk(has_private_layers=True, private=private), extractor(private, copies=3), texts()

    def of_row(row: int) -> object:
        d = row // 2

        def update(i: int) -> LayerUpdate:
            if i < 1:  # the two upper layers have private parts
                return LayerUpdate()
            if private == "adapter":
                down, up = F_d.updates.output.down[i - 1, d], F_d.updates.output.up[i - 1, d]
                return LayerUpdate(output=lambda h: (h @ down).relu() @ up)
            query, value = F_d.updates.query, F_d.updates.value
            return LayerUpdate(
                query=lambda h: h @ (query.down[i - 1, d] @ query.up[i - 1, d]),
                value=lambda h: h @ (value.down[i - 1, d] @ value.up[i - 1, d]),
            )

        return update

    naive = one_by_one(trunk, x, of_row)
    assert (naive - one_by_one(trunk, x)).abs().max() > 0.01
    expected = torch.stack([(naive[2 * d : 2 * d + 2] @ F_d.weight[d] + F_d.bias[d]).relu() for d in range(3)])
    reading = trunk(SparseMatrix(x).all())
    torch.testing.assert_close(F_d(reading), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(reading.pooled, one_by_one(trunk, x))
    alone = F_d(reading.take(torch.tensor([3, 2])), copy=1)
    torch.testing.assert_close(alone[0], expected[1].flip(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("private", ["head", "lora"])
def test_parts_of_a_reading_put_together_again(private: str):
    trunk, F_d, x = make_trunk(has_private_layers=private != "head"), extractor(private, copies=1), texts()
    reading = trunk(SparseMatrix(x).all())
    first, rest = reading.split(2)
    assert (len(first), len(rest), len(first + rest)) == (2, 4, 6)
    torch.testing.assert_close(F_d(first + rest), F_d(reading))
    torch.testing.assert_close(F_d(reading.blocks([2, 0], 2))[0], F_d(reading)[0, [4, 5, 0, 1]])


@pytest.mark.parametrize("private", ["head", "lora"])
@pytest.mark.parametrize("frozen", [0, 1, 2, 3])
def test_stored_activations_change_nothing_and_frozen_layers_get_no_gradient(frozen: int, private: str):
    trunk, x = make_trunk(frozen_layers=frozen, has_private_layers=private != "head"), texts()
    F_d, rows = extractor(private, copies=3), SparseMatrix(x)
    computed = trunk.train()(rows.all())
    trunk.remember([rows, SparseMatrix(texts(seed=1))])
    stored = trunk(rows.take(np.arange(6)))
    torch.testing.assert_close(stored.pooled, computed.pooled, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(stored.pooled, one_by_one(trunk, x), rtol=1e-2, atol=1e-2)
    (F_d(stored).sum() + stored.pooled.square().sum()).backward()
    learns = {name.split(".")[2] for name, p in trunk.named_parameters() if p.grad is not None}
    assert learns == {str(i) for i in range(frozen, 3)}
    assert not [name for name, p in F_d.named_parameters() if p.grad is None]


def test_frozen_layers_are_not_run_again_once_they_are_stored(monkeypatch: pytest.MonkeyPatch):
    trunk, rows = make_trunk(frozen_layers=2), SparseMatrix(texts())
    trunk.remember([rows])
    monkeypatch.setattr(trunk.encoder, "embed", lambda *_: pytest.fail("read again"))
    trunk.train()(rows.all())
    trunk.eval()(rows.all())
    trunk.forget()
    with pytest.raises(pytest.fail.Exception, match="read again"):
        trunk(rows.all())


def test_large_activations_are_in_a_file(monkeypatch: pytest.MonkeyPatch):
    rows = SparseMatrix(texts())
    in_memory = make_trunk(frozen_layers=2)
    in_memory.remember([rows])
    monkeypatch.setattr("multidomain.arrays.LARGE", 1)
    on_disk = make_trunk(frozen_layers=2)
    on_disk.remember([rows])
    assert torch.equal(in_memory(rows.all()).pooled, on_disk(rows.all()).pooled)


class Elsewhere(Tensor):
    """A tensor of another device: nothing of it can be written into a tensor of this one."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = (kwargs or {}).get("out")
        assert out is None or isinstance(out, cls), f"{func} writes across devices"
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("frozen", [2, 3])
def test_texts_on_an_accelerator_are_stored(frozen: int, monkeypatch: pytest.MonkeyPatch):
    distinct = activations._distinct

    def elsewhere(matrices: Any) -> Any:
        x, number = distinct(matrices)
        return replace(x, offset=x.offset.as_subclass(Elsewhere)), number

    here, there, rows = make_trunk(frozen_layers=frozen), make_trunk(frozen_layers=frozen), SparseMatrix(texts())
    here.remember([rows])
    monkeypatch.setattr(activations, "_distinct", elsewhere)
    there.remember([rows])
    assert torch.equal(here(rows.all()).pooled, there(rows.all()).pooled)


def test_without_shared_features_all_of_it_is_frozen():
    trunk = make_trunk(has_shared=False, has_private_layers=True)
    assert not any(p.requires_grad for p in trunk.parameters())
    assert trunk(SparseMatrix(texts()).all()).pooled is None


@pytest.mark.parametrize("private", ["head", "lora"])
def test_whether_private_features_train_the_encoder_is_a_setting(private: str):
    for trains in (True, False):
        trunk = make_trunk(has_private_layers=private != "head")
        F_d = extractor(private, copies=3, private_gradient=trains)
        F_d(trunk(SparseMatrix(texts()).all())).sum().backward()
        assert all((p.grad is not None) == trains for name, p in trunk.named_parameters() if "layers.2" in name)
        assert F_d.weight.grad is not None
        assert private == "head" or F_d.updates.query.up.grad.abs().max() > 0
        assert all(p.requires_grad for p in trunk.parameters())


def test_computing_activations_again_gives_the_same_gradient():
    gradients = []
    for recompute in (False, True):
        trunk = make_trunk(recompute=recompute)
        object.__setattr__(trunk, "settings", trunk.settings.model_copy(update={"dropout": 0.3}))
        torch.manual_seed(2)
        trunk.train()(SparseMatrix(texts()).all()).pooled.square().sum().backward()
        gradients.append([p.grad for p in trunk.parameters() if p.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("private", ["lora", "adapter"])
@pytest.mark.parametrize("trains", [True, False])
def test_private_layers_computed_again_give_the_same_gradient(private: str, trains: bool):
    gradients = []
    for recompute in (False, True):
        trunk = make_trunk(recompute=recompute, has_private_layers=True)
        F_d = extractor(private, copies=3, private_gradient=trains)
        reading = trunk.train()(SparseMatrix(texts()).all())
        (F_d(reading).square().sum() + reading.pooled.square().sum()).backward()
        assert all(p.requires_grad for p in trunk.parameters())
        gradients.append([p.grad for p in (*trunk.parameters(), *F_d.parameters())])
    assert [a is None for a in gradients[0]] == [b is None for b in gradients[1]]
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True) if a is not None)


def test_bfloat16_is_near():
    x = SparseMatrix(texts()).all()
    exact, rounded = make_trunk()(x).pooled, make_trunk(bfloat16=True)(x).pooled
    assert rounded.dtype == torch.float32 and not torch.equal(exact, rounded)
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.05)
