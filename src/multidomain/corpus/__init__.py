"""Corpora of many domains: reading, naming, checking and splitting them."""

from multidomain.corpus.checks import CorpusSummary, DomainSummary, check_trainable, summarise
from multidomain.corpus.columns import Columns
from multidomain.corpus.corpus import PARTS, Corpus, Places
from multidomain.corpus.download import Progress, RemoteFile, download
from multidomain.corpus.named import CORPORA, NamedCorpus, load_corpus
from multidomain.corpus.readers import read_corpus
from multidomain.corpus.redealing import redealt_folds, redealt_parts
from multidomain.corpus.rows import corpus_from_rows
from multidomain.corpus.splits import (
    Repeats,
    Selection,
    Split,
    cross_validation,
    default_split,
    given_split,
    holdout_split,
    kfold_split,
)
from multidomain.corpus.storage import cache_folder
from multidomain.corpus.svmlight import read_svmlight
from multidomain.corpus.tables import Chunk, Table, open_table

__all__ = [
    "CORPORA",
    "PARTS",
    "Chunk",
    "Columns",
    "Corpus",
    "CorpusSummary",
    "DomainSummary",
    "NamedCorpus",
    "Places",
    "Progress",
    "RemoteFile",
    "Repeats",
    "Selection",
    "Split",
    "Table",
    "cache_folder",
    "check_trainable",
    "corpus_from_rows",
    "cross_validation",
    "default_split",
    "download",
    "given_split",
    "holdout_split",
    "kfold_split",
    "load_corpus",
    "open_table",
    "read_corpus",
    "read_svmlight",
    "redealt_folds",
    "redealt_parts",
    "summarise",
]
