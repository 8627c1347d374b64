"""A corpus as settings describe it: by name or path, with files for its other parts and further labels."""

from __future__ import annotations

from typing import Any

from multidomain.data.columns import Columns
from multidomain.data.corpus import Corpus
from multidomain.data.labels_file import add_labels
from multidomain.data.named.registry import load_corpus
from multidomain.data.readers.read import read_corpus
from multidomain.data.settings import ReadingSettings


def load_data(data: str, reading: ReadingSettings) -> Corpus:
    """Read a corpus, the files given for its other parts, and those with further labels."""
    r = reading
    columns = Columns(r.text_column, r.label_column, r.domain_column, r.split_column, r.weight_column)
    options: dict[str, Any] = {"encoding": r.encoding, "drop_empty": r.drop_empty}
    files = {part: path for part, path in (("dev", r.dev), ("test", r.test), ("unlabelled", r.text_only)) if path}
    corpora = [load_corpus(data, columns, part="train" if files else None, **options)]
    corpora += [read_corpus(path, columns, part=part, **options) for part, path in files.items()]
    corpus = Corpus.concat(corpora)
    return add_labels(corpus, r.labels, columns, **options) if r.labels else corpus
