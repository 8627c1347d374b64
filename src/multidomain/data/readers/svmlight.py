"""Feature vectors in svmlight format, one file per domain."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from multidomain.data.corpus import Corpus, Provenance, object_array
from multidomain.data.values import class_name, part_name
from multidomain.errors import DataError

SVMLIGHT_SUFFIXES = (".svmlight", ".libsvm")
_LARGEST_INDEX = 100_000_000
_LONG_INDEX = re.compile(rb"(?<![\d.eE+-])(\d{9,}):")  # only those that could be beyond it


def svmlight_files(folder: Path) -> list[Path]:
    """Return the svmlight files of a folder, sorted by name."""
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in SVMLIGHT_SUFFIXES and p.is_file())


def read_svmlight(
    files: Sequence[Path],
    *,
    zero_based: bool | None = None,
    n_features: int | None = None,
    name: str | None = None,
) -> Corpus:
    """Read svmlight files into one corpus with the same columns.

    The name of a file is its domain, optionally followed by ``_train``, ``_dev``, ``_test`` or
    ``_unlabelled``. Class names are the numeric labels. Labels in ``_unlabelled`` files are ignored: the
    format requires them.

    Parameters
    ----------
    files
        The files.
    zero_based
        Whether column indices start at 0; None infers it from all files together. Set it, and `n_features`,
        to read vectors for a model trained on other files.
    n_features
        Number of columns; None uses the largest index.
    name
        Name of the corpus.
    """
    if not files:
        raise DataError("There is no svmlight file to read.")
    for file in files:
        if not file.is_file():
            raise DataError(f"There is no file '{file}'. Check the path.")
    row_numbers = [_row_numbers(file) for file in files]
    loaded = _load(files, zero_based, n_features)
    corpora = [
        _one_file(file, matrix, labels, rows)
        for file, matrix, labels, rows in zip(files, loaded[::2], loaded[1::2], row_numbers, strict=True)
    ]
    if any(c.parts is None for c in corpora) and any(c.parts is not None for c in corpora):
        unnamed = next(f.name for f, c in zip(files, corpora, strict=True) if c.parts is None)
        raise DataError(
            f"Some svmlight files name their part and '{unnamed}' does not. Name all of them like "
            f"'<domain>_train{files[0].suffix}', or none."
        )
    return Corpus.concat(corpora, name=name or files[0].stem)


def _load(files: Sequence[Path], zero_based: bool | None, n_features: int | None) -> list:
    from sklearn.datasets import load_svmlight_files  # takes a second to import, which other formats need not wait for

    for file in files:
        _check_columns(file)
    try:
        return load_svmlight_files(
            [str(f) for f in files],
            n_features=n_features,
            dtype=np.float32,
            zero_based="auto" if zero_based is None else zero_based,
        )
    except (ValueError, OverflowError) as error:
        for file in files:
            row = _first_bad_row(file)
            if row is not None:
                raise DataError(
                    f"{file.name}, row {row}: expected '<number> <column>:<value> ...' with rising columns."
                ) from None
        raise DataError(f"{files[0].name}: {error}") from None


def _check_columns(file: Path) -> None:
    # The largest index decides how many columns all vectors have.
    with file.open("rb") as lines:
        for row, line in enumerate(lines, start=1):
            for column in _LONG_INDEX.findall(line.split(b"#", 1)[0]):
                if len(column) > 20 or int(column) > _LARGEST_INDEX:
                    raise DataError(
                        f"{file.name}, row {row}: the column {column[:30].decode()} is beyond {_LARGEST_INDEX:,}.",
                        "Renumber the columns.",
                    )


def _one_file(file: Path, matrix: sp.csr_matrix, labels: np.ndarray, rows: list[int]) -> Corpus:
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if len(bad):
        at = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        raise DataError(f"{file.name}, row {rows[at]}: a value is {matrix.data[bad[0]]}. Expected finite numbers.")
    domain, part = _domain_and_part(file)
    n = matrix.shape[0]
    known = part != "unlabelled"
    return Corpus(
        matrix,
        object_array([class_name(v) if known else None for v in labels]),
        np.full(n, domain, dtype=object),
        parts=None if part is None else np.full(n, part, dtype=object),
        provenance=Provenance.of_file(file.name, rows),
        name=file.stem,
    )


def _domain_and_part(file: Path) -> tuple[str, str | None]:
    domain, _, last = file.stem.rpartition("_")
    part = part_name(last) if domain else None
    return (file.stem, None) if part is None else (domain, part)


def _row_numbers(file: Path) -> list[int]:
    """Return the row numbers of the vectors: the loader skips blank lines and comments."""
    with file.open("rb") as lines:
        rows = [i for i, line in enumerate(lines, start=1) if line.split(b"#", 1)[0].strip()]
    if not rows:
        raise DataError(f"{file.name} is empty. Expected rows such as '1 0:3 17:1'.")
    return rows


def _first_bad_row(file: Path) -> int | None:
    with file.open("rb") as lines:
        for row, line in enumerate(lines, start=1):
            cells = line.split(b"#", 1)[0].split()
            if cells and not _is_vector(cells):
                return row
    return None


def _is_vector(cells: list[bytes]) -> bool:
    try:
        last = -math.inf
        float(cells[0])
        for cell in cells[1:]:
            column, value = cell.split(b":")
            float(value)
            if int(column) <= last or int(column) < 0:
                return False
            last = int(column)
    except ValueError:
        return False
    return True
