"""Prediction on many files, for ``multidomain predict``."""

from __future__ import annotations

import glob
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from multidomain.cli.console import err, print_notes
from multidomain.cli.engines import bounded_by_memory, engine_for
from multidomain.cli.signals import stop_hint
from multidomain.errors import ConfigError, DataError, Note, counted

if TYPE_CHECKING:
    from multidomain.model.batch import Predicted
    from multidomain.model.batch_predictor import BatchPredictor
    from multidomain.model.partitions import Partition, PartitionsDone

_SHOWN_FAULTS = 20


def are_partitions(source: str, output: Path | None, engine: str | None) -> bool:
    """Tell whether a command is about files in a folder, and not about one file."""
    named = glob.has_magic(source) and not Path(source).exists()
    into_folder = Path(source).suffix.lower() == ".parquet" and output is not None and output.is_dir()
    return engine is not None or named or Path(source).is_dir() or into_folder


def is_parquet_to_parquet(source: str, output: Path | None) -> bool:
    """Tell whether a command is about one Parquet file that is to become another."""
    return output is not None and {Path(source).suffix.lower(), output.suffix.lower()} == {".parquet"}


def predict_parquet(predictor: BatchPredictor, source: str, output: Path) -> None:
    """Predict one Parquet file in this process."""
    from multidomain.model.partitions import Partition, predict_partition

    done = predict_partition(predictor, Partition(Path(source), output))
    _print_notes(done)
    err.print(f"{counted(done.rows, 'row')} written to {output}", soft_wrap=True)


def predict_all(
    predictor: BatchPredictor,
    source: str,
    output: Path | None,
    *,
    engine: str,
    address: str | None,
    workers: int | None,
    overwrite: bool,
) -> None:
    """Predict all Parquet files that are not finished and say how far it is; fail at the end if some could not be."""
    from multidomain.model.partitions import find_partitions, predict_partitions

    if output is None:
        raise ConfigError("Partitions are written into a folder.", "Name it with {output=FOLDER}.")
    partitions = find_partitions(source, output)
    where = engine_for(engine, address, workers)
    predictor.model  # noqa: B018 - what is wrong with it is said here, and how much memory it takes is seen
    print_notes(bounded_by_memory(where))
    went_on = "Finished partitions are kept; the same command goes on with the rest."
    began = time.monotonic()
    with stop_hint(went_on), where:
        for done in predict_partitions(predictor, partitions, where, overwrite=overwrite):
            _show(done, time.monotonic() - began)
    _print_notes(done)
    if done.faults:
        raise _failed(done.faults, len(partitions))
    err.print(f"{counted(len(partitions), 'partition')} in {output}", soft_wrap=True)


def _print_notes(done: Predicted | PartitionsDone) -> None:
    print_notes(done.notes)
    if done.without_text:
        print_notes([Note(f"{counted(done.without_text, 'row')} without text got no prediction")])
    if done.abstained:
        print_notes([Note(f"{counted(done.abstained, 'row')} of too little confidence got no prediction")])


def _show(done: PartitionsDone, seconds: float) -> None:
    to_do, ended = done.total - done.finished_before, done.finished + len(done.faults)
    before = f"{counted(done.finished_before, 'partition')} finished before; " if done.finished_before else ""
    if not ended:
        err.print(f"{before}{counted(to_do, 'partition')} to do", highlight=False)
        return
    left = timedelta(seconds=round(seconds / ended * (to_do - ended)))
    err.print(f"{ended}/{to_do}  {counted(done.rows, 'row')}; about {left} left", highlight=False)


def _failed(faults: dict[Partition, Exception], total: int) -> DataError:
    listed = [f"{partition}: {_said(error)}" for partition, error in faults.items()]
    more = f"\n... and {len(listed) - _SHOWN_FAULTS:,} more" if len(listed) > _SHOWN_FAULTS else ""
    return DataError(
        f"{len(faults):,} of {counted(total, 'partition')} got no predictions; the others are finished.\n"
        + "\n".join(listed[:_SHOWN_FAULTS])
        + more
        + "\n",
        "Mend them and repeat the command, which then does these alone.",
    )


def _said(error: Exception) -> str:
    return str(error) if str(error) else type(error).__name__
