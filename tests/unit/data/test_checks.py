"""What cannot be trained on, what is noted, and the summary."""

import pytest

from multidomain.data.checks import DomainSummary, check_trainable, summarise
from multidomain.data.corpus import Corpus, Provenance
from multidomain.data.splits import Split
from multidomain.data.values import corpus_from_rows
from multidomain.errors import DataError, settings_in


def corpus_of(rows, **fields):
    texts, labels, domains = zip(*rows, strict=True)
    return Corpus(texts, labels, domains, **fields)


GOOD = [("a", "x", "d1"), ("b", "y", "d1"), ("c", "x", "d2"), ("d", "y", "d2")]


def split_of(train, dev=(), test=(), unlabelled=()):
    return Split(list(train), list(dev), list(test), list(unlabelled), rule="by hand")


def test_a_sound_corpus_passes_in_silence():
    assert check_trainable(corpus_of(GOOD), split_of(range(4))) == []


def test_no_labels_at_all():
    corpus = corpus_of([("a", None, "d1"), ("b", None, "d2")])
    with pytest.raises(
        DataError, match=r"No row to train on has a label \('corpus', 2 training rows\).*label_column=\.\.\."
    ):
        check_trainable(corpus, split_of([0, 1]))


def test_labels_of_unlabelled_parts_do_not_count():
    with pytest.raises(DataError, match="No row to train on has a label"):
        check_trainable(corpus_of(GOOD), split_of([], unlabelled=range(4)))


def test_one_class_overall():
    corpus = corpus_of([("a", "x", "d1"), ("b", None, "d2"), ("c", "x", "d2")])
    with pytest.raises(DataError, match=r"All labelled training rows have the class 'x'. At least two classes"):
        check_trainable(corpus, split_of(range(3)))


@pytest.mark.parametrize("part", ["dev", "test"])
def test_a_label_in_a_held_out_part_only(part):
    rows = [*GOOD, ("e", "z", "d1"), ("f", "z", "d2"), ("g", "x", "d2")]
    corpus = corpus_of(rows, provenance=Provenance.of_file("r.csv", range(2, 9)))
    expected = (
        rf"The class 'z' is in the {part} part and in no labelled training row \(r\.csv, row 6; r\.csv, row 7\)\. "
        r"Classes in training: 'x', 'y'\. Move some of its rows to the training part"
    )
    with pytest.raises(DataError, match=expected):
        check_trainable(corpus, split_of(range(4), **{part: [4, 5, 6]}))


def test_one_domain_is_noted():
    (note,) = check_trainable(corpus_of(GOOD), split_of([0, 1], test=[2, 3]))
    assert note.kind == "one-domain"
    assert note.message.startswith("All training text is of one domain, 'd1': there is nothing to adapt")
    assert settings_in(note.hint) == {"domain_column": "NAME"}


def test_an_unlabelled_domain_is_a_second_domain():
    assert check_trainable(corpus_of(GOOD), split_of([0, 1], unlabelled=[2, 3])) == []


def test_a_domain_with_one_class_is_noted():
    (note,) = check_trainable(corpus_of(GOOD), split_of([0, 1, 3]))
    assert note.kind == "one-class"
    assert "rows of the domain 'd2' have the class 'y'" in note.message


def test_notes_on_several_domains():
    """Each domain has its own."""
    rows = [*GOOD, ("e", "x", "d3")]
    notes = check_trainable(corpus_of(rows), split_of([0, 3, 4]))
    assert [(note.kind, note.message.split("'")[1]) for note in notes] == [("one-class", d) for d in ("d1", "d2", "d3")]


def test_summary():
    corpus = corpus_from_rows(
        ["one", "One!", "two", "two", "three", "one"],
        ["x", "y", "x", "x", None, "x"],
        ["a", "a", "a", "a", "a", "b"],
        name="mine",
    )
    summary = summarise(corpus)
    assert (summary.name, summary.rows, summary.class_names) == ("mine", 6, ("x", "y"))
    assert summary.domains == {
        "a": DomainSummary(5, 4, {"x": 3, "y": 1}, repeated_texts=2, conflicting_texts=1),
        "b": DomainSummary(1, 1, {"x": 1, "y": 0}, repeated_texts=0, conflicting_texts=0),
    }
