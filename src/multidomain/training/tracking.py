"""Callbacks that log a run's curves and figures to other tools."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from multidomain.errors import ConfigError, Note, warn
from multidomain.methods.history import Epoch
from multidomain.settings import flat
from multidomain.training.callbacks import Callback

_NOT_IN_NAMES = re.compile(r"[^\w\-. :/]", re.ASCII)  # of MLflow


class TensorBoard(Callback):
    """Curves for TensorBoard: ``tensorboard --logdir FOLDER``."""

    def __init__(self, folder: Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError("TensorBoard is not installed: pip install 'multidomain[tensorboard]'.") from None
        self._writer = SummaryWriter(str(folder))
        self._tried = 0
        self._score = "dev/accuracy"

    def on_run_begin(self, run: Mapping[str, Any]) -> None:
        self._score = _name_of_score(run)
        lines = [f"| {name} | {value} |" for name, value in flat(run)]
        self._writer.add_text("run", "\n".join(["| setting | value |", "|---|---|", *lines]))

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        for name, value in _figures(epoch, self._score):
            self._writer.add_scalar(name, value, epoch.epoch)

    def on_candidate(self, values: Mapping[str, Any], dev_score: float | None) -> None:
        self._tried += 1
        if dev_score is not None:
            self._writer.add_scalar(self._score, dev_score, self._tried)

    def on_run_end(self, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value)
        self._writer.close()


class MLflow(Callback):
    """A run in MLflow, on a server or in a folder.

    Parameters
    ----------
    uri
        Address of a server, or a folder.
    name
        Name of the run.
    on_note
        Called if MLflow cannot be reached; the run continues.
    """

    def __init__(
        self,
        uri: str,
        name: str,
        experiment: str = "multidomain",
        on_note: Callable[[Note], None] = lambda note: warn([note]),
    ):
        try:
            import mlflow
        except ImportError:
            raise ConfigError("MLflow is not installed: pip install 'multidomain[mlflow]'.") from None
        if "://" not in uri or uri.startswith("file:"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow requires an explicit opt-in
        self._fault: type[Exception] = mlflow.MlflowException
        try:
            self._client = mlflow.MlflowClient(tracking_uri=uri)
            found = self._client.get_experiment_by_name(experiment)
            self._experiment = found.experiment_id if found else self._client.create_experiment(experiment)
        except mlflow.MlflowException as error:
            raise ConfigError(f"MLflow cannot log to '{uri}': {error}") from None
        self._name = name
        self._tried = 0
        self._score = "dev/accuracy"
        self._on_note = on_note

    @cached_property
    def _run(self) -> str:
        return self._client.create_run(self._experiment, run_name=self._name).info.run_id

    def on_run_begin(self, run: Mapping[str, Any]) -> None:
        self._score = _name_of_score(run)
        for name, value in flat(run):
            self._tell("log_param", _NOT_IN_NAMES.sub("_", name), value)

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        for name, value in _figures(epoch, self._score):
            self._log(name, value, epoch.epoch)

    def on_candidate(self, values: Mapping[str, Any], dev_score: float | None) -> None:
        self._tried += 1
        if dev_score is not None:
            self._log(self._score, dev_score, self._tried)

    def on_run_end(self, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._log(name, value, 0)
        self._tell("set_terminated")

    def on_run_error(self) -> None:
        self._tell("set_terminated", "FAILED")

    def _log(self, name: str, value: float, step: int) -> None:
        self._tell("log_metric", _NOT_IN_NAMES.sub("_", name), value, step=step)

    def _tell(self, what: str, *arguments: Any, **options: Any) -> None:
        try:
            getattr(self._client, what)(self._run, *arguments, **options)
        except self._fault as error:  # a tracking failure must not stop the run
            self._on_note(Note(f"MLflow could not be reached: {error}", kind="tracking"))


def _figures(epoch: Epoch, score: str) -> Iterator[tuple[str, float]]:
    for name, value in epoch.log.items():
        yield f"train/{name}", value
    if epoch.dev_accuracy is not None:
        yield "dev/accuracy", epoch.dev_accuracy
    if epoch.dev_score is not None and score != "dev/accuracy":
        yield score, epoch.dev_score
    for domain, accuracy in epoch.dev_accuracy_by_domain.items():
        yield f"dev/accuracy of {domain}", accuracy


def _name_of_score(run: Mapping[str, Any]) -> str:
    """Return the name of what candidates are compared by."""
    metric = run.get("settings", {}).get("objective", {}).get("metric", "accuracy")
    return "dev/accuracy" if metric == "accuracy" else "dev/score"
