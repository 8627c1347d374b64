"""What is fuzzed: each reader with a sound input, how it is damaged, and what is called with it."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from mutation import VALUES, mutated, mutated_tensors, mutated_tree

SAVED = Path(__file__).parents[2] / "compat" / "v0.1"
MODELS = ("sped", "man-nll", "fa-lr", "self-training", "cnn", "ensemble", "auto", "estimator")
ENCODINGS = ("cp1252", "utf-16", "utf-7", "unicode_escape", "shift_jis", "rot13", "utf-8-sig", "idna", "hz", "x\udcff")
TEXTS = ("a fine book", "", "it was poor, poor; \x1b[31m and \U0001f600 " * 5)


@dataclass(frozen=True)
class Target:
    """A reader.

    Attributes
    ----------
    make
        Writes a sound input into an empty folder.
    damage
        Damages it.
    read
        Reads the folder and uses what it read.
    command
        Arguments of the command line that reads it too.
    """

    make: Callable[[Path], None]
    damage: Callable[[Path, Random], None]
    read: Callable[[Path], None]
    command: Callable[[Path], list[str]]


def damage_one(folder: Path, random: Random) -> None:
    """Damage the bytes of one file; tables may get another encoding too."""
    path = random.choice(sorted(path for path in folder.iterdir() if path.is_file()))
    path.write_bytes(mutated(path.read_bytes(), random))
    if random.random() < 0.2:
        (folder / "encoding.txt").write_bytes(random.choice(ENCODINGS).encode("utf-8", "surrogateescape"))


def encoding_of(folder: Path) -> str:
    path = folder / "encoding.txt"
    return path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else "utf-8"


# Tables ---------------------------------------------------------------------------------------------------------------


def table(suffix: str, n: int = 12) -> bytes:
    words, classes = ("poor", "fine"), ("bad", "good")
    rows: list[dict[str, Any]] = [
        {"text": f"a {words[i % 2]} book, no. {i}", "label": classes[i % 2], "domain": "ab"[i % 3 // 2]}
        for i in range(n)
    ]
    rows[3] |= {"label": None, "text": 'said "no"\nand left'}
    if suffix == "jsonl":
        return "".join(json.dumps({**row, "more": [1, {"x": 2.5}]}) + "\n" for row in rows).encode()
    import polars as pl

    buffer = io.BytesIO()
    frame = pl.DataFrame({**{name: [row[name] for row in rows] for name in rows[0]}, "n": list(range(n))})
    if suffix == "parquet":
        frame.write_parquet(buffer, compression="uncompressed")
    else:
        frame.write_csv(buffer, separator="\t" if suffix == "tsv" else ",")
    return buffer.getvalue()


def read_table(folder: Path) -> None:
    from multidomain.data.checks import summarise
    from multidomain.data.readers.read import read_corpus

    path = next(path for path in sorted(folder.iterdir()) if path.stem == "table")
    corpus = read_corpus(path, encoding=encoding_of(folder), drop_empty=True)
    summarise(corpus)
    corpus.content_hash()


def table_target(suffix: str) -> Target:
    return Target(
        lambda folder: (folder / f"table.{suffix}").write_bytes(table(suffix)) and None,
        damage_one,
        read_table,
        lambda folder: ["inspect", str(folder / f"table.{suffix}"), "--encoding", encoding_of(folder)],
    )


def make_svmlight(folder: Path) -> None:
    for part in ("train", "test"):
        lines = [f"{i % 2} 0:{i}.5 {i + 3}:1 {i + 17}:2e-3 # row {i}" for i in range(8)]
        (folder / f"books_{part}.svmlight").write_text("\n".join(lines) + "\n")


def make_fdu(folder: Path) -> None:
    (folder / "books.task.train").write_text("".join(f"{i % 2}\ta book no. {i}\n" for i in range(210)))
    (folder / "books.task.test").write_text("".join(f"{i % 2}\tbook no. {i}\n" for i in range(5)))
    (folder / "books.task.unlabel").write_text("a book\nno book\n")


def read_folder(folder: Path) -> None:
    from multidomain.data.checks import summarise
    from multidomain.data.readers.read import read_corpus

    summarise(read_corpus(folder))


# Other files of users -------------------------------------------------------------------------------------------------


def make_vectors(folder: Path) -> None:
    import numpy as np

    from multidomain.features.word_vectors import WordVectors, write_vectors

    vectors = WordVectors(("good", "bad", "\u66f8"), np.arange(12, dtype=np.float32).reshape(3, 4) / 7)
    for name in ("vectors.txt", "vectors.bin"):
        write_vectors(vectors, folder / name)


def read_word_vectors(folder: Path) -> None:
    from multidomain.errors import MultidomainError
    from multidomain.features.word_vectors import read_vectors

    refused = []
    for name in ("vectors.txt", "vectors.bin"):
        try:
            read_vectors(folder / name).of(["good", "x"])
        except MultidomainError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def make_toml(folder: Path) -> None:
    (folder / "train.toml").write_bytes(
        b'data = "demo"\noutput = "runs/x"\nmethod = "man-nll"\nseed = 3\n\n'
        b"[settings]\nlam = 0.1\nhidden = [20, 10]\n\n[features.ngrams]\nmax_features = 100\nngram_range = [1, 2]\n\n"
        b'[reading]\ndrop_empty = true\n\n[split]\nunlabelled = ["shoes"]\n\n[training]\nmax_epochs = 3\n'
    )
    (folder / "own.toml").write_bytes(
        b'title = "x"\nprotocol = "five-fold"\n\n[[rows]]\ncategory = "shared"\nsystem = "LR"\nmethod = "lr"\n'
        b'extractor = "linear"\n\n[rows.settings]\ncategory = "shared"\n'
    )


def read_settings(folder: Path) -> None:
    from multidomain.errors import MultidomainError
    from multidomain.experiments.recipes import load_recipe
    from multidomain.runs.config import TrainConfig, read_config

    refused = []
    try:
        load_recipe(str(folder / "own.toml"))
    except MultidomainError as error:
        refused.append(error)
    TrainConfig.parse_all(read_config(folder / "train.toml"))
    if refused:
        raise refused[0]


def make_labels(folder: Path) -> None:
    (folder / "table.csv").write_bytes(table("csv"))
    (folder / "labels.csv").write_text('text,label,domain\n"a poor book, no. 0",bad,a\na new book,good,a\n')


def read_labels(folder: Path) -> None:
    from multidomain.data.labels_file import add_labels
    from multidomain.data.readers.read import read_corpus

    corpus = read_corpus(folder / "table.csv")
    add_labels(corpus, [folder / "labels.csv"], None, encoding=encoding_of(folder), drop_empty=True)


def damage_labels(folder: Path, random: Random) -> None:
    path = folder / "labels.csv"
    path.write_bytes(mutated(path.read_bytes(), random))


def make_records(folder: Path) -> None:
    record = {"table": "table1", "row": "LR", "seed": 1, "config": {"method": "lr"}, "test": {"books": 0.5}}
    (folder / "records.jsonl").write_text("".join(json.dumps({**record, "seed": i}) + "\n" for i in range(4)))


def read_the_records(folder: Path) -> None:
    from multidomain.experiments.records import is_of, read_records

    for record in read_records(folder / "records.jsonl"):
        is_of(record, {"row": "LR", "config": {}})


# Folders of models and runs -------------------------------------------------------------------------------------------


def make_model(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        shutil.copytree(SAVED / name, folder, dirs_exist_ok=True)

    return make


def damage_model(folder: Path, random: Random) -> None:
    """Damage one of the model's own files, and in most cases forge the checksums."""
    manifest = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    files = [manifest["files"]["weights"]["name"], manifest["files"]["features"]["name"], "model.json"]
    own = folder / "estimator.json"
    name = random.choice([*files, "model.json", *(["estimator.json"] * own.exists())])
    path = folder / name
    if random.random() < 0.15:
        path.write_bytes(mutated(path.read_bytes(), random))
        return
    if name == files[0]:
        path.write_bytes(mutated_tensors(path.read_bytes(), random))
    elif name == files[1]:
        path.write_text(json.dumps(mutated_tree(json.loads(path.read_text(encoding="utf-8")), random)))
    elif name == "model.json":
        outside = (str(folder.parent / "outside.txt"), f"{folder.parent / 'evil.py'}:Evil", "link")
        (folder / "link").symlink_to(folder.parent / "outside.txt")
        manifest = mutated_tree(manifest, random, VALUES + outside * 3)
    reseal(folder, manifest, own, damage_own=random if name == "estimator.json" else None)


