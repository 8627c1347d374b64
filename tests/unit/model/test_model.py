"""A model: what it predicts, and what becomes of it on disk."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from multidomain.errors import DataError, ModelError, MultidomainError, MultidomainWarning, StorageError
from multidomain.features.ngrams import NgramFeaturizer
from multidomain.methods.registry import method_entry
from multidomain.methods.task import Task
from multidomain.model import storage
from multidomain.model.model import Model
from multidomain.model.storage import is_model_folder

TEXTS = [
    "a good red book",
    "not a good pan",
    "the film was long",
    "blue book , blue film",
    "",
    "zebra",
    "good good good",
]
DOMAINS = ["books", "kitchen", "New York", "books", None, "kitchen", "New York"]
SETTINGS = {"hidden": (6,), "shared_size": 5, "private_size": 4}


def make_model(
    name: str = "man-nll", weighting: str = "counts", seed: int = 0, texts: bool = True, **settings: Any
) -> Model:
    """A model of the domains books, kitchen (without labels) and New York; its weights are random."""
    features = NgramFeaturizer(weighting=weighting, max_features=20)  # type: ignore[arg-type]
    features.fit(TEXTS if texts else csr_matrix(np.ones((3, 6))))
    labelled = (0, 1, 2) if settings.get("category") == "domain-specific" else (0, 2)
    task = Task(features.n_inputs, 3, ("books", "kitchen", "New York"), labelled)
    entry = method_entry(name)
    torch.manual_seed(seed)
    method = entry.build(task, entry.settings({**SETTINGS, **settings}))
    with torch.no_grad():  # so that it matters whether running statistics are stored
        method.C.norm.running_mean.uniform_(-1, 1)
        method.C.norm.running_var.uniform_(0.5, 2)
    method.eval()
    return Model(name, method, features, ("bad", "fair", "good"))


def assert_same_answers(loaded: Model, model: Model, documents: Any = TEXTS, domains: list[str] | None = None) -> None:
    """Numbers that are read from a file stand elsewhere in memory, and a sum may then begin elsewhere."""
    expected = model.predict_proba(documents, domains)
    np.testing.assert_allclose(loaded.predict_proba(documents, domains), expected, rtol=1e-5, atol=1e-7)


# --- prediction -------------------------------------------------------------------------------------------


def test_classes_are_named_by_their_probabilities():
    model = make_model()
    p = model.predict_proba(TEXTS, DOMAINS)
    assert p.shape == (7, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert model.predict(TEXTS, DOMAINS).tolist() == [model.classes[i] for i in p.argmax(axis=1)]


def test_each_row_is_read_as_of_its_domain():
    """Against one document at a time."""
    model = make_model()
    p = model.predict_proba(TEXTS, DOMAINS)
    for text, domain, row in zip(TEXTS, DOMAINS, p, strict=True):
        np.testing.assert_allclose(model.predict_proba([text], [domain])[0], row, rtol=1e-4, atol=1e-6)
    assert not np.allclose(p[:1], model.predict_proba(TEXTS[:1], ["New York"]))


def test_an_unlabelled_domain_and_none_are_answered_from_the_shared_features():
    model = make_model()
    p = model.predict_proba(TEXTS, ["kitchen"] * 7)
    np.testing.assert_array_equal(p, model.predict_proba(TEXTS, [None] * 7))
    np.testing.assert_array_equal(p, model.predict_proba(TEXTS))
    shared = torch.from_numpy(model.shared_features(model.encode(TEXTS)))
    with torch.inference_mode():
        expected = model.method.C(torch.cat([shared, torch.zeros(7, 4)], dim=1)[None])[0].softmax(-1)
    np.testing.assert_allclose(p, expected, rtol=1e-5, atol=1e-6)


def test_an_unknown_domain_is_answered_likewise_and_said():
    model = make_model()
    with pytest.warns(
        MultidomainWarning,
        match=r"Domain '(music|games)' was not in training: answered from the shared features alone\. "
        r"Known domains: 'books', 'kitchen', 'New York'\.",
    ) as caught:
        p = model.predict_proba(TEXTS, ["music", "games", *["music"] * 5])
    assert len(caught) == 2, "once for each name"
    np.testing.assert_array_equal(p, model.predict_proba(TEXTS))


def test_what_is_said_about_domains_is_returned_with_their_codes():
    """Once for each name, with a kind that programs can tell; a document without a domain is not unexpected."""
    names = ["kitchen", "books", "BOOKS", None, "zoo", "zoo", None]
    resolved = make_model().resolve_domains(names, 7)
    assert resolved.codes.tolist() == [1, 0, 0, None, None, None, None]
    said = {note.kind: str(note) for note in resolved.notes}
    assert list(said) == ["other-spelling", "no-domain", "unknown-domain"]
    assert said["no-domain"].startswith("No domain given: answered from the shared features alone. Known domains:")
    assert [note.kind for note in resolved.unexpected] == ["other-spelling", "unknown-domain"]


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ("kichen", r"Domain 'kichen' was not in training\. Did you mean 'kitchen'\? Valid: 'books', "),
        ("zoo", r"Domain 'zoo' was not in training\. Valid: 'books', 'kitchen', 'New York'\."),
        (None, r"A document has no domain\. Valid: 'books', "),
    ],
)
def test_an_unknown_domain_can_be_refused(domain: str | None, message: str):
    with pytest.raises(DataError, match=message):
        make_model().predict(TEXTS[:2], ["books", domain], unknown_domain="error")


def test_no_domains_at_all_can_be_refused():
    with pytest.raises(DataError, match="A document has no domain"):
        make_model().predict(TEXTS, unknown_domain="error")


@pytest.mark.parametrize("written", ["BOOKS", " books", "Books  "])
def test_a_name_that_differs_by_case_or_blanks_is_taken_for_the_known_one(written: str):
    model = make_model()
    for unknown_domain in ("shared", "error"):
        with pytest.warns(
            MultidomainWarning,
            match=rf"Domain '{written}' is taken for 'books', which differs by case or blanks\.",
        ):
            p = model.predict_proba(TEXTS, [written] * 7, unknown_domain)  # type: ignore[arg-type]
        np.testing.assert_array_equal(p, model.predict_proba(TEXTS, ["books"] * 7))


def test_blanks_within_a_name_count_as_little_as_when_reading_a_corpus():
    """Reading refuses 'New  York' beside 'New York' as differing by blanks only."""
    model = make_model()
    with pytest.warns(MultidomainWarning, match="is taken for 'New York'"):
        p = model.predict_proba(TEXTS, ["new  york"] * 7)
    np.testing.assert_array_equal(p, model.predict_proba(TEXTS, ["New York"] * 7))


def test_names_that_are_no_text_are_read_as_in_training():
    """Corpora turn the number 3 into the domain '3' and NaN into none."""
    model = make_model()
    with pytest.warns(MultidomainWarning, match="Domain '3' was not in training"):
        p = model.predict_proba(TEXTS, [3] * 7)
    np.testing.assert_array_equal(p, model.predict_proba(TEXTS))
    np.testing.assert_array_equal(model.predict_proba(TEXTS, [float("nan")] * 7), p)


def test_each_document_needs_a_domain():
    with pytest.raises(DataError, match="Expected a domain for each of 7 documents, got 2"):
        make_model().predict(TEXTS, ["books", "books"])


def test_no_documents():
    model = make_model()
    assert model.predict_proba([]).shape == (0, 3)
    assert model.predict([], []).shape == (0,)


def test_vectors():
    model = make_model(weighting="raw", texts=False)
    x = csr_matrix(np.eye(6))
    assert model.predict_proba(x, ["books"] * 6).shape == (6, 3)
    with pytest.raises(DataError, match=r"expects 6 columns, got 5: the vocabulary does not match"):
        model.predict(csr_matrix(np.eye(5)))
    with pytest.raises(DataError, match="Expected vectors of 6 columns, as in training; got texts"):
        model.predict(TEXTS)


def test_a_domain_specific_model_refuses_what_it_does_not_know():
    model = make_model("mlp", category="domain-specific")
    assert model.shared_features(model.encode(TEXTS)) is None
    assert model.predict(TEXTS[:1], ["books"]).shape == (1,)
    with pytest.raises(DataError, match="A domain-specific model knows nothing about a domain"):
        model.predict(TEXTS)


def test_names():
    model = make_model()
    assert model.domains == ("books", "kitchen", "New York")
    assert model.labelled_domains == ("books", "New York")


# --- saving and loading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("man-nll", {}),
        ("man-l2", {"norm": "per-domain"}),
        ("sp", {"hidden": ()}),
        ("mlp", {}),
        ("mlp", {"category": "domain-specific"}),
    ],
)
@pytest.mark.parametrize("weighting", ["counts", "tfidf"])
def test_a_saved_model_predicts_identically(weighting: str, name: str, settings: dict[str, Any], tmp_path: Path):
    model = make_model(name, weighting, **settings)
    model.save(tmp_path / "new" / "model")
    assert is_model_folder(tmp_path / "new" / "model")
    loaded = Model.load(tmp_path / "new" / "model")
    domains = ["books" if domain is None else domain for domain in DOMAINS]
    assert_same_answers(loaded, model, TEXTS, domains)
    if settings.get("category") != "domain-specific":
        assert_same_answers(loaded, model)
        found, expected = loaded.shared_features(loaded.encode(TEXTS)), model.shared_features(model.encode(TEXTS))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert (loaded.method_name, loaded.classes, loaded.domains) == (name, model.classes, model.domains)
    assert loaded.method.settings == model.method.settings
    assert loaded.method.task == model.method.task
    assert not loaded.method.training
    for key, value in model.method.weights().items():
        np.testing.assert_array_equal(loaded.method.weights()[key], value, err_msg=key)
    assert all(parameter.requires_grad for parameter in loaded.method.parameters())


def test_a_saved_model_of_vectors_predicts_identically(tmp_path: Path):
    model = make_model(weighting="raw", texts=False)
    model.save(tmp_path)
    x = csr_matrix(np.random.default_rng(0).normal(size=(5, 6)))
    assert_same_answers(Model.load(tmp_path), model, x)


def test_a_loaded_model_can_be_saved_again_also_in_its_own_folder(tmp_path: Path):
    model = make_model(weighting="tfidf")
    model.save(tmp_path / "a")
    loaded = Model.load(tmp_path / "a")
    loaded.save(tmp_path / "b")
    loaded.save(tmp_path / "a")
    for folder in ("a", "b"):
        assert_same_answers(Model.load(tmp_path / folder), model)


def test_names_and_words_of_all_scripts_survive(tmp_path: Path):
    model = make_model()
    model.classes = ("schlecht", "mäßig", "良い")
    model.save(tmp_path)
    assert Model.load(tmp_path).classes == ("schlecht", "mäßig", "良い")


def test_a_new_model_replaces_the_old_one_and_its_files(tmp_path: Path):
    make_model().save(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    other = make_model("sp", "tfidf", seed=1)
    other.save(tmp_path)
    after = {path.name for path in tmp_path.iterdir()}
    assert len(before) == len(after) == 3
    assert before & after == {"model.json"}
    assert_same_answers(Model.load(tmp_path), other)


@pytest.mark.parametrize("kind", ["bags", None], ids=str)
def test_features_of_earlier_versions_are_read(kind: str | None, tmp_path: Path):
    """They were called bags, and before there were others, nothing."""
    model = make_model(weighting="tfidf")
    model.save(tmp_path)
    change_features(tmp_path, lambda settings: settings.update(kind=kind) if kind else settings.pop("kind"))
    assert_same_answers(Model.load(tmp_path), model)


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path):
    others = {"notes.json", "metrics.json", "features-wanted.json", "weights-of-mine.safetensors"}
    for name in others:
        (tmp_path / name).write_text("{}")
    make_model().save(tmp_path)
    make_model(seed=1).save(tmp_path)
    assert others <= {path.name for path in tmp_path.iterdir()}


class Crash(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.mark.parametrize("at", range(1, 6))
def test_a_save_that_stops_in_the_middle_leaves_the_old_model(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It stops before the file system would do the rename number `at`; there are five."""
    old, new = make_model(), make_model("man-l2", "tfidf", seed=1)
    old.save(tmp_path)
    rename = Path.replace
    renames = []

    def crashing(self: Path, target: Any) -> Any:
        renames.append(target)
        if len(renames) == at:
            raise Crash
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", crashing)
        with pytest.raises(Crash):
            new.save(tmp_path)
    assert_same_answers(Model.load(tmp_path), old)
    new.save(tmp_path)  # and then it goes through
    assert_same_answers(Model.load(tmp_path), new)
    assert len(list(tmp_path.iterdir())) == 3, "something was left behind"


