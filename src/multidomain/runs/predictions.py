"""Predictions for the held-out rows, kept beside the model for its report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.data.texts import Texts
from multidomain.errors import ModelError
from multidomain.files import whole_file
from multidomain.metrics import rows_of_each
from multidomain.model.model import Model
from multidomain.runs.scoring import Scored
from multidomain.saved import read_json_lines, read_tensors

ANSWERS = "held_out.jsonl"
FEATURES = "held_out.safetensors"

_ROWS_WITH_FEATURES = 2000  # as many as a plot can show
_COPY_AGAIN = "Copy the folder again, or train again."


class _Answer(BaseModel):
    """A line of the file of predictions."""

    model_config = ConfigDict(allow_inf_nan=False)

    part: Literal["dev", "test"]
    domain: str
    label: str | int | float | None
    probabilities: list[Annotated[float, Field(ge=0, le=1)]]
    text: str | None


@dataclass(frozen=True, eq=False)
class HeldOutPredictions:
    """Dev and test rows with the model's predictions.

    Attributes
    ----------
    parts, domains, texts, labels
        ``dev`` or ``test``, domain, text (None for a vector) and class (None if it is not known) of each row.
    probabilities
        Shape (rows, classes).
    featured
        Numbers of the rows whose features are kept.
    shared, private
        Their features, shape (featured, size), or None if the model has none. A private row is NaN where the domain has
        no private features.
    """

    parts: np.ndarray
    domains: np.ndarray
    texts: np.ndarray | Texts
    labels: np.ndarray
    probabilities: np.ndarray
    featured: np.ndarray
    shared: np.ndarray | None
    private: np.ndarray | None

    def __len__(self) -> int:
        return len(self.parts)

    @classmethod
    def of(cls, scored: Scored, corpus: Corpus, split: Split, seed: int = 0) -> HeldOutPredictions:
        """Return a model's predictions for the dev and test rows of a split."""
        rows = np.concatenate([split.dev, split.test])
        domains = corpus.domains[rows]
        featured = _spread(domains, _ROWS_WITH_FEATURES, seed)
        model, x = scored.trained.model, scored.trained.encoded[rows[featured]]
        return cls(
            parts=np.array(["dev"] * len(split.dev) + ["test"] * len(split.test), dtype=object),
            domains=domains,
            texts=corpus.documents[rows] if corpus.is_text else np.full(len(rows), None),
            labels=corpus.labels[rows],
            probabilities=np.concatenate([scored.dev, scored.test]),
            featured=featured,
            shared=model.shared_features(x) if len(featured) else None,
            private=_private_features(model, x, domains[featured]),
        )

    def save(self, folder: Path) -> None:
        """Write the predictions as readable JSON lines, and the features as safetensors."""
        columns = zip(self.parts, self.domains, self.labels, self.probabilities, self.texts, strict=True)
        with whole_file(folder / ANSWERS) as temporary, temporary.open("w", encoding="utf-8") as file:
            for part, domain, label, probabilities, text in columns:
                answers = [round(float(p), 9) for p in probabilities]
                line = {"part": part, "domain": domain, "label": label, "probabilities": answers, "text": text}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        arrays = {"featured": self.featured, "shared": self.shared, "private": self.private}
        with whole_file(folder / FEATURES) as temporary:
            save_file({name: np.ascontiguousarray(a) for name, a in arrays.items() if a is not None}, temporary)

    @classmethod
    def load(cls, folder: Path) -> HeldOutPredictions:
        """Read what `save` wrote."""
        if not (folder / ANSWERS).exists() or not (folder / FEATURES).exists():
            raise ModelError(
                f"{folder} does not hold the predictions for its held-out rows ({ANSWERS}, {FEATURES}), which "
                "'multidomain train' writes there.",
                "Copy the whole folder, or train again.",
            )
        rows = read_json_lines(folder / ANSWERS, _Answer, _COPY_AGAIN)
        arrays, _ = read_tensors(folder / FEATURES, "numpy", _COPY_AGAIN)
        dimensions = {"featured": 1} | dict.fromkeys(arrays.keys() - {"featured"}, 2)
        are_even = len({len(row.probabilities) for row in rows}) <= 1
        if not are_even or {name: array.ndim for name, array in arrays.items()} != dimensions:
            raise ModelError(f"{folder / ANSWERS} and {FEATURES} contradict themselves.", _COPY_AGAIN)
        part, domain, text, label = (
            np.array([*(getattr(row, name) for row in rows), None], dtype=object)[:-1]
            for name in ("part", "domain", "text", "label")
        )
        return cls(
            part,
            domain,
            text,
            label,
            np.array([row.probabilities for row in rows]),
            arrays["featured"].astype(np.int64),
            arrays.get("shared"),
            arrays.get("private"),
        )


def _spread(domains: np.ndarray, wanted: int, seed: int) -> np.ndarray:
    """Sample rows at random, balanced over domains as far as possible."""
    of_domain = rows_of_each(domains)
    random = np.random.default_rng(seed)
    of_each = wanted // max(1, len(of_domain))
    chosen = [random.permutation(rows)[:of_each] for rows in of_domain.values()]
    return np.sort(np.concatenate([*chosen, np.empty(0, dtype=np.int64)])).astype(np.int64)


def _private_features(model: Model, x: csr_matrix, domains: np.ndarray) -> np.ndarray | None:
    private: np.ndarray | None = None
    for name, here in rows_of_each(domains).items():
        features = model.private_features(x[here], name)
        if features is not None:
            if private is None:
                private = np.full((len(domains), features.shape[1]), np.nan, dtype=np.float32)
            private[here] = features
    return private
