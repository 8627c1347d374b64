"""CSV in, the same CSV with predictions out: what `multidomain predict` does, over HTTP."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.data.columns import Columns
from multidomain.errors import ConfigError, DataError, counted
from multidomain.model.batch import predict_file
from multidomain.model.model import Model, UnknownDomain
from multidomain.serve.errors import ApiError
from multidomain.serve.workers import Worker, said_here

_NAME = "body.csv"  # as messages call it
_PARAMETERS = (
    "What the message calls --text-column, --domain-column or --encoding is a query parameter here: text_column, "
    "domain_column, encoding."
)
_LONGEST_WARNING = 200  # characters
_MOST_WARNING_BYTES = 4_000  # clients and proxies give up on headers of some 8 kB, and there are others


@dataclass(frozen=True)
class TableOptions:
    """How to read a table; the options of ``multidomain predict``."""

    columns: Columns
    domain: str | None
    probabilities: bool
    unknown_domain: UnknownDomain
    encoding: str


@dataclass(frozen=True)
class PredictedTable:
    """The CSV, its number of rows, those of them that had no text, and the model's warnings."""

    content: bytes
    rows: int
    without_text: int
    warnings: list[str]


class Tables:
    """Predicts tables one after the other, each in parts between which other requests are answered.

    Parameters
    ----------
    reading
        Where tables are read and written.
    predicting
        Where the model predicts.
    """

    def __init__(self, model: Model, reading: Worker, predicting: Worker) -> None:
        self._model = model
        self._reading = reading
        self._predicting = predicting

    async def predict(self, content: bytes, options: TableOptions) -> PredictedTable:
        """Return a CSV with predictions added.

        Raises
        ------
        ApiError
            The table cannot be used, or too many of them wait.
        """
        try:
            return await self._reading.run(partial(self._predict, content, options))
        except (ConfigError, DataError) as error:
            raise ApiError(422, "invalid_table", str(error), details=_PARAMETERS) from None

    def _predict(self, content: bytes, options: TableOptions) -> PredictedTable:
        model = _ElsewhereModel(self._model, self._predicting)
        with tempfile.TemporaryDirectory(prefix="multidomain-") as name:
            source, target = Path(name, _NAME), Path(name, "predicted.csv")
            source.write_bytes(content)
            done = predict_file(
                model,
                source,
                target,
                options.columns,
                domain=options.domain,
                probabilities=options.probabilities,
                unknown_domain=options.unknown_domain,
                encoding=options.encoding,
            )
            return PredictedTable(target.read_bytes(), done.rows, done.without_text, list(model.said))


def warnings_header(warnings: Sequence[str]) -> str:
    """Return warnings as a JSON list that fits into a header; a last text says how many were left out.

    They quote what stands in the table, which may be of any length.
    """
    shown: list[str] = []
    size = 0
    for warning in warnings:
        cut = warning if len(warning) <= _LONGEST_WARNING else f"{warning[: _LONGEST_WARNING - 3]}..."
        size += len(json.dumps(cut)) + 2  # what is not ASCII takes six bytes or twelve
        if size > _MOST_WARNING_BYTES:
            shown.append(f"And {counted(len(warnings) - len(shown), 'more warning')}.")
            break
        shown.append(cut)
    return json.dumps(shown)


class _ElsewhereModel(Model):
    """A model that predicts in its own thread, whichever thread asks, and keeps what it warned of."""

    def __init__(self, model: Model, thread: Worker) -> None:
        super().__init__(model.method_name, model.method, model.features, model.classes)
        self._thread = thread
        self.said: dict[str, None] = {}

    def predict_proba(
        self,
        documents: Any,
        domains: Sequence[str | None] | None = None,
        unknown_domain: UnknownDomain = "shared",
    ) -> np.ndarray:
        return self._thread.run_from_thread(partial(self._predict_here, documents, domains, unknown_domain))

    def _predict_here(
        self, documents: Any, domains: Sequence[str | None] | None, unknown_domain: UnknownDomain
    ) -> np.ndarray:
        with said_here() as said:
            probabilities = super().predict_proba(documents, domains, unknown_domain)
        self.said |= dict.fromkeys(said)
        return probabilities
