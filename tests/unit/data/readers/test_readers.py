"""Readers: from files to a checked corpus."""

import polars as pl
import pytest

from multidomain.data.columns import Columns
from multidomain.data.readers.read import read_corpus
from multidomain.data.readers.svmlight import read_svmlight
from multidomain.errors import ConfigError, DataError

TABLE = "text,label,domain\ngood one,pos,books\nbad one,neg,dvd\nno label,,dvd\n"


def test_csv(write):
    corpus = read_corpus(write("reviews.csv", TABLE))
    assert corpus.documents.tolist() == ["good one", "bad one", "no label"]
    assert corpus.labels.tolist() == ["pos", "neg", None]
    assert corpus.domains.tolist() == ["books", "dvd", "dvd"]
    assert corpus.parts is None
    assert corpus.where(1) == "reviews.csv, row 3"
    assert corpus.name == "reviews"


def test_all_formats_give_the_same_corpus(write, tmp_path):
    corpora = [read_corpus(write("a.csv", TABLE)), read_corpus(write("a.tsv", TABLE.replace(",", "\t")))]
    frame = pl.read_csv(TABLE.encode())
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_ndjson(tmp_path / "a.jsonl")
    corpora += [read_corpus(tmp_path / "a.parquet"), read_corpus(tmp_path / "a.jsonl")]
    assert len({corpus.content_hash() for corpus in corpora}) == 1


def test_labels_of_numbers_and_missing_ones(tmp_path, write):
    frame = pl.DataFrame({"text": list("abcd"), "label": [1.0, 0.0, None, float("nan")]})
    frame.write_parquet(tmp_path / "a.parquet")
    assert read_corpus(tmp_path / "a.parquet").labels.tolist() == ["1", "0", None, None]
    assert read_corpus(write("a.csv", "text,label\na,nan\nb, \nc,x\n")).labels.tolist() == [None, None, "x"]
    assert read_corpus(write("a.jsonl", '{"text": "a", "label": NaN}')).labels.tolist() == [None]


def test_no_domain_and_no_label_column(write):
    corpus = read_corpus(write("a.csv", "text\na\nb\n"))
    assert corpus.domain_names == ("all",)
    assert corpus.labels.tolist() == [None, None]


def test_missing_texts_are_an_error_with_a_way_out(write):
    rows = "".join(f"{text},x\n" for text in ("a", "", "b", "  ", "", "", "", "", "c"))
    path = write("a.csv", "text,label\n" + rows)
    expected = (
        r"6 rows have no text \(null, NaN or blank\): a\.csv, row 3; a\.csv, row 5; a\.csv, row 6; a\.csv, row 7; "
        r"a\.csv, row 8 and 1 more\. Fill the column 'text', or drop such rows \(drop_empty=True\)\."
    )
    with pytest.raises(DataError, match=expected):
        read_corpus(path)
    corpus = read_corpus(path, drop_empty=True)
    assert corpus.documents.tolist() == ["a", "b", "c"]
    assert [corpus.where(i) for i in range(3)] == ["a.csv, row 2", "a.csv, row 4", "a.csv, row 10"]


