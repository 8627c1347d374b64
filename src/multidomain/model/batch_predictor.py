"""A model as a function from batches to batches, for engines and pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.data.columns import Columns, resolve_columns
from multidomain.data.readers.base import Chunk
from multidomain.errors import ConfigError, DataError, quoted, warn
from multidomain.model.batch import ABSTAINED, Answered, Answers
from multidomain.model.model import Model, UnknownDomain
from multidomain.model.storage import MANIFEST
from multidomain.threads import use_threads


@dataclass(frozen=True)
class BatchPredictor:
    """Adds predictions to batches: pandas or polars frames, Arrow tables, or dictionaries of arrays.

    It is picklable and holds no weights: each process loads the model when it gets its first batch, and once however
    many predictors of it there are. Rows keep their order; a row without text, or of too little confidence, has no
    prediction. For the parameters see `predict_file`.

    Parameters
    ----------
    folder
        The trained model, where every worker finds it.
    text_column, domain_column
        By default auto-detected.
    device
        Where a network predicts; see `Model.load`.

    Examples
    --------
    >>> from multidomain.model.batch_predictor import BatchPredictor
    >>> ray_dataset.map_batches(BatchPredictor, fn_constructor_args=["runs/reviews"], concurrency=2)  # doctest: +SKIP
    >>> dask_frame.map_partitions(BatchPredictor("runs/reviews"))  # doctest: +SKIP
    >>> spark_frame.mapInPandas(BatchPredictor("runs/reviews").map, schema)  # doctest: +SKIP
    """

    folder: str | Path
    text_column: str | None = None
    domain_column: str | None = None
    domain: str | None = None
    probabilities: bool = False
    abstain: float = 0.0
    unknown_domain: UnknownDomain = "shared"
    method: str | None = None
    device: str = "cpu"

    @property
    def model(self) -> Model:
        """Return the model, which this process loads if it has not yet, or if it was replaced."""
        return _loaded(str(self.folder), _version(Path(self.folder)), self.method, self.device)

    @property
    def added(self) -> dict[str, type]:
        """Return the names of the added columns, and what is in them."""
        types = {type(name) for name in self.model.classes}
        columns = {"prediction": types.pop() if len(types) == 1 else str, "confidence": float}
        return columns | {f"p({name})": float for name in self.model.classes if self.probabilities}

    def columns(self, names: list[str], of: str) -> Columns:
        """Return which columns are read, and refuse a table that has what is to be added.

        Parameters
        ----------
        of
            What messages call the table.
        """
        if taken := [name for name in self.added if name in names]:
            raise DataError(f"{of} has a column {quoted(taken)} already.", "Rename or remove it.")
        wanted = Columns(text=self.text_column, domain=self.domain_column)
        return resolve_columns(names, wanted, require=("text",), file=of, find=("text", "domain"))

    def answered(self, values: dict[str, list[Any]], columns: Columns) -> Answered:
        """Return predictions on rows, whose text and domains are given as lists."""
        answers = Answers(
            self.model,
            columns,
            self.domain,
            self.probabilities,
            self.abstain,
            self.unknown_domain,
            lambda job: job(),
            None,
        )
        return answers(Chunk(1, values))

    def values(self, answered: Answered) -> dict[str, list[Any]]:
        """Return the values of the added columns, None where a row has no prediction."""
        n, to_class = len(answered.part), next(iter(self.added.values()))
        best, numbers = np.full(n, ABSTAINED), np.full((n, answered.numbers.shape[1]), np.nan)
        best[answered.at], numbers[answered.at] = answered.best, answered.numbers
        has_text = np.isin(np.arange(n), answered.at)
        classes = [to_class(name) for name in self.model.classes]
        found: list[list[Any]] = [[None if k == ABSTAINED else classes[k] for k in best.tolist()]]
        found += [
            [p if there else None for p, there in zip(column, has_text.tolist(), strict=True)]
            for column in numbers.T.tolist()
        ]
        return dict(zip(self.added, found, strict=True))

    def __call__(self, batch: Any) -> Any:
        """Return a batch of the same type with the columns `prediction`, `confidence` and so on added."""
        kind = _kind(batch)
        names = kind.names(batch)
        columns = self.columns(names, "A batch")
        read = [name for name in (columns.text, columns.domain) if name is not None]
        answered = self.answered({name: kind.values(batch, name) for name in read}, columns)
        warn(note for note in answered.notes if note.kind != "no-domain")
        return kind.with_columns(batch, self.values(answered), self.added)

    def map(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the answered batches one by one, as Spark's ``mapInPandas`` asks for."""
        return map(self, batches)


def _version(folder: Path) -> tuple[int, int]:
    """Return what tells a model from one that replaces it, without reading it."""
    try:
        found = (folder / MANIFEST).stat()
    except OSError:  # loading says what is wrong
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=1)
def _loaded(folder: str, version: tuple[int, int], method: str | None, device: str) -> Model:
    use_threads(1)  # the engine runs as many processes as there are cores
    return Model.load(folder, device, method=method)


@dataclass(frozen=True)
class _Kind:
    """How a type of batch is read and added to."""

    names: Callable[[Any], list[str]]
    values: Callable[[Any, str], list[Any]]
    with_columns: Callable[[Any, dict[str, list[Any]], dict[str, type]], Any]


def _kind(batch: Any) -> _Kind:
    package = type(batch).__module__.partition(".")[0]
    if isinstance(batch, dict):
        return _Kind(list, lambda batch, name: np.asarray(batch[name], dtype=object).tolist(), _with_arrays)
    if package == "pandas":
        return _Kind(
            lambda frame: list(map(str, frame.columns)), lambda frame, name: frame[name].tolist(), _with_series
        )
    if package == "polars":
        return _Kind(lambda frame: frame.columns, lambda frame, name: frame[name].to_list(), _with_polars)
    if package == "pyarrow":
        return _Kind(lambda table: table.schema.names, lambda table, name: table[name].to_pylist(), _with_arrow)
    raise ConfigError(
        f"Expected a pandas or polars frame, an Arrow table or a dictionary of arrays, got a '{type(batch).__name__}'."
    )


def _array(values: list[Any], kind: type) -> np.ndarray:
    return np.array(values, dtype=float if kind is float else object)  # None is NaN


def _with_arrays(batch: dict[str, Any], added: dict[str, list[Any]], types: dict[str, type]) -> dict[str, Any]:
    return batch | {name: _array(values, types[name]) for name, values in added.items()}


def _with_series(frame: Any, added: dict[str, list[Any]], types: dict[str, type]) -> Any:
    return frame.assign(**{name: _array(values, types[name]) for name, values in added.items()})


def _with_polars(frame: Any, added: dict[str, list[Any]], types: dict[str, type]) -> Any:
    import polars as pl

    return frame.with_columns(pl.Series(name, values, dtype=polars_type(types[name])) for name, values in added.items())


def _with_arrow(table: Any, added: dict[str, list[Any]], types: dict[str, type]) -> Any:
    import pyarrow as pa

    of = {float: pa.float64(), int: pa.int64(), bool: pa.bool_(), str: pa.string()}
    for name, values in added.items():
        table = table.append_column(name, pa.array(values, of[types[name]]))
    return table


def polars_type(kind: type) -> Any:
    """Return the type of a column."""
    import polars as pl

    return {float: pl.Float64, int: pl.Int64, bool: pl.Boolean, str: pl.String}[kind]
