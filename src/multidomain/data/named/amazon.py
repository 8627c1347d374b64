"""Amazon reviews of four products as 5,000 n-gram counts (Tables 1 and 2 of the paper)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multidomain.data.corpus import Corpus, object_array
from multidomain.data.named.cache import check_files, checksums, fetch_files, given_folder
from multidomain.data.named.download import Progress, RemoteFile
from multidomain.data.named.registry import register
from multidomain.data.readers.svmlight import read_svmlight

_VECTORS = (
    "https://raw.githubusercontent.com/GRAAL-Research/domain_adversarial_neural_network/"
    "74eec5e0ae06bd6614bce048abba492c16a633e3/data/"
)
_ORDER = (
    "https://raw.githubusercontent.com/ccsasuke/man/b57b4c14340db1ca7bffb5d9737b7c2601dc8df2/"
    "data/prep-amazon/amazon-shuffle-indices.pkl"
)
_DOMAINS = ("books", "dvd", "electronics", "kitchen")
_VECTOR_FILES = [f"{domain}_{part}.svmlight" for domain in _DOMAINS for part in ("train", "test")]
_ORDER_TEXT, _ORDER_BINARY = "shuffle.txt", "amazon-shuffle-indices.pkl"
# The published order is a pickle, and loading one can run any code; its numbers are at these bytes.
_ORDER_BYTES = slice(152, 16_152)
_FOLD_SIZE = 400
_N_COLUMNS = 5_000
_CLASSES = {"-1": "negative", "1": "positive", None: None}


def fetch_amazon(progress: Progress | None = None) -> Path:
    """Return the folder with the files, downloaded if necessary."""
    if folder := given_folder("amazon"):
        check_files("amazon", folder, [*_VECTOR_FILES, _order_file(folder)])
        return folder
    known = checksums("amazon")
    files = [RemoteFile(_VECTORS + name, known[name], name) for name in _VECTOR_FILES]
    files.append(RemoteFile(_ORDER, known[_ORDER_BINARY], _ORDER_BINARY))
    return fetch_files("amazon", files, progress)


@register(
    "amazon",
    "Product reviews of 4 domains as 5,000 n-gram counts, 2,000 labelled a domain",
    source="https://github.com/GRAAL-Research/domain_adversarial_neural_network",
    fetcher=fetch_amazon,
)
def load_amazon() -> Corpus:
    """Return 2,000 labelled reviews per domain with their folds, and the rest as unlabelled text.

    Rows of the ``_test`` files are ``unlabelled``; they keep their labels for scoring (Table 2).
    """
    folder = fetch_amazon()
    raw = read_svmlight([folder / name for name in _VECTOR_FILES], zero_based=True, n_features=_N_COLUMNS)
    assert raw.parts is not None
    train = raw.parts == "train"
    order = _read_order(folder / _order_file(folder))
    fold_of_row = np.empty(len(order), dtype=np.int64)
    fold_of_row[order] = np.arange(len(order)) // _FOLD_SIZE
    folds = np.full(len(raw), -1, dtype=np.int64)
    folds[train] = np.tile(fold_of_row, len(_DOMAINS))
    return Corpus(
        raw.documents,
        object_array([_CLASSES[label] for label in raw.labels]),
        raw.domains,
        parts=np.where(train, "train", "unlabelled").astype(object),
        folds=folds,
        provenance=raw.provenance,
        name="amazon",
    )


def _order_file(folder: Path) -> str:
    return _ORDER_TEXT if (folder / _ORDER_TEXT).is_file() else _ORDER_BINARY


def _read_order(file: Path) -> np.ndarray:
    """Return the order of a domain's labelled rows before they are split into folds."""
    if file.name == _ORDER_TEXT:
        return np.array(file.read_text("ascii").split(), dtype=np.int64)
    return np.frombuffer(file.read_bytes()[_ORDER_BYTES], dtype="<i8").astype(np.int64)