def reseal(folder: Path, manifest: Any, own: Path, damage_own: Random | None) -> None:
    """Write the manifest, and the estimator's file, with checksums that are right."""
    if isinstance(manifest, dict):
        for entry in (manifest.get("files") or {}).values() if isinstance(manifest.get("files"), dict) else ():
            if isinstance(entry, dict) and isinstance(entry.get("name"), str) and "\0" not in entry["name"]:
                path = folder / entry["name"]
                if len(entry["name"]) < 200 and path.is_file():
                    entry["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    write_sealed(folder / "model.json", manifest)
    if own.exists():
        content = json.loads(own.read_text(encoding="utf-8"))
        content["model"] = hashlib.sha256((folder / "model.json").read_bytes()).hexdigest()
        write_sealed(own, mutated_tree(content, damage_own) if damage_own else content)


def write_sealed(path: Path, content: Any) -> None:
    if isinstance(content, dict):
        content = {name: value for name, value in content.items() if name != "sha256"}
        content["sha256"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(content), encoding="utf-8")


def read_model(folder: Path) -> None:
    from multidomain.model.model import Model

    if (folder / "estimator.json").exists():
        from multidomain.estimator import MultiDomainClassifier

        MultiDomainClassifier.load(folder).predict_proba(list(TEXTS))
        return
    model = Model.load(folder)
    for domain in (model.domains[0], "books", None):
        codes = model.resolve_domains([domain] * len(TEXTS), len(TEXTS)).codes
        assert model.probabilities(model.encode(list(TEXTS)), codes).shape == (len(TEXTS), len(model.classes))
    assert model.requirements is not None


@cache
def reviews() -> Any:
    from multidomain.data.readers.read import read_corpus

    return read_corpus(SAVED / "reviews.csv")


OF_RUN = (
    "metrics.json", "metrics.json", "choice.json", "seen.safetensors", "held_out.jsonl", "held_out.safetensors",
    "log.jsonl", "train.toml",
)  # fmt: skip


def damage_run(folder: Path, random: Random) -> None:
    """Damage one of the files that a run adds to its model."""
    path = folder / random.choice([name for name in OF_RUN if (folder / name).exists()])
    content = path.read_bytes()
    if path.suffix == ".safetensors":
        content = mutated_tensors(content, random)
    elif path.suffix == ".json" and random.random() < 0.8:
        content = json.dumps(mutated_tree(json.loads(content), random)).encode()
    elif path.suffix == ".jsonl" and random.random() < 0.6:
        lines = [json.loads(line) for line in content.splitlines()]
        content = "".join(json.dumps(line) + "\n" for line in mutated_tree(lines, random)).encode()
    else:
        content = mutated(content, random)
    path.write_bytes(content)


def read_run(folder: Path) -> None:
    from multidomain.errors import MultidomainError
    from multidomain.report.model.page import write_model_report
    from multidomain.runs.folder import RunFolder
    from multidomain.runs.label_files import earlier_labels, labels_by_domain

    run = RunFolder(folder)
    refused = []
    for read in (
        run.metrics,
        run.choice,
        run.seen,
        run.unlabelled_domains,
        run.test_scores,
        lambda: run.rows_to_score(reviews()),
        lambda: labels_by_domain(folder),
        lambda: earlier_labels(folder),
        lambda: write_model_report(folder),
    ):
        try:
            read()
        except MultidomainError as error:
            refused.append(error)
    if refused:
        raise refused[0]


# Checkpoints ----------------------------------------------------------------------------------------------------------


@cache
def network() -> Any:
    from multidomain.methods.registry import METHODS
    from multidomain.methods.task import Task

    entry = METHODS["man-nll"]
    settings = entry.settings({"hidden": [4], "shared_size": 3, "private_size": 2})
    method = entry.build(Task(5, 2, ("a", "b"), (0, 1)), settings)
    method.start_training()
    return method


@cache
def checkpoint_bytes() -> bytes:
    import tempfile

    from multidomain.training.checkpoint import Checkpoint

    epoch = {"epoch": 1, "log": {"J_C": 0.5}, "dev_accuracy": 0.5, "dev_accuracy_by_domain": {"a": 0.5}, "seconds": 1.0}
    position = {"epoch": 1, "history": [epoch], "drawn": [3, 4], "best_epoch": 1}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.safetensors"
        best = {name: value.clone() for name, value in network().state_dict().items()}
        Checkpoint(path, "f").save(network(), best, position)
        return path.read_bytes()


def damage_checkpoint(folder: Path, random: Random) -> None:
    import struct

    path = folder / "checkpoint.safetensors"
    content = path.read_bytes()
    if random.random() < 0.5:
        path.write_bytes(mutated_tensors(content, random))
        return
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    own = mutated_tree(json.loads(header["__metadata__"]["multidomain"]), random)
    header["__metadata__"]["multidomain"] = json.dumps(own)
    head = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + content[8 + size :])


