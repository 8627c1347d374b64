"""FDU-MTL: review texts of sixteen domains (Table 3 of the paper)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from multidomain.data.corpus import Corpus
from multidomain.data.named.cache import check_files, checksums, fetch_files, given_folder
from multidomain.data.named.download import Progress, RemoteFile
from multidomain.data.named.registry import register
from multidomain.data.readers.fdu import read_fdu_folder

_HOME = "https://raw.githubusercontent.com/ccsasuke/man/b57b4c14340db1ca7bffb5d9737b7c2601dc8df2/data/fdu-mtl/"
# File stem -> domain, in the order of the paper's table.
_DOMAINS = {
    "books": "books",
    "electronics": "electronics",
    "dvd": "dvd",
    "kitchen_housewares": "kitchen",
    "apparel": "apparel",
    "camera_photo": "camera",
    "health_personal_care": "health",
    "music": "music",
    "toys_games": "toys",
    "video": "video",
    "baby": "baby",
    "magazines": "magazines",
    "software": "software",
    "sports_outdoors": "sports",
    "imdb": "imdb",
    "MR": "mr",
}


def fetch_fdu_mtl(progress: Progress | None = None) -> Path:
    """Return the folder with the files, downloaded if necessary."""
    known = checksums("fdu-mtl")
    if folder := given_folder("fdu-mtl"):
        check_files("fdu-mtl", folder, list(known))
        return folder
    files = [RemoteFile(_HOME + name, digest, name) for name, digest in known.items()]
    return fetch_files("fdu-mtl", files, progress)


@register(
    "fdu-mtl",
    "Reviews of 16 domains as text, with train, dev, test and unlabelled parts",
    source="https://github.com/ccsasuke/man",
    fetcher=fetch_fdu_mtl,
)
def load_fdu_mtl() -> Corpus:
    """Return the sixteen domains with the given train, dev, test and unlabelled parts."""
    return replace(read_fdu_folder(fetch_fdu_mtl(), _DOMAINS), name="fdu-mtl")
