"""The file format of FDU-MTL: three files per domain, one text per line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multidomain.data.corpus import Corpus, Provenance, object_array
from multidomain.errors import DataError

_CLASSES = {"0": "negative", "1": "positive"}
# The last lines of a train file are the dev set, according to the readme; the files do not mark it.
_DEV_ROWS = 200
_PART_OF_SUFFIX = {"train": "train", "test": "test", "unlabel": "unlabelled"}


def is_fdu_folder(folder: Path) -> bool:
    """Whether a folder holds FDU-MTL files."""
    return any(folder.glob("*.task.train"))


def read_fdu_folder(folder: Path, names: dict[str, str] | None = None) -> Corpus:
    """Read all domains of a folder.

    Parameters
    ----------
    folder
        Contains ``<stem>.task.train`` and, optionally, ``.test`` and ``.unlabel``.
    names
        Domain name of each stem, in the desired order; None uses the stems themselves, sorted.
    """
    if names is None:
        stems = sorted(p.name.removesuffix(".task.train") for p in folder.glob("*.task.train"))
        names = {stem: stem for stem in stems}
    files = [
        (folder / f"{stem}.task.{suffix}", domain, part)
        for stem, domain in names.items()
        for suffix, part in _PART_OF_SUFFIX.items()
    ]
    corpora = [_read_file(file, domain, part) for file, domain, part in files if file.is_file()]
    return Corpus.concat(corpora, name=folder.name)


def _read_file(file: Path, domain: str, part: str) -> Corpus:
    # Not splitlines: texts contain characters that Python treats as line breaks.
    lines = [_decode(line, file.name, row) for row, line in enumerate(file.read_bytes().split(b"\n"), start=1)]
    if lines and not lines[-1]:
        lines.pop()
    labels: list[str | None]
    if part == "unlabelled":
        rows = [row for row, line in enumerate(lines, start=1) if line.strip()]
        texts = [lines[row - 1] for row in rows]
        labels = [None] * len(rows)
    else:
        rows = list(range(1, len(lines) + 1))
        # Empty texts are kept: the split is given, and every published figure counts those rows.
        labels, texts = _split_labels(lines, file.name)
    parts = np.full(len(rows), part, dtype=object)
    if part == "train":
        if len(rows) <= _DEV_ROWS:
            raise DataError(
                f"{file.name} has {len(rows)} rows. The last {_DEV_ROWS} are the development set, so more are needed."
            )
        parts[-_DEV_ROWS:] = "dev"
    return Corpus(
        object_array(texts),
        object_array(labels),
        np.full(len(rows), domain, dtype=object),
        parts=parts,
        provenance=Provenance.of_file(file.name, rows),
        name=file.name,
    )


def _split_labels(lines: list[str], file: str) -> tuple[list[str | None], list[str]]:
    labels: list[str | None] = []
    texts = []
    for row, line in enumerate(lines, start=1):
        label, tab, text = line.partition("\t")
        if not tab or label.strip() not in _CLASSES:
            raise DataError(f"{file}, row {row}: expected 0 or 1, a tab and the text, got {line[:40]!r}.")
        labels.append(_CLASSES[label.strip()])
        texts.append(text)
    return labels, texts


def _decode(line: bytes, file: str, row: int) -> str:
    for encoding in ("utf-8", "cp1252"):
        try:
            return line.decode(encoding)
        except UnicodeDecodeError as error:
            byte = line[error.start]
    raise DataError(f"{file}, row {row}: byte 0x{byte:02x} is neither UTF-8 nor cp1252.")
