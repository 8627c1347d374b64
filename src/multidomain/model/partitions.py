"""Prediction on many Parquet files, each of them a partition, on any engine."""

from __future__ import annotations

import glob
import hashlib
import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path

import polars as pl

from multidomain.code import check_code, code_hash
from multidomain.data.readers.parquet import ParquetTable, reading_parquet
from multidomain.engines.base import Engine
from multidomain.errors import ConfigError, DataError, ModelError, Note, WorkerLacksError, quoted
from multidomain.files import sha256_of, whole_file
from multidomain.methods.registry import file_and_class
from multidomain.model.batch import ABSTAINED, Predicted
from multidomain.model.batch_predictor import BatchPredictor, polars_type
from multidomain.model.storage import MANIFEST

_MADE_BY = "multidomain"  # in the metadata of what is written


@dataclass(frozen=True)
class Partition:
    """A Parquet file, and where it goes with predictions."""

    source: Path
    target: Path

    def __str__(self) -> str:
        return str(self.source)


@dataclass
class PartitionsDone:
    """What was done so far.

    Attributes
    ----------
    total, finished_before, finished
        Number of partitions in all, of those that an earlier call had finished, and of those finished now.
    rows, without_text, abstained, notes
        As for `Predicted`, of the partitions finished now.
    faults
        Errors, by partition.
    """

    total: int
    finished_before: int = 0
    finished: int = 0
    rows: int = 0
    without_text: int = 0
    abstained: int = 0
    notes: dict[Note, None] = field(default_factory=dict)
    faults: dict[Partition, Exception] = field(default_factory=dict)

    def add(self, predicted: Predicted) -> None:
        """Count a partition that was finished now."""
        self.finished += 1
        self.rows += predicted.rows
        self.without_text += predicted.without_text
        self.abstained += predicted.abstained
        self.notes.update(dict.fromkeys(predicted.notes))


def find_partitions(pattern: str, target: Path) -> list[Partition]:
    """Return the Parquet files of a folder or a pattern such as ``data/*.parquet``, in order of their names.

    Below the folder `target` they have the same names as below that folder, or as below the folders that the pattern
    names before its first wildcard.
    """
    folder = Path(pattern)
    named = glob.glob(pattern, recursive=True)  # noqa: PTH207 - a pattern of `Path.glob` is relative
    found = sorted(folder.rglob("*.parquet") if folder.is_dir() else map(Path, named))
    files = [path for path in found if path.is_file()]
    if not files:
        raise DataError(f"There is no file '{pattern}'.", "Give a folder of Parquet files, or a pattern in quotes.")
    if others := [path.name for path in files if path.suffix.lower() != ".parquet"]:
        raise DataError(f"Partitions are Parquet files; '{pattern}' has others: {quoted(others)}.")
    if target.exists() and not target.is_dir():
        raise ConfigError(f"Partitions are written into a folder, and '{target}' is none.", "Choose {output=FOLDER}.")
    top, into = _top(pattern), target.absolute()  # workers have other working directories
    partitions = [Partition(path.absolute(), into / path.absolute().relative_to(top)) for path in files]
    if clash := [str(one.source) for one in partitions if one.source.resolve() == one.target.resolve()]:
        raise ConfigError(f"{quoted(clash)} would be replaced by what is written.", "Choose another {output=FOLDER}.")
    searched_below = folder.is_dir() or "**" in folder.parts
    if searched_below and into.resolve().is_relative_to(top.resolve()):
        raise ConfigError(
            f"'{target}' is inside of '{top}': what is written there would be read when the command is repeated.",
            "Choose {output=FOLDER} elsewhere.",
        )
    return partitions


def _top(pattern: str) -> Path:
    """Return the folder below which files are found; it does not depend on which files there are."""
    path = Path(pattern).absolute()
    if path.is_dir():
        return path
    parts = Path(pattern).parts[:-1]
    return Path(*takewhile(lambda part: not glob.has_magic(part), parts)).absolute()


