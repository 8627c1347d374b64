"""Listeners that hand a run's curves and figures to other tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from multidomain.errors import ConfigError
from multidomain.training.history import Epoch, Listener


class TensorBoard(Listener):
    """Curves for TensorBoard: ``tensorboard --logdir FOLDER``."""

    def __init__(self, folder: Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError("TensorBoard is not installed: pip install 'multidomain[tensorboard]'.") from None
        self._writer = SummaryWriter(str(folder))
        self._tried = 0

    def described(self, run: Mapping[str, Any]) -> None:
        lines = [f"| {name} | {value} |" for name, value in _flat(run)]
        self._writer.add_text("run", "\n".join(["| setting | value |", "|---|---|", *lines]))

    def epoch_ended(self, epoch: Epoch, is_best: bool) -> None:
        for name, value in _figures(epoch):
            self._writer.add_scalar(name, value, epoch.epoch)

    def tried(self, values: Mapping[str, Any], dev_accuracy: float | None) -> None:
        self._tried += 1
        if dev_accuracy is not None:
            self._writer.add_scalar("dev/accuracy", dev_accuracy, self._tried)

    def measured(self, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value)
        self._writer.close()


class MLflow(Listener):
    """A run in MLflow, on a server, in a data base or in a folder.

    Parameters
    ----------
    uri
        Where MLflow keeps its runs, as its ``tracking_uri``.
    name
        What to call the run.
    """

    def __init__(self, uri: str, name: str, experiment: str = "multidomain"):
        try:
            import mlflow
        except ImportError:
            raise ConfigError("MLflow is not installed: pip install 'multidomain[mlflow]'.") from None
        try:
            self._client = mlflow.MlflowClient(tracking_uri=uri)
            found = self._client.get_experiment_by_name(experiment)
            self._experiment = found.experiment_id if found else self._client.create_experiment(experiment)
        except mlflow.MlflowException as error:
            raise ConfigError(f"MLflow cannot log to '{uri}': {error}") from None
        self._name = name
        self._tried = 0

    def described(self, run: Mapping[str, Any]) -> None:
        self._run = self._client.create_run(self._experiment, run_name=self._name).info.run_id
        for name, value in _flat(run):
            self._client.log_param(self._run, name, value)

    def epoch_ended(self, epoch: Epoch, is_best: bool) -> None:
        for name, value in _figures(epoch):
            self._client.log_metric(self._run, name, value, step=epoch.epoch)

    def tried(self, values: Mapping[str, Any], dev_accuracy: float | None) -> None:
        self._tried += 1
        if dev_accuracy is not None:
            self._client.log_metric(self._run, "dev/accuracy", dev_accuracy, step=self._tried)

    def measured(self, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._client.log_metric(self._run, name, value)
        self._client.set_terminated(self._run)


def _figures(epoch: Epoch) -> Iterator[tuple[str, float]]:
    for name, value in epoch.log.items():
        yield f"train/{name}", value
    if epoch.dev_accuracy is not None:
        yield "dev/accuracy", epoch.dev_accuracy
    for domain, accuracy in epoch.dev_accuracy_by_domain.items():
        yield f"dev/accuracy of {domain}", accuracy


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
