"""What a process knows of those that torchrun has started with it, and what they refuse; without starting any."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.cli import followers
from multidomain.cli.train import _resuming
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import holdout_split
from multidomain.errors import ConfigError
from multidomain.nn.sparse import SparseMatrix
from multidomain.processes import check_shares, is_first, number_of_processes
from multidomain.training.sampling import DomainStream
from multidomain.training.settings import RunSettings
from multidomain.training.train import check_processes, fingerprints, resolved_device

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def three_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchrun tells the second of three."""
    told = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "3", "RANK": "1", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "3"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)


def test_networks_on_encoders_are_for_one_process(three_processes: None):
    """It has not been tried; other networks can share the steps."""
    settings = RunSettings(method="sp", method_settings={"extractor": "encoder", "encoder": "minilm"})
    with pytest.raises(ConfigError, match="'sp' with these settings is trained by one process, and torchrun has star"):
        check_processes(settings)
    check_processes(RunSettings(method="sp", training={"batch_size": 6}))


def test_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "3")  # of a cluster that has not started torchrun
    monkeypatch.setenv("RANK", "1")
    assert number_of_processes() == 1 and is_first()
    check_shares(7)


@pytest.mark.usefixtures("three_processes")
def test_batches_that_cannot_be_shared():
    assert number_of_processes() == 3 and not is_first()
    check_shares(9)
    with pytest.raises(ConfigError, match=r"3 processes cannot share mini-batches of 8 rows evenly\. Use batch_size=9"):
        check_shares(8)


@pytest.mark.usefixtures("three_processes")
@pytest.mark.parametrize("method", ["sped", "lr", "majority"])
def test_methods_for_one_process(method: str):
    with pytest.raises(ConfigError, match=f"'{method}' with these settings is trained by one process, and torchrun"):
        check_processes(RunSettings(method=method))


@pytest.mark.usefixtures("three_processes")
@pytest.mark.parametrize("method", ["man-nll", "sp", "can", "dann", "mdan-smax", "asp-mtl", "cnn", "bilstm"])
def test_networks_can(method: str):
    check_processes(RunSettings(method=method, training={"batch_size": 6}))


@pytest.mark.usefixtures("three_processes")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("methods",), "'methods' is run by one process, and torchrun has started 3. Run it without torchrun."),
        (("predict", "m", "a.csv"), "'predict' is run by one process"),
        (("train", "demo", "-o", "m", "--method", "auto"), "'auto' compares methods in one process"),
        (("train", "demo", "-o", "m", "--method", "sped"), "'sped' with these settings is trained by one process"),
    ],
)
def test_commands_for_one_process(command: tuple[str, ...], said: str, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(followers, "_WAIT", 0)  # for torchrun, which ends this process if the first says the same
    code, out, err = run(*command)
    assert (code, out) == (2, "") and said in err


@pytest.mark.usefixtures("three_processes")
def test_devices_of_several(monkeypatch: pytest.MonkeyPatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    network = RunSettings(method="sp")
    assert resolved_device("cuda", network) == resolved_device("auto", network) == "cuda:1"
    assert resolved_device("cpu", network) == "cpu"
    with pytest.raises(ConfigError, match="Several processes cannot share the device 'cuda:0'"):
        resolved_device("cuda:0", network)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ConfigError, match="'cuda:1' was asked for, and there is 1 CUDA device"):
        resolved_device("cuda", network)


def test_a_checkpoint_is_of_as_many_processes(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    corpus = load_corpus("demo")
    split, settings = holdout_split(corpus), RunSettings(method="sp")
    alone = fingerprints(corpus, split, settings)
    request.getfixturevalue("three_processes")
    assert fingerprints(corpus, split, settings) != alone


def test_how_to_resume(request: pytest.FixtureRequest):
    arguments = ["train", "my data.csv", "--overwrite"]
    assert _resuming(arguments) == "multidomain train 'my data.csv' --resume"
    request.getfixturevalue("three_processes")
    assert _resuming(arguments) == "torchrun --nproc-per-node 3 -m multidomain train 'my data.csv' --resume"


def test_shares_are_the_batch():
    """Side by side, the shares of all processes are what one process draws."""
    rows = SparseMatrix(csr_matrix(np.eye(20)))
    pools, y = [[np.arange(9)], [np.arange(9, 20)]], np.arange(20)

    def stream(*share: int) -> DomainStream:
        return DomainStream(rows, pools, y, 6, (0, 0), y + 1.0, *([share] if share else []))

    whole, shares = stream(), [stream(rank, 3) for rank in range(3)]
    for times in (1, 4, 2):
        batch, parts = whole.sample(times), [one.sample(times) for one in shares]
        for name in ("y", "weight"):
            together = np.concatenate([getattr(part, name).numpy() for part in parts], axis=1)
            np.testing.assert_array_equal(together, getattr(batch, name).numpy())
        columns = np.concatenate([part.x.index.numpy().reshape(2 * times, 2) for part in parts], axis=1)
        np.testing.assert_array_equal(columns, batch.x.index.numpy().reshape(2 * times, 6))
