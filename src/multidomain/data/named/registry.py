"""Named corpora."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from multidomain.data.columns import Columns
from multidomain.data.corpus import Corpus
from multidomain.data.named.download import Progress
from multidomain.data.readers.read import read_corpus
from multidomain.errors import ConfigError, DataError, did_you_mean
from multidomain.registry import Registry


@dataclass(frozen=True)
class NamedCorpus:
    """A named corpus.

    Parameters
    ----------
    name
        Its name.
    description
        One-line description.
    source
        Where it comes from.
    loader
        Reads it, downloading missing files.
    fetcher
        Downloads missing files and returns their folder; None if it has no files.
    """

    name: str
    description: str
    source: str
    loader: Callable[[], Corpus]
    fetcher: Callable[[Progress | None], Path] | None = None

    def load(self) -> Corpus:
        """Return the corpus; it is downloaded on first use."""
        return self.loader()

    def fetch(self, progress: Progress | None = None) -> Path | None:
        """Download missing files; return their folder, or None if there are no files."""
        return self.fetcher(progress) if self.fetcher is not None else None


CORPORA: Registry[NamedCorpus] = Registry("corpus", __package__, "multidomain.corpora")

Loader = TypeVar("Loader", bound=Callable[[], Corpus])


def register(
    name: str, description: str, *, source: str, fetcher: Callable[[Progress | None], Path] | None = None
) -> Callable[[Loader], Loader]:
    """Register a corpus under a name; decorates its loader. See `NamedCorpus`."""

    def registered(loader: Loader) -> Loader:
        CORPORA.add(name, NamedCorpus(name, description, source, loader, fetcher))
        return loader

    return registered


def load_corpus(name_or_path: str | Path, columns: Columns | None = None, **options: Any) -> Corpus:
    """Return a corpus by its name, or read it from a path.

    Parameters
    ----------
    name_or_path
        A name of `CORPORA`, or a file or folder. For a path with the same name as a corpus, write
        ``./amazon``.
    columns, options
        For paths, as in `read_corpus`.

    Raises
    ------
    DataError
        Neither a known name nor an existing path.

    Examples
    --------
    >>> corpus = load_corpus("demo")
    >>> corpus.domain_names, corpus.class_names
    (('books', 'kitchen', 'electronics', 'shoes'), ('negative', 'positive'))
    """
    name = str(name_or_path)
    if isinstance(name_or_path, str) and name in CORPORA:
        if options.get("part") is not None or (columns is not None and columns != Columns()):
            raise ConfigError(f"Columns and parts of the corpus '{name}' are fixed; leave these settings out.")
        return CORPORA[name].load()
    if not Path(name_or_path).exists():
        raise DataError(f"There is no file, folder or corpus '{name}'.{did_you_mean(name, CORPORA)}")
    return read_corpus(name_or_path, columns, **options)