def test_nan_text_in_parquet(tmp_path):
    pl.DataFrame({"text": ["a", None], "label": ["x", "y"]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"1 row has no text \(null, NaN or blank\): a\.parquet, row 2\."):
        read_corpus(tmp_path / "a.parquet")


def test_only_missing_texts(write):
    with pytest.raises(DataError, match=r"a\.csv: no row has a text in the column 'text'"):
        read_corpus(write("a.csv", "text,label\n,x\n"), drop_empty=True)


def test_text_that_is_no_text(write):
    with pytest.raises(DataError, match=r"a\.jsonl, row 2: expected a text \(str\), got int: '5'"):
        read_corpus(write("a.jsonl", '{"text": "a"}\n{"text": 5}\n'))


def test_missing_domain(write):
    with pytest.raises(DataError, match=r"1 row without a domain, though others have one: a\.csv, row 3"):
        read_corpus(write("a.csv", "text,domain\na,x\nb,\n"))


@pytest.mark.parametrize("second", ["books", "Books ", " Books", "BOOKS"])
def test_domain_names_that_differ_by_case_or_blanks(write, second):
    expected = (
        rf"The domain names 'Books' \(a\.csv, row 2\) and '{second}' \(a\.csv, row 4\) differ only by case or blanks"
    )
    with pytest.raises(DataError, match=expected):
        read_corpus(write("a.csv", f"text,domain\na,Books\nb,Books\nc,{second}\n"))


def test_class_names_that_differ_by_case(write):
    with pytest.raises(DataError, match=r"class names 'pos' \(a\.csv, row 2\) and 'Pos' \(a\.csv, row 3\)"):
        read_corpus(write("a.csv", "text,label\na,pos\nb,Pos\n"))


def test_split_column(write):
    corpus = read_corpus(write("a.csv", "text,split\na,Train\nb,validation\nc,test\nd,unlabeled\n"))
    assert corpus.parts.tolist() == ["train", "dev", "test", "unlabelled"]
    with pytest.raises(DataError, match=r"a\.csv, row 3: the column 'split' says .* holds 'tset'\. Valid: 'train'"):
        read_corpus(write("a.csv", "text,split\na,train\nb,tset\n"))


def test_part_for_a_whole_file(write):
    assert read_corpus(write("a.csv", TABLE), part="test").parts.tolist() == ["test"] * 3
    with pytest.raises(DataError, match=r"row 3 is 'train' by its column 'split', but the file was given as 'test'"):
        read_corpus(write("a.csv", "text,split\na,test\nb,train\n"), part="test")
    with pytest.raises(ConfigError, match="cannot be the part 'tset'"):
        read_corpus(write("a.csv", TABLE), part="tset")
    assert read_corpus(write("x.svmlight", "1 0:1\n"), part="dev").parts.tolist() == ["dev"]


def test_unknown_column_asked_for(write):
    with pytest.raises(DataError, match=r"no column 'lable' .*Did you mean 'label'"):
        read_corpus(write("a.csv", TABLE), Columns(label="lable"))


def test_svmlight_folder(write, tmp_path):
    write("data/books_train.svmlight", "# a comment\n1 0:2 3:1.5\n\n-1 1:1\n")
    write("data/dvd_train.svmlight", "2 4:1 # note\n")
    write("data/dvd_unlabelled.libsvm", "0 2:7\n")
    write("data/readme.txt", "not data")
    corpus = read_corpus(tmp_path / "data")
    assert corpus.documents.toarray().tolist() == [
        [2, 0, 0, 1.5, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 0, 0, 1],
        [0, 0, 7, 0, 0],
    ]
    assert corpus.labels.tolist() == ["1", "-1", "2", None]
    assert corpus.domains.tolist() == ["books", "books", "dvd", "dvd"]
    assert corpus.parts.tolist() == ["train", "train", "train", "unlabelled"]
    assert corpus.where(1) == "books_train.svmlight, row 4"


def test_svmlight_indices_from_one_in_all_files(write, tmp_path):
    write("data/a.svmlight", "1 1:1\n")
    write("data/b.svmlight", "0.5 3:1\n")
    corpus = read_corpus(tmp_path / "data")
    assert corpus.documents.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert corpus.parts is None
    assert corpus.labels.tolist() == ["1", "0.5"]


def test_svmlight_for_a_trained_model_keeps_its_columns(write):
    corpus = read_svmlight([write("a.svmlight", "1 1:1\n")], zero_based=True, n_features=4)
    assert corpus.documents.toarray().tolist() == [[0, 1, 0, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a\.svmlight is empty"),
        ("1 0:1\n1 0:nan\n", r"a\.svmlight, row 2: a value is nan\. Expected finite numbers"),
        ("1 0:1\n\n1 0:1 2:inf\n", r"a\.svmlight, row 3: a value is inf"),
        ("1 0:1\ngood words\n", r"a\.svmlight, row 2: expected '<number> <column>:<value>"),
        ("1 0:1\n1 3:1 2:1\n", r"a\.svmlight, row 2: expected .* with rising columns"),
    ],
)
def test_unusable_svmlight(write, content, message):
    with pytest.raises(DataError, match=message):
        read_corpus(write("a.svmlight", content))


def test_negative_values_are_left_to_the_features(write):
    assert read_corpus(write("a.svmlight", "1 0:-1\n")).documents.toarray().tolist() == [[-1]]


def test_svmlight_parts_for_all_or_none(write, tmp_path):
    write("data/a_train.svmlight", "1 1:1\n")
    write("data/b.svmlight", "1 1:1\n")
    with pytest.raises(DataError, match=r"Some svmlight files name their part and 'b\.svmlight' does not"):
        read_corpus(tmp_path / "data")


def fdu_lines(n):
    return "".join(f"{i % 2}\ttext {i}\n" for i in range(n)).encode()


def test_fdu_folder(write, tmp_path):
    train = fdu_lines(210)[:-1].replace(b"text 3\n", b"it\x92s\x85\x0bone line\n").replace(b"text 4\n", b"\n")
    write("f/toys.task.train", train + b"\n")
    write("f/toys.task.test", b"1\tcaf\xc3\xa9\n0\t\n")
    write("f/toys.task.unlabel", b"raw, Text\n\n  \nmore\ttabs\n")
    corpus = read_corpus(tmp_path / "f")
    assert len(corpus) == 214
    assert corpus.documents[3] == "it’s…\x0bone line"
    assert corpus.documents[4] == ""
    assert corpus.parts[:210].tolist() == ["train"] * 10 + ["dev"] * 200
    assert corpus.documents[210:].tolist() == ["café", "", "raw, Text", "more\ttabs"]
    assert corpus.labels[210:].tolist() == ["positive", "negative", None, None]
    assert corpus.parts[210:].tolist() == ["test", "test", "unlabelled", "unlabelled"]
    assert corpus.where(213) == "toys.task.unlabel, row 4"
    assert corpus.domain_names == ("toys",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (fdu_lines(200), r"toys\.task\.train has 200 rows\. The last 200 are the development set"),
        (fdu_lines(210) + b"2\tx\n", r"toys\.task\.train, row 211: expected 0 or 1, a tab and the text, got '2"),
        (fdu_lines(210) + b"1 x\n", r"row 211: expected 0 or 1, a tab and the text"),
        (fdu_lines(210) + b"1\t\x81\n", r"row 211: byte 0x81 is neither UTF-8 nor cp1252"),
    ],
)
def test_unusable_fdu_files(write, tmp_path, content, message):
    write("f/toys.task.train", content)
    with pytest.raises(DataError, match=message):
        read_corpus(tmp_path / "f")


def test_folder_with_nothing_to_read(write, tmp_path):
    write("f/readme.md", "x")
    with pytest.raises(DataError, match=r"holds no corpus. Expected svmlight files"):
        read_corpus(tmp_path / "f")


def test_missing_path(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        read_corpus(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="There is no file"):
        read_corpus(tmp_path / "nowhere.svmlight")
