"""Does the fast engine, or a smaller private extractor, cost accuracy? Amazon, fold 0, the same protocol for each.

Trains MAN-NLL with the engine, with the textbook's Algorithm 1, and with private extractors of rank 16, which is what
makes hundreds of domains affordable. Appends one JSON record a run to ``results/engine_accuracy.jsonl``; runs that have
a record are not repeated. The textbook needs some ten minutes a seed.

    python benchmarks/engine_accuracy.py --seeds 1 2 3
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

from multidomain.bench.textbook import TextbookMAN
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import kfold_split
from multidomain.evaluation.evaluate import evaluate_corpus
from multidomain.experiments.records import append_record, is_of, read_records
from multidomain.methods.adversarial.man import MAN
from multidomain.methods.gradient import Stream
from multidomain.methods.registry import MethodEntry
from multidomain.runs.machine import machine
from multidomain.threads import use_threads
from multidomain.training.sampling import DomainStream
from multidomain.training.settings import RunSettings, TrainingSettings
from multidomain.training.train import train_model

RESULTS = Path(__file__).parents[1] / "results" / "engine_accuracy.jsonl"
VARIANTS = {
    "engine": {},
    "engine, private extractors of rank 16": {"private_hidden": (16,)},
    "textbook": {},
}


class DenseBatches:
    """The mini-batches of a stream, one dense matrix for each domain."""

    def __init__(self, stream: DomainStream, n_inputs: int, n_domains: int):
        self._stream, self._n_inputs, self._n_domains = stream, n_inputs, n_domains

    def sample(self) -> list[tuple[Tensor, Tensor | None]]:
        batch = self._stream.sample()
        dense = torch.zeros(len(batch.x), self._n_inputs)
        dense[batch.x.row_of_value, batch.x.index] = batch.x.value
        labels = [None] * self._n_domains if batch.y is None else list(batch.y)
        return list(zip(dense.chunk(self._n_domains), labels, strict=True))


class TextbookMethod(MAN):
    """MAN trained by the textbook's loop; its own weights are filled in when they are needed."""

    def start_training(self) -> None:
        self._book = TextbookMAN(self)

    def step(self, X: Stream, U: Stream, epoch: int, i: int) -> dict[str, Tensor]:
        n, task = self.task.n_inputs, self.task
        self._book.step(DenseBatches(X, n, len(task.labelled)), DenseBatches(U, n, len(task.domains)))
        return {}

    def flush(self) -> None:
        self.load_state_dict(self._book.state_like(self))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", choices=VARIANTS)
    arguments = parser.parse_args()
    use_threads(1)
    corpus = load_corpus("amazon")
    split = kfold_split(corpus, 0)
    for seed in arguments.seeds:
        for name in [arguments.only] if arguments.only else VARIANTS:
            settings = RunSettings(
                method="man-nll", method_settings=VARIANTS[name], training=TrainingSettings(seed=seed)
            )
            identity = {"variant": name, "data": corpus.content_hash(), "config": settings.complete()}
            if any(is_of({**past, "config": past["settings"]}, identity) for past in read_records(RESULTS)):
                print(f"{name}, seed {seed}: has a record")
                continue
            began = time.monotonic()
            method = TextbookMethod if name == "textbook" else MAN
            with mock.patch.object(MethodEntry, "build", lambda _, task, chosen, method=method: method(task, chosen)):
                trained = train_model(corpus, split, settings)
            record = {"variant": name, "data": corpus.content_hash(), "settings": settings.complete()}
            record |= {"epochs": len(trained.history.epochs), "seconds": time.monotonic() - began}
            record["dev_accuracy"] = trained.history.epochs[trained.history.best_epoch - 1].dev_accuracy
            record["test_accuracy"] = evaluate_corpus(trained.model, corpus, split.test)[0].accuracy
            append_record(RESULTS, {**record, "machine": machine()})
            print(f"{name}, seed {seed}: test {record['test_accuracy']:.2%}, {record['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