def test_the_last_rename_is_that_of_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """So that the test above has tried all of them."""
    rename = Path.replace
    renames: list[str] = []

    def noted(self: Path, target: Any) -> Any:
        renames.append(Path(target).name)
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", noted)
    make_model().save(tmp_path)
    assert len(renames) == 5 and renames[-1] == "model.json"


def test_disk_full_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    old = make_model()
    old.save(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())

    def full(tensors: Any, path: Path) -> None:
        Path(path).write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage, "save_file", full)
    with pytest.raises(
        StorageError, match=r"No space left on the disk while writing .*What was there before is unchanged"
    ):
        make_model(seed=1).save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert_same_answers(Model.load(tmp_path), old)


# --- folders that cannot be used --------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    make_model(weighting="tfidf").save(tmp_path / "model")
    return tmp_path / "model"


def the(folder: Path, kind: str) -> Path:
    (path,) = folder.glob(f"{kind}-*")
    return path


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], Any], seal: bool = False) -> None:
    manifest = json.loads((folder / "model.json").read_text())
    checksum = manifest.pop("sha256")
    change(manifest)
    if seal:
        checksum = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (folder / "model.json").write_text(json.dumps({**manifest, "sha256": checksum}))


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))


def change_features(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the features and everything that would tell."""
    path = the(folder, "features")
    settings = json.loads(path.read_text())
    change(settings)
    path.write_text(json.dumps(settings))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    change_manifest(folder, lambda m: m["files"]["features"].update(sha256=digest), seal=True)


def test_no_folder(tmp_path: Path):
    with pytest.raises(ModelError, match=r"nowhere is not a model folder: it does not exist\."):
        Model.load(tmp_path / "nowhere")
    assert not is_model_folder(tmp_path / "nowhere")


def test_a_folder_with_something_else_in_it(tmp_path: Path):
    with pytest.raises(ModelError, match=r"is not a model folder: it holds no model\.json\."):
        Model.load(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b'{"format_version": 1, "mul', b"[1, 2]", b"{}", b"null", b"\xff\xfe\x00", b"7"]
)
def test_a_manifest_that_is_cut_short_or_damaged(content: bytes, saved: Path):
    (saved / "model.json").write_bytes(content)
    with pytest.raises(
        ModelError,
        match=r"model\.json (is cut short or damaged \(.+\)|cannot be used: .+)\. Copy the model again, or train it",
    ):
        Model.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["settings"].update(lam=0.5),
        lambda m: m["classes"].reverse(),
        lambda m: m["task"]["domains"].reverse(),
        lambda m: m.update(method="sp"),
        lambda m: m.update(something="new"),
    ],
    ids=["settings", "classes", "domains", "method", "new entry"],
)
def test_an_altered_manifest(change: Callable[[dict[str, Any]], Any], saved: Path):
    change_manifest(saved, change)
    with pytest.raises(ModelError, match=r"model\.json was altered after it was saved\. Copy the model again"):
        Model.load(saved)


@pytest.mark.parametrize("version", ["2", None, [1]])
def test_a_format_version_that_is_none(version: Any, saved: Path):
    change_manifest(saved, lambda m: m.update(format_version=version))
    with pytest.raises(ModelError, match=r"model\.json (was altered|is cut short or damaged)"):
        Model.load(saved)


def test_a_newer_format(saved: Path):
    newer = storage.FORMAT_VERSION + 1
    change_manifest(saved, lambda m: m.update(format_version=newer, multidomain="9.1"), seal=True)
    with pytest.raises(
        ModelError,
        match=rf"model.* has format version {newer}, written by multidomain 9\.1; this is multidomain .*, "
        rf"which reads up to {newer - 1}\. Upgrade multidomain\.",
    ):
        Model.load(saved)


def test_a_newer_format_that_is_sealed_otherwise_is_still_called_newer(saved: Path):
    """A later version may compute its checksum in another way."""
    change_manifest(saved, lambda m: m.update(format_version=99, multidomain="9.1"))
    with pytest.raises(ModelError, match=r"has format version 99, written by multidomain 9\.1"):
        Model.load(saved)


@pytest.mark.parametrize("kind", ["weights", "features"])
@pytest.mark.parametrize("damage", [cut, flip_a_byte, lambda path: path.write_bytes(b"")])
def test_files_that_are_cut_short_or_altered(damage: Callable[[Path], None], kind: str, saved: Path):
    damage(the(saved, kind))
    with pytest.raises(
        ModelError, match=rf"{kind}-\w+\.\w+ is cut short or was altered\. Copy the model again, or train"
    ):
        Model.load(saved)


@pytest.mark.parametrize("kind", ["weights", "features"])
def test_files_that_are_missing(kind: str, saved: Path):
    the(saved, kind).unlink()
    with pytest.raises(ModelError, match=rf"{kind}-\w+\.\w+ is missing, so the model is incomplete\."):
        Model.load(saved)


def test_the_files_of_two_models_do_not_mix(saved: Path, tmp_path: Path):
    """The weights of another model under this one's name."""
    make_model(weighting="tfidf", seed=1).save(tmp_path / "other")
    the(saved, "weights").write_bytes(the(tmp_path / "other", "weights").read_bytes())
    with pytest.raises(ModelError, match="is cut short or was altered"):
        Model.load(saved)


def test_a_vocabulary_that_does_not_fit_the_network(tmp_path: Path):
    """Everything is sealed as it should be, only it does not belong together."""
    model = make_model()
    model.features = NgramFeaturizer(max_features=5).fit(TEXTS)
    model.save(tmp_path)
    with pytest.raises(
        ModelError, match=r"The vocabulary of .* has 5 entries and its network reads 20: they do not belong"
    ):
        Model.load(tmp_path)


def test_features_that_contradict_themselves(saved: Path):
    change_features(saved, lambda settings: settings.update(n_inputs=7))
    with pytest.raises(ModelError, match="The saved features contradict themselves"):
        Model.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(method="from-the-future"),
        lambda m: m["settings"].update(gamma=0.5),
        lambda m: m["settings"].update(shared_size=7),
        lambda m: m["task"].update(n_classes=2),
    ],
    ids=["method", "setting", "size", "classes"],
)
def test_a_whole_manifest_that_this_version_cannot_build(change: Callable[[dict[str, Any]], Any], saved: Path):
    """For example of a later version whose file format is the same: an error of ours, no traceback."""
    change_manifest(saved, change, seal=True)
    with pytest.raises(MultidomainError, match=r"from-the-future|gamma|model"):
        Model.load(saved)


def test_a_model_can_be_loaded_while_others_are_saved_in_its_place(tmp_path: Path):
    models = [make_model(seed=seed) for seed in (0, 1)]
    expected = [model.predict_proba(TEXTS, DOMAINS) for model in models]
    models[0].save(tmp_path)
    ended = threading.Event()

    def save_by_turns() -> None:
        for number in itertools.count():
            models[number % 2].save(tmp_path)
            if ended.is_set():
                return

    saving = threading.Thread(target=save_by_turns)
    saving.start()
    try:
        for _ in range(150):
            p = Model.load(tmp_path).predict_proba(TEXTS, DOMAINS)
            assert any(np.allclose(p, of_model, rtol=1e-5, atol=1e-7) for of_model in expected)
    finally:
        ended.set()
        saving.join()
