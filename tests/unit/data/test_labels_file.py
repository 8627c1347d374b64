"""Labels from a table of their own: filled into the rows they belong to, never overwriting, never held out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from multidomain.data.columns import Columns
from multidomain.data.corpus import Corpus
from multidomain.data.labels_file import add_labels
from multidomain.data.named.registry import load_corpus
from multidomain.data.readers.read import read_corpus
from multidomain.data.splits import default_split, given_split, holdout_split
from multidomain.errors import DataError

Write = Callable[[str, str | bytes], Path]

DATA = "text,label,domain\na fine pan,good,pans\na poor pan,bad,pans\nA light pan.,,pans\na light pan,,books\n"


@pytest.fixture
def corpus(write: Write) -> Corpus:
    return read_corpus(write("reviews.csv", DATA))


def test_a_label_goes_to_the_rows_of_its_text_and_domain(corpus: Corpus, write: Write):
    filled = add_labels(corpus, [write("l.csv", "text,label,domain\na LIGHT pan,bad,pans\nanother,,pans\n")])
    assert filled.labels.tolist() == ["good", "bad", "bad", None]
    assert filled.train_only is not None and filled.train_only.tolist() == [False, False, True, False]
    assert corpus.labels[2] is None, "the corpus itself is unchanged"


def test_other_columns_do_no_harm(corpus: Corpus, write: Write):
    table = "row,prediction,confidence,domain,text,label\n4,good,0.6,pans,a light pan,bad\n5,good,0.5,books,x,\n"
    assert add_labels(corpus, [write("l.csv", table)]).labels.tolist() == ["good", "bad", "bad", None]
    unfilled = write("u.csv", "text,prediction,confidence,domain\na light pan,good,0.6,pans\n")
    with pytest.raises(DataError, match=r"u\.csv has no column that looks like the label\. Its columns: 'text', 'pred"):
        add_labels(corpus, [unfilled])


def test_a_text_that_is_not_there_becomes_a_training_row(corpus: Corpus, write: Write):
    lines = "text,label,domain\na new pan,good,pans\nA NEW pan,good,pans\na fine pan,bad,books\n"
    filled = add_labels(corpus, [write("l.csv", lines)])
    assert filled.documents[4:].tolist() == ["a new pan", "a fine pan"]
    assert list(zip(filled.labels[4:], filled.domains[4:], strict=True)) == [("good", "pans"), ("bad", "books")]
    assert filled.where(4) == "l.csv, row 2"
    assert filled.train_only is not None and filled.train_only.tolist() == [False] * 4 + [True] * 2


def test_several_files_are_filled_in_together(corpus: Corpus, write: Write):
    files = [
        write("1.csv", "text,label,domain\na light pan,bad,pans\n"),
        write("2.jsonl", '{"text": "a light pan", "label": "good", "domain": "books"}\n'),
    ]
    assert add_labels(corpus, files).labels.tolist() == ["good", "bad", "bad", "good"]


def test_the_same_label_again_changes_nothing(corpus: Corpus, write: Write):
    same = add_labels(corpus, [write("l.csv", "text,label,domain\na fine pan,good,pans\n")])
    assert same.labels.tolist() == corpus.labels.tolist() and not same.train_only.any()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "text,label,domain\na light pan,good,books\na fine pan,bad,pans\n",
            r"l\.csv, row 3: a text of the domain 'pans' is labelled 'bad' here and 'good' in reviews\.csv, row 2\. "
            "Correct one of the two labels, or empty the one",
        ),
        (
            "text,label,domain\na light pan,good,books\nA light pan,bad,books\n",
            r"l\.csv, row 3: a text of the domain 'books' is labelled 'bad' here and 'good' in l\.csv, row 2\.",
        ),
        ("text,label,domain\na light pan,Good,books\n", r"'good' \(reviews\.csv, row 2\) and 'Good' \(l\.csv, row 2\)"),
        ("text,label,domain\na light pan,good,Books\n", r"'books' \(reviews\.csv, row 5\) and 'Books' \(l\.csv, row 2"),
        (
            "text,label,domain\na light pan,goood,books\n",
            r"l\.csv, row 2: 'goood' is not a class of 'reviews'\. Did you mean 'good'\?.* if the class is new",
        ),
        ("text,label,domain\na light pan,,books\n", r"l\.csv: no row has a label\. Fill in the column 'label'"),
        ("text,label\na light pan,good\n", r"l\.csv has no column that looks like the domain"),
    ],
)
def test_what_contradicts_the_data_is_refused(corpus: Corpus, write: Write, table: str, message: str):
    with pytest.raises(DataError, match=message):
        add_labels(corpus, [write("l.csv", table)])


def test_columns_of_the_data_are_used_where_the_table_has_them(write: Write):
    columns = Columns(text="body", label="stars", domain="shop")
    corpus = read_corpus(write("d.csv", "body,stars,shop,text\na pan,,a,x\na pot,5,a,x\n"), columns)
    own = write("own.csv", "text,body,stars,shop\nx,a pan,5,a\n")
    ours = write("ours.csv", "text,label,domain\na pan,5,a\n")
    for file in (own, ours):
        assert add_labels(corpus, [file], columns).labels.tolist() == ["5", "5"]


def test_without_domains_a_table_needs_none(write: Write):
    corpus = read_corpus(write("d.csv", "text,label\na pan,\na pot,good\n"))
    assert add_labels(corpus, [write("l.csv", "text,label\na pan,good\n")]).labels.tolist() == ["good", "good"]


def test_unlabelled_text_that_gets_a_label_trains_and_weight_0_hides_none(write: Write):
    parts = "text,label,domain,split,w\na,good,x,train,2\nb,bad,x,test,1\nc,,x,unlabelled,0\nd,,x,unlabelled,0\n"
    corpus = read_corpus(write("d.csv", parts), Columns(weight="w"))
    filled = add_labels(corpus, [write("l.csv", "text,label,domain\nc,bad,x\ne,good,x\n")])
    assert filled.labels.tolist() == ["good", "bad", "bad", None, "good"]
    assert filled.parts is not None and filled.parts.tolist() == ["train", "test", "train", "unlabelled", "train"]
    assert filled.weights is not None and filled.weights.tolist() == [2, 1, 1, 0, 1]


def test_vectors_have_no_texts_to_match(write: Write):
    corpus = read_corpus(write("pans.svmlight", "1 0:3\n-1 1:2\n"))
    with pytest.raises(DataError, match="holds vectors; labels are matched by their texts"):
        add_labels(corpus, [write("l.csv", "text,label,domain\na,1,pans\n")])


# --- never held out ---------------------------------------------------------------------------------------


def picked(parts: bool) -> Corpus:
    """A corpus of which forty rows were picked for labelling, one of them twice in it."""
    demo = load_corpus("demo").thinned(60)
    documents = demo.documents.copy()
    documents[300] = documents[5]
    mask = np.zeros(len(demo), dtype=bool)
    mask[:40] = True
    given = np.where(np.arange(len(demo)) % 5 == 4, "test", "train").astype(object) if parts else None
    if given is not None:
        given[:40] = given[300] = "train"
    return Corpus(documents, demo.labels, demo.domains, parts=given, train_only=mask)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_picked_rows_are_never_held_out(seed: int):
    free, given = picked(parts=False), picked(parts=True)
    splits = [default_split(free, seed=seed), default_split(free, fold=1, seed=seed), default_split(given, seed=seed)]
    for split in splits:
        assert {*range(40), 300} <= set(split.train)
        assert len(split.dev) and len(split.test)
        assert sum(len(part) for part in (split.train, split.dev, split.test)) == len(free)
    other = Corpus(free.documents, free.labels, free.domains)
    assert set(range(40)) & {*holdout_split(other, seed=seed).dev, *holdout_split(other, seed=seed).test}
    assert len(given_split(given, seed=seed).dev)


def test_picked_rows_stay_so_in_selections_and_unions_and_count_in_the_hash():
    corpus = picked(parts=False)
    both = Corpus.concat([corpus.select(np.arange(30, 50)), Corpus(["x"], ["positive"], ["books"])])
    assert both.train_only is not None and both.train_only.tolist() == [True] * 10 + [False] * 11
    plain = Corpus(corpus.documents, corpus.labels, corpus.domains)
    assert plain.content_hash() != corpus.content_hash()