def read_checkpoint(folder: Path) -> None:
    from multidomain.saved import validated
    from multidomain.training.checkpoint import Checkpoint
    from multidomain.training.loop import Position

    path = folder / "checkpoint.safetensors"
    restored = Checkpoint(path, "f").restore(network())
    assert restored is not None
    validated(restored[1], Position, path, "")


def nothing(folder: Path) -> list[str]:
    return []


TARGETS: dict[str, Target] = {
    **{suffix: table_target(suffix) for suffix in ("csv", "tsv", "jsonl", "parquet")},
    "svmlight": Target(make_svmlight, damage_one, read_folder, lambda folder: ["inspect", str(folder)]),
    "fdu": Target(make_fdu, damage_one, read_folder, lambda folder: ["inspect", str(folder)]),
    "vectors": Target(make_vectors, damage_one, read_word_vectors, nothing),
    "toml": Target(
        make_toml,
        damage_one,
        read_settings,
        lambda folder: ["train", "--dry-run", "--config", str(folder / "train.toml"), "-o", str(folder / "out")],
    ),
    "labels": Target(
        make_labels,
        damage_labels,
        read_labels,
        lambda folder: [
            "train", "--dry-run", str(folder / "table.csv"), "-o", str(folder / "out"), "--labels",
            str(folder / "labels.csv"),
        ],
    ),
    "records": Target(make_records, damage_one, read_the_records, nothing),
    "checkpoint": Target(
        lambda folder: (folder / "checkpoint.safetensors").write_bytes(checkpoint_bytes()) and None,
        damage_checkpoint,
        read_checkpoint,
        nothing,
    ),
    **{
        f"model-{name}": Target(
            make_model(name), damage_model, read_model, lambda folder: ["inspect", str(folder)]
        )
        for name in MODELS
    },
    **{
        f"run-{name}": Target(
            make_model(name),
            damage_run,
            read_run,
            lambda folder: ["evaluate", str(folder), str(SAVED / "reviews.csv")],
        )
        for name in ("auto", "man-nll", "cnn", "sped")
    },
}  # fmt: skip
