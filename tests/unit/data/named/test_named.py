"""Corpora by name: where they come from and what they hold."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from multidomain.data.checks import summarise
from multidomain.data.columns import Columns
from multidomain.data.named import amazon as amazon_module
from multidomain.data.named import through_pip
from multidomain.data.named import vader as vader_module
from multidomain.data.named.cache import cache_folder, checksums
from multidomain.data.named.demo import DOMAINS, load_demo
from multidomain.data.named.registry import CORPORA, load_corpus
from multidomain.data.splits import default_split
from multidomain.errors import ConfigError, DataError, FetchError


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """No MULTIDOMAIN_DATA and an empty cache."""
    monkeypatch.delenv("MULTIDOMAIN_DATA", raising=False)
    monkeypatch.setenv("MULTIDOMAIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


# --- the registry -------------------------------------------------------------------------------------


def test_registry():
    assert list(CORPORA) == ["amazon", "demo", "fdu-mtl", "vader", "vader-3"]
    assert all(name == corpus.name and corpus.description and corpus.source for name, corpus in CORPORA.items())
    assert CORPORA["demo"].fetch() is None


def test_unknown_name():
    with pytest.raises(DataError, match=r"no file, folder or corpus 'amazn'. Did you mean 'amazon'"):
        load_corpus("amazn")


def test_a_path_is_read(write):
    assert load_corpus(write("a.csv", "t,label\nx,y\n"), Columns(text="t")).documents.tolist() == ["x"]


def test_settings_that_a_named_corpus_does_not_take():
    with pytest.raises(ConfigError, match="Columns and parts of the corpus 'demo' are fixed"):
        load_corpus("demo", Columns(text="t"))


def test_cache_folder(monkeypatch):
    monkeypatch.setenv("MULTIDOMAIN_CACHE", "/c")
    assert cache_folder() == Path("/c")
    monkeypatch.delenv("MULTIDOMAIN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/multidomain")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "multidomain"


# --- demo ---------------------------------------------------------------------------------------------


def test_demo_is_balanced_different_and_repeatable():
    demo = load_corpus("demo")
    assert demo.content_hash() == load_demo(0).content_hash() != load_demo(1).content_hash()
    for domain in summarise(demo).domains.values():
        assert domain.per_class == {"negative": 150, "positive": 150}
        assert domain.repeated_texts == 0


def demo_accuracies(n_train, seed):
    """Test accuracy of logistic regression on shared, private, and shared + private features."""
    demo = load_demo(seed)
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(np.flatnonzero(demo.domains == d)) for d in DOMAINS]
    train = np.concatenate([r[:n_train] for r in rows])
    test = np.concatenate([r[200:] for r in rows])
    shared = TfidfVectorizer(sublinear_tf=True).fit(demo.documents[train]).transform(demo.documents)
    private = sp.hstack([sp.diags((demo.domains == d).astype(float)) @ shared for d in DOMAINS])
    scores = []
    for features in (shared.tocsr(), private.tocsr(), sp.hstack([shared, private]).tocsr()):
        model = LogisticRegression(C=10, max_iter=2000).fit(features[train], demo.labels[train].astype(str))
        scores.append(model.score(features[test], demo.labels[test].astype(str)))
    return scores


def test_demo_needs_both_sharing_and_privacy():
    shared, private, both = np.mean([demo_accuracies(200, seed) for seed in range(3)], axis=0)
    assert both > 0.93
    assert both > shared + 0.1
    assert both > private + 0.03
    shared, private, both = np.mean([demo_accuracies(100, seed) for seed in range(3)], axis=0)
    assert both > shared + 0.05
    assert both > private + 0.04


# --- amazon and fdu-mtl -------------------------------------------------------------------------------


@pytest.mark.benchmark_data
def test_amazon(benchmark_data):
    corpus = load_corpus("amazon")
    assert corpus.documents.shape == (27_677, 5_000)
    assert corpus.domain_names == ("books", "dvd", "electronics", "kitchen")
    assert corpus.class_names == ("negative", "positive")
    unlabelled = corpus.parts == "unlabelled"
    sizes = [int((unlabelled & (corpus.domains == d)).sum()) for d in corpus.domain_names]
    assert sizes == [4_465, 3_586, 5_681, 5_945]
    assert corpus.labelled.all()
    order = [int(line) for line in (benchmark_data / "amazon" / "shuffle.txt").read_text().split()]
    for domain in corpus.domain_names:
        rows = np.flatnonzero((corpus.domains == domain) & ~unlabelled)
        assert corpus.folds[rows[order[0]]] == 0
        assert corpus.folds[rows[order[399]]] == 0
        assert corpus.folds[rows[order[400]]] == 1
        assert corpus.folds[rows[order[1999]]] == 4
    assert (corpus.folds[unlabelled] == -1).all()
    split = default_split(corpus, fold=4)
    assert (corpus.folds[split.dev] == 4).all()
    assert (corpus.folds[split.test] == 0).all()
    assert [len(split.train), len(split.dev), len(split.test), len(split.unlabelled)] == [4800, 1600, 1600, 19_677]


@pytest.mark.benchmark_data
def test_fdu_mtl_has_the_repeats_its_readme_counts(benchmark_data):
    corpus = load_corpus("fdu-mtl")
    names = (
        "books electronics dvd kitchen apparel camera health music toys video baby magazines software sports imdb mr"
    )
    assert " ".join(corpus.domain_names) == names
    split = default_split(corpus)
    assert split.rule == "given"
    assert len(split.test) == 6_400
    assert len(split.dev) == 3_200
    assert (corpus.documents[corpus.labelled] == "").sum() == 1
    repeats = split.duplicates(corpus)
    assert sum(r.in_train for r in repeats.values()) == 540
    assert sum(r.in_train_or_unlabelled for r in repeats.values()) == 925
    found = {d: repeats[d].in_train_or_unlabelled for d in ("magazines", "video", "camera", "software")}
    assert found == {"magazines": 299, "video": 132, "camera": 131, "software": 76}


def test_given_data_must_be_complete(monkeypatch, tmp_path):
    (tmp_path / "amazon").mkdir()
    monkeypatch.setenv("MULTIDOMAIN_DATA", str(tmp_path))
    with pytest.raises(
        DataError, match=r"The corpus 'amazon' in '.*' lacks 'books_train\.svmlight', .*MULTIDOMAIN_DATA"
    ):
        load_corpus("amazon")


@pytest.mark.benchmark_data
def test_given_data_must_be_the_published(benchmark_data, monkeypatch, tmp_path):
    shutil.copytree(benchmark_data / "amazon", tmp_path / "amazon")
    altered = tmp_path / "amazon" / "dvd_test.svmlight"
    altered.chmod(0o644)
    altered.write_bytes(altered.read_bytes() + b"1 0:1\n")
    monkeypatch.setenv("MULTIDOMAIN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"is not the published one: 'dvd_test\.svmlight' differ"):
        load_corpus("amazon")


@pytest.mark.benchmark_data
def test_amazon_downloaded_equals_amazon_given(benchmark_data, monkeypatch, tmp_path, caplog):
    """From a local server in place of the public home, with the fold order as the published pickle has it."""
    given = load_corpus("amazon")
    home = tmp_path / "home"
    shutil.copytree(benchmark_data / "amazon", home)
    order = np.array((home / "shuffle.txt").read_text().split(), dtype="<i8")
    binary = b"\x80" * 152 + order.tobytes() + b"."
    (home / "order.pkl").write_bytes(binary)
    known = checksums("amazon") | {"amazon-shuffle-indices.pkl": hashlib.sha256(binary).hexdigest()}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(home)))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/"
    monkeypatch.setattr(amazon_module, "_VECTORS", base)
    monkeypatch.setattr(amazon_module, "_ORDER", base + "order.pkl")
    monkeypatch.setattr(amazon_module, "checksums", lambda name: known)
    monkeypatch.delenv("MULTIDOMAIN_DATA")
    monkeypatch.setenv("MULTIDOMAIN_CACHE", str(tmp_path / "cache"))
    try:
        fetched = load_corpus("amazon")
    finally:
        server.shutdown()
        server.server_close()
    assert "Downloading the corpus 'amazon' (9 files)" in caplog.text
    assert fetched.content_hash() == given.content_hash()
    assert (fetched.folds == given.folds).all()
    # The server is gone: what is in the cache is enough.
    assert load_corpus("amazon").content_hash() == given.content_hash()


def test_no_network_tells_the_way_by_hand(no_data, monkeypatch):
    monkeypatch.setattr(amazon_module, "_VECTORS", "http://127.0.0.1:9/")
    with pytest.raises(FetchError, match=r"http://127\.0\.0\.1:9/books_train\.svmlight.*By hand: .*<folder>/amazon"):
        load_corpus("amazon")


# --- vader --------------------------------------------------------------------------------------------

TEXTS = {
    "amazonReviewSnippets_GroundTruth.txt": "1_1\t-0.5\tbad\r\n1_2\t0.49\tso so\r\n2_1\t0.5\tgood",
    "movieReviewSnippets_GroundTruth.txt": "1\t3\tgreat",
    "nytEditorialSnippets_GroundTruth.txt": "1_1\t-0.49\tmeh\r\n12_3\t-2\twar",
    "tweets_GroundTruth.txt": "1\t-1\tugh :(",
}


def write_sdist(path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as inner:
        for name, text in {**TEXTS, "../../evil.txt": "evil"}.items():
            member = tarfile.TarInfo(f"hutto_ICWSM_2014/{name}")
            member.size = len(text)
            inner.addfile(member, io.BytesIO(text.encode()))
    with zipfile.ZipFile(path, "w") as outer:
        outer.writestr("vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz", packed.getvalue())


@pytest.fixture
def small_vader(no_data, monkeypatch):
    """A pip that delivers a small source distribution."""
    commands = []

    def run(command, **options):
        commands.append(command)
        requirement = Path(command[command.index("--requirement") + 1]).read_text()
        assert requirement.startswith("vaderSentiment==0.5 --hash=sha256:5d97c37f3ef6")
        write_sdist(Path(command[command.index("--dest") + 1]) / "vaderSentiment-0.5.zip")
        return subprocess.CompletedProcess(command, 0, "", "")

    known = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in TEXTS.items()}
    monkeypatch.setattr(through_pip.subprocess, "run", run)
    monkeypatch.setattr("multidomain.data.named.cache.checksums", lambda name: known)
    return commands


def test_vader_keeps_clear_ratings_and_groups_sentences(small_vader, no_data):
    corpus = load_corpus("vader")
    assert corpus.documents.tolist() == ["bad", "good", "great", "war", "ugh :("]
    assert corpus.labels.tolist() == ["negative", "positive", "positive", "negative", "negative"]
    assert corpus.domains.tolist() == ["amazon", "amazon", "movies", "nyt", "tweets"]
    assert corpus.groups.tolist() == ["amazon 1", "amazon 2", None, "nyt 12", None]
    assert corpus.where(3) == "nytEditorialSnippets_GroundTruth.txt, row 2"
    assert small_vader[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert "--require-hashes" in small_vader[0]


def test_vader_is_fetched_once_and_nothing_else_is_written(small_vader, no_data):
    load_corpus("vader")
    load_corpus("vader")
    assert len(small_vader) == 1
    written = sorted(str(p.relative_to(no_data)) for p in no_data.parent.rglob("*") if p.is_file())
    assert written == sorted(f"vader/{name}" for name in TEXTS)


def test_vader_altered_in_the_cache(small_vader, no_data):
    load_corpus("vader")
    (no_data / "vader" / "tweets_GroundTruth.txt").write_text("1\t4\tforged")
    with pytest.raises(DataError, match=r"is not the published one: 'tweets_GroundTruth\.txt'"):
        load_corpus("vader")


def test_vader_without_a_registry(no_data, monkeypatch):
    for name in [n for n in os.environ if n.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(FetchError) as caught:
        load_corpus("vader")
    message = str(caught.value)
    assert message.startswith("pip could not fetch the corpus 'vader' (ERROR: ")
    assert f"put its four *_GroundTruth.txt files in '{no_data / 'vader'}'" in message
    assert not (no_data / "vader").exists()


@pytest.mark.network
def test_vader_through_pip(no_data):
    try:
        folder = CORPORA["vader"].fetch()
    except FetchError as error:
        pytest.skip(f"needs a package registry: {error}")
    rated = sum(len(vader_module.read_ratings(p)) for p in folder.glob("*_GroundTruth.txt"))
    assert rated == 23_703
    summary = summarise(load_corpus("vader"))
    assert {d: s.rows for d, s in summary.domains.items()} == {
        "amazon": 2_985,
        "movies": 10_072,
        "nyt": 2_970,
        "tweets": 3_432,
    }
