"""Raw text and its treebank-tokenised copy must give the same tokens."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multidomain.features.token_rules import TOKEN_PATTERN, normalise


def tokens(text: str) -> list[str]:
    return re.findall(TOKEN_PATTERN, normalise(text))


@pytest.mark.parametrize(
    ("raw", "treebank"),
    [
        ("You don't want to put it down.", "you do n't want to put it down ."),
        ("You CAN'T, won't, and it's Larkin's!", "you ca n't , wo n't , and it 's larkin 's !"),
        ("I'm sure they'd say we've or you're; I'll", "i 'm sure they 'd say we 've or you 're ; i 'll"),
        ('Larkin\'s "The Book of Revelation" is', "larkin 's `` the book of revelation '' is"),
        ("‘Hello’ “world”", "` hello ' `` world ''"),
        (
            "advanced amateur (sp?) [sic] {x}",
            "advanced amateur -lrb- sp ? -rrb- -lsb- sic -rsb- -lcb- x -rcb-",
        ),
        ("80's music, the boys' room", "80 's music , the boys ' room"),
        ("I cannot, I can not", "i can not , i can not"),
        ("gonna, gotta, wanna, gimme, lemme", "gon na , got ta , wan na , gim me , lem me"),
        ("'Tis and 'twas", "'t is and 't was"),
        ("Q&amp;A &amp; more &lt;br /&gt; text", "q&a & more < br / > text"),
        ("he said &amp;quot;yes&amp;quot;", "he said & amp ; quot ; yes & amp ; quot ;"),
        ("a well-written book--the best", "a well-written book -- the best"),
        ("$100, 50% off: 1,000 for 4.5 stars...", "$ 100 , 50 % off : 1,000 for 4.5 stars ..."),
        ("don’t, don´t, don`t", "do n't , do n't , do n't"),
    ],
)
def test_raw_and_treebank_text_give_the_same_tokens(raw: str, treebank: str) -> None:
    assert tokens(raw) == tokens(treebank)
    assert tokens(raw)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't!", ["i", "don't", "!"]),
        ("rock'n'roll 'quoted' o'brien's", ["rock'n'roll", "quoted", "o'brien's"]),
        ("the 's' key", ["the", "s", "key"]),
        (
            "well-written and/or user_name amazon.com",
            ["well", "written", "and", "or", "user", "name", "amazon", "com"],
        ),
        (
            "1.5 stars, 5 stars, 1,000. 2,but f/2.8l",
            ["1.5", "stars", "5", "stars", "1,000", "2", "but", "f", "2.8l"],
        ),
        ("What?! ... ;-) — *", ["what", "?", "!"]),
        ("oregon nature, got taken, snot is", ["oregon", "nature", "got", "taken", "snot", "is"]),
        ("ｗｉｄｅ！ ﬁne caf\u0065\u0301 ½", ["wide", "!", "fine", "café", "1", "2"]),
        ("Brand™ Ünïcode ÉCOLE ΣΟΦΌΣ", ["brand", "ünïcode", "école", "σοφός"]),
        ("Просмотрение хорошо", ["просмотрение", "хорошо"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("非常好！", ["非", "常", "好", "!"]),
        ("AT&T R&D this&not &#39;x&#39; caf&eacute;", ["at", "t", "r", "d", "this", "not", "x", "café"]),
        (
            "fine.<br /><br>Next <a href='x'>link</a> if x < y > z",
            ["fine", "next", "link", "if", "x", "y", "z"],
        ),
        ("<Blood Meridian> is read", ["blood", "meridian", "is", "read"]),
        ("clich\x96 \x85 so", ["clich", "so"]),
        ("", []),
        (" \t\n", []),
        ("...", []),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@given(st.text())
def test_any_text_is_accepted_and_tokens_hold_no_blank(text: str) -> None:
    assert all(token and not any(c.isspace() for c in token) for token in tokens(text))


@given(st.text(alphabet="aAbB nst'!?.,-`\""))
def test_case_never_matters(text: str) -> None:
    assert tokens(text) == tokens(text.upper())


@pytest.mark.benchmark_data
def test_texts_that_fdu_mtl_holds_in_both_forms_give_the_same_tokens() -> None:
    """Some 2,000 texts stand raw in an .unlabel file and tokenised in a labelled one."""
    given = os.environ.get("MULTIDOMAIN_DATA")
    folder = Path(given) if given else Path(__file__).parents[4] / "shared" / "data"
    folder = folder / "fdu-mtl"
    if not folder.is_dir():
        pytest.skip("FDU-MTL is not here; set MULTIDOMAIN_DATA")

    def texts(path: Path) -> dict[str, str]:
        lines = path.read_bytes().decode("cp1252", errors="replace").lower().split("\n")
        by_letters = {re.sub("[^a-z0-9]", "", line.split("\t")[-1]): line.split("\t")[-1] for line in lines}
        return {letters: text for letters, text in by_letters.items() if len(letters) > 40}

    compared, different = 0, []
    for unlabelled in folder.glob("*.task.unlabel"):
        if unlabelled.name.startswith(("MR.", "imdb.")):  # tokenised in both files
            continue
        raw = texts(unlabelled)
        for part in (".train", ".test"):
            for letters, text in texts(unlabelled.with_suffix(part)).items():
                if letters in raw:
                    compared += 1
                    if tokens(text) != tokens(raw[letters]):
                        different.append(text)
    assert compared > 1000
    assert len(different) <= 0.001 * compared, different[:3]
