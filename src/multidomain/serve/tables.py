"""CSV in, the same CSV with predictions out: what `multidomain predict` does, over HTTP."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from multidomain.data.columns import Columns
from multidomain.errors import ConfigError, DataError, counted, settings_in
from multidomain.model.batch import predict_file
from multidomain.model.model import Model, UnknownDomain
from multidomain.serve.errors import ApiError, as_parameter
from multidomain.serve.threads import WorkerThread

_NAME = "body.csv"  # as messages call it
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
    abstain: float = 0.0


@dataclass(frozen=True)
class PredictedTable:
    """The CSV, its number of rows, those without text or enough confidence, and the model's warnings."""

    content: bytes
    rows: int
    without_text: int
    abstained: int
    warnings: list[str]


class Tables:
    """Predicts tables one after the other, each in parts between which other requests are answered.

    Parameters
    ----------
    served
        Returns the model that is being served; a table is predicted by one.
    reading
        Where tables are read and written.
    predicting
        Where the model predicts.
    """

    def __init__(self, served: Callable[[], Model], reading: WorkerThread, predicting: WorkerThread) -> None:
        self._served = served
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
            raise ApiError(
                422,
                "invalid_table",
                error.worded(as_parameter),
                details={"problem": error.message, "hint": error.hint, "settings": settings_in(error.hint)},
            ) from None

    def _predict(self, content: bytes, options: TableOptions) -> PredictedTable:
        with tempfile.TemporaryDirectory(prefix="multidomain-") as name:
            source, target = Path(name, _NAME), Path(name, "predicted.csv")
            source.write_bytes(content)
            done = predict_file(
                self._served(),
                source,
                target,
                options.columns,
                domain=options.domain,
                probabilities=options.probabilities,
                unknown_domain=options.unknown_domain,
                encoding=options.encoding,
                abstain=options.abstain,
                run=self._predicting.run_from_thread,
            )
            notes = [note.worded(as_parameter) for note in done.notes]
            return PredictedTable(target.read_bytes(), done.rows, done.without_text, done.abstained, notes)


def warnings_header(warnings: Sequence[str]) -> str:
    """Return warnings as a JSON list that fits into a header; the last text says how many were dropped.

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
