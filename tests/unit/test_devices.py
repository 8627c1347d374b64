"""Names of devices, and random numbers on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from multidomain.devices import check_there, checked, kind_of, seeded
from multidomain.errors import ConfigError
from multidomain.estimator import MultiDomainClassifier
from multidomain.model.model import Model
from multidomain.runs.config import TrainConfig
from multidomain.training.settings import RunSettings
from multidomain.training.train import resolved_device

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("name", ["auto", "cpu", "cuda", "cuda:0", "cuda:12", "mps"])
def test_names(name: str):
    assert checked(name) == name
    assert TrainConfig(data="demo", output="m", device=name).device == name
    assert kind_of(name) == name.split(":")[0]


@pytest.mark.parametrize("name", ["tpu", "cuda:", "cuda:-1", "cuda: 1", "cpu:0", "mps:0", "CUDA", "", "cuda:1\n"])
def test_no_such_device(name: str):
    with pytest.raises(ConfigError, match="'device': expected auto, cpu, cuda, cuda:NUMBER or mps, got"):
        TrainConfig.parse_all({"data": "demo", "output": "m", "device": name})
    with pytest.raises(ValueError, match="expected auto, cpu, cuda, cuda:NUMBER or mps"):
        MultiDomainClassifier(device=name).fit(["a"] * 4, [0, 1] * 2)


def test_one_device_and_the_wrong_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    check_there("cuda")
    check_there("cuda:0")
    with pytest.raises(ConfigError, match=r"'cuda:3' was asked for, and there is 1 CUDA device: cuda:0\."):
        check_there("cuda:3")


def test_a_name_that_no_device_has():
    with pytest.raises(ConfigError, match="'tpu' is no device: expected auto, cpu, cuda, cuda:NUMBER or mps"):
        resolved_device("tpu", RunSettings(method="sp"))


def test_seeding_leaves_the_state_of_the_caller_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with seeded(5, "cpu"):
        ours = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    with seeded(5, "cpu"):
        assert torch.equal(torch.rand(3), ours)


@pytest.mark.parametrize(
    ("device", "said"),
    [("tpu", "'tpu' is no device: expected auto, cpu, cuda"), ("cuda:7", "Device 'cuda:7' was asked for")],
)
def test_a_model_on_a_device_that_is_not_there(device: str, said: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=said):
        Model.load(tmp_path, device)


def test_commands_that_predict_refuse_a_device_that_is_not_there(run: Run, tmp_path: Path):
    assert run("train", "demo", "-o", tmp_path / "m", "--method", "lr", "--max-features", 50)[0] == 0
    (tmp_path / "new.csv").write_text("text\nfine\n")
    for command in (("evaluate", tmp_path / "m", "demo"), ("predict", tmp_path / "m", tmp_path / "new.csv")):
        code, _, err = run(*command, "--device", "cuda:9")
        assert code == 2 and "Device 'cuda:9' was asked for" in err and "--device cpu" in err
        assert run(*command, "--device", "auto")[0] == 0