def predict_partitions(
    predictor: BatchPredictor, partitions: Sequence[Partition], engine: Engine, *, overwrite: bool = False
) -> Iterator[PartitionsDone]:
    """Predict all partitions that are not finished, and yield what is done before the first and after each.

    A partition is written whole or not at all, and says from which model, settings and file it was made: one that was
    made from the same is finished, whoever made it. An error in one does not stop the others.

    Raises
    ------
    WorkerLacksError
        A worker cannot import this package, has another version of it, or cannot load the model: it would fail at one
        partition after the other.
    """
    done = PartitionsDone(len(partitions))
    identity, left = _identity(predictor), []
    for one in partitions:
        if one.target.exists() and not overwrite and _is_finished(one, identity):
            done.finished_before += 1
        else:
            left.append(one)
    yield done
    for outcome in engine.map(partial(_predict_in_worker, predictor, identity, code_hash()), left):
        if outcome.error is None:
            done.add(outcome.value)
        elif isinstance(outcome.error, WorkerLacksError):
            raise outcome.error
        else:
            done.faults[outcome.task] = outcome.error
        yield done


def _predict_in_worker(predictor: BatchPredictor, identity: str, code: str, partition: Partition) -> Predicted:
    """Predict a partition where the package, the model or the device may be missing, or be another one."""
    way_out, worker = "Put the same model there, or on a file system that all machines share.", platform.node()
    try:
        check_code(code)
    except ConfigError as error:
        raise WorkerLacksError(error.message, error.hint) from None
    try:
        found = _identity(predictor)
    except ModelError as error:
        raise WorkerLacksError(f"The worker on '{worker}' cannot load the model: {error}", way_out) from None
    except ConfigError as error:  # of a package, a device, or the file of a method
        raise WorkerLacksError(f"The worker on '{worker}' cannot load the model: {error.message}", error.hint) from None
    if found != identity:
        raise WorkerLacksError(f"The worker on '{worker}' has another model in {predictor.folder}.", way_out)
    return predict_partition(predictor, partition)


def predict_partition(predictor: BatchPredictor, partition: Partition) -> Predicted:
    """Copy a Parquet file with predictions added; its own columns stay as they are."""
    source, notes = partition.source, dict[Note, None]()
    table = ParquetTable(source)
    made_by = _made_by(source, _identity(predictor))
    columns = predictor.columns(table.columns, source.name)
    read = [name for name in (columns.text, columns.domain) if name is not None]
    types = {name: polars_type(kind) for name, kind in predictor.added.items()}
    added = [pl.DataFrame(schema=types)]
    without_text = abstained = 0
    for chunk in table.chunks_of(read):
        answered = predictor.answered(chunk.values, columns)
        added.append(pl.DataFrame(predictor.values(answered), schema=types))
        notes.update(dict.fromkeys(answered.notes))
        without_text += len(chunk) - len(answered.at)
        abstained += int((answered.best == ABSTAINED).sum())
    beside = pl.concat(added)
    with whole_file(partition.target) as temporary, reading_parquet(source, doing=f"copied to {partition.target}"):
        both = pl.concat([pl.scan_parquet(source, glob=False), beside.lazy()], how="horizontal")
        both.sink_parquet(temporary, metadata={_MADE_BY: made_by})
    return Predicted(len(beside), without_text, abstained, tuple(notes))


def _identity(predictor: BatchPredictor) -> str:
    """Return what predictions depend on besides the rows."""
    manifest = Path(predictor.folder) / MANIFEST
    predictor.model  # noqa: B018 - what is wrong with it is said here, and not by every worker
    settings = asdict(predictor) | {"folder": sha256_of(manifest), "code": code_hash()}
    if in_file := file_and_class(predictor.method or ""):
        settings["method"] = sha256_of(in_file[0]), in_file[1]
    del settings["device"]  # where it is answered does not change what was asked
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def _made_by(source: Path, identity: str) -> str:
    found = source.stat()
    return json.dumps({"identity": identity, "bytes": found.st_size, "modified_ns": found.st_mtime_ns})


def _is_finished(partition: Partition, identity: str) -> bool:
    try:
        made_by = pl.read_parquet_metadata(partition.target).get(_MADE_BY)
    except (pl.exceptions.PolarsError, OSError):
        made_by = None
    if made_by is None:
        raise ConfigError(
            f"{partition.target} is there already and was not written by this command.",
            "Choose another {output=FOLDER}, or replace it with {overwrite}.",
        )
    return made_by == _made_by(partition.source, identity)
