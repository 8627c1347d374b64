"""What networks with sparse inputs share: their optimisers, and one pass through the first layer in each step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from multidomain.errors import ConfigError, quoted
from multidomain.methods.adversarial.settings import ExtractorSettings
from multidomain.methods.base import FitContext
from multidomain.methods.data import TrainingData
from multidomain.methods.divergence import Divergence, not_finite
from multidomain.methods.gradient import GradientMethod
from multidomain.methods.history import History
from multidomain.methods.task import Task
from multidomain.nn import kernels
from multidomain.nn.adam import DenseAdam
from multidomain.nn.collectives import share_gradients
from multidomain.nn.encoders.optimiser import optimiser_of, rate_at, set_rates
from multidomain.nn.extractors.base import Extractor
from multidomain.nn.gradients import clip_dense, clip_gradients, gradient_of
from multidomain.nn.sparse import SparseBatch, SparseMatrix


class NetworkMethod(GradientMethod):
    """A method made of extractors and heads, trained by Adam.

    On a CPU the extractors' first layers have an optimiser of their own, which touches only the rows that a batch
    names (decision 10). A subclass may add further optimisers in `start_training`.

    Attributes
    ----------
    trunk
        A pretrained encoder that reads the rows before the extractors do, if there is one (decision 37).
    """

    settings: ExtractorSettings

    def __init__(self, task: Task, settings: ExtractorSettings):
        has = type(self).requirements(settings)
        settings, trunk = settings.with_trunk(has_shared=has.shared_features, has_private=has.private_features)
        super().__init__(task, settings)
        self.trunk = trunk
        if trunk is not None and trunk.encoder.config.vocabulary != task.n_inputs:
            read = trunk.encoder.config.vocabulary
            raise ConfigError(
                f"The encoder knows {read:,} subwords, and the features have {task.n_inputs:,}: they do not belong "
                "together."
            )

    def fit(self, data: TrainingData, context: FitContext) -> History:
        if self.trunk is None:
            return super().fit(data, context)
        texts = [data.labelled.x, data.dev.x]
        if type(self).requirements(self.settings).unlabelled_text:
            texts.append(data.text.x)
        self.trunk.remember(SparseMatrix(x, self.device) for x in texts)
        try:
            return super().fit(data, context)
        finally:
            self.trunk.forget()

    def read(self, x: SparseBatch, text: SparseBatch | None = None) -> tuple[Any, Any]:
        """Return labelled rows and text, if there is any, as extractors read them: the trunk reads both in one pass."""
        if self.trunk is None:
            return x, text
        if text is None:
            return self.trunk(x), None
        return self.trunk(x + text).split(len(x))

    def read_views(self, shared: SparseBatch, private: SparseBatch) -> tuple[Any, Any]:
        """Return two views of rows as extractors read them; where they are one, it is read once."""
        own, _ = self.read(shared)
        return own, own if private is shared else self.read(private)[0]

    @property
    def rows_at_a_time(self) -> int:
        return super().rows_at_a_time if self.trunk is None else 256

    @property
    def extractors(self) -> list[Extractor]:
        """Return the feature extractors."""
        return [module for module in self.children() if isinstance(module, Extractor)]

    def use_input_vectors(self, vectors: np.ndarray) -> None:
        """Let every copy of every extractor start from the same word vectors, shape (words, dimension)."""
        with torch.no_grad():
            for F in self.extractors:
                assert F.table is not None
                F.table.copy_(torch.as_tensor(vectors).to(F.table.dtype).repeat(F.copies, 1))

    def D_input(self, f_s: Tensor, x: SparseBatch) -> tuple[Tensor, Tensor | None]:
        """Return what D reads of mini-batches of several domains, and how much each row counts in its objective.

        Here these are the shared features, and None: all rows count alike. A method whose discriminator reads
        something else overrides this, and `D_input_size`.

        Parameters
        ----------
        f_s
            Shared features, shape (mini-batches, B, shared size).
        x
            The rows themselves, in the same order.

        Returns
        -------
        tuple
            Of shapes (mini-batches, B, size) and (mini-batches, B).
        """
        return f_s, None

    def D_input_size(self, shared_size: int) -> int:
        """Return the size of what D reads."""
        return shared_size

    def start_optimisers(self, lr: float, heads: Sequence[nn.Module]) -> None:
        """Make the optimisers of all extractors and of some heads, which `descend` uses."""
        modules = [*self.extractors, *heads]
        if self.trunk is not None:
            self.optimisers["main"] = optimiser_of(self.trunk, modules, lr)
            return
        parameters = [p for module in modules for p in module.parameters()]
        tables = []
        if kernels.run_on(parameters[0].device):  # elsewhere the first layer is updated as a whole
            from multidomain.nn.kernels.row_adam import RowAdam  # imported here: prediction must not load the compiler

            learning = [F for F in self.extractors if F.table is not None and F.table.requires_grad]
            tables = [F.table for F in learning if F.table is not None]
            if tables:
                rows = RowAdam(tables, lr=lr)
                for F in learning:
                    F.row_optimiser = rows
                self.optimisers["rows"] = rows
        others = [p for p in parameters if p.requires_grad and not any(p is table for table in tables)]
        self.optimisers["main"] = DenseAdam(others, lr=lr)

    def before_step(self, step: int, steps: int) -> None:
        if self.trunk is not None:
            set_rates(self.optimisers["main"], rate_at(step, steps, self.trunk.settings))

    def end_training(self) -> None:
        super().end_training()
        for F in self.extractors:
            F.row_optimiser = None

    def losses_at_chance(self) -> dict[str, float]:
        return {"J_C": len(self.task.labelled) * math.log(max(self.task.n_classes, 2))}

    def descend(self, loss: Tensor, names: Sequence[str] = ("rows", "main")) -> None:
        """Take one step down the gradient of a loss; by default of all that `start_optimisers` made."""
        for name in names:
            if name in self.optimisers:
                self.optimisers[name].zero_grad()
        loss.backward()
        self.take_step(names)

    def take_step(self, names: Sequence[str]) -> None:
        """Take one step down the gradients that are set, clipped if so set. Their norm is over all optimisers named."""
        optimisers = [self.optimisers[name] for name in names if name in self.optimisers]
        parameters = [p for one in optimisers for group in one.param_groups for p in group["params"]]
        share_gradients(parameters)
        if self.clip_norm is not None:
            self._clip(parameters, self.clip_norm)
        for optimiser in optimisers:
            optimiser.step()

    def _clip(self, parameters: Sequence[Tensor], clip_norm: float) -> None:
        if not kernels.run_on(self.device):  # a norm that is not finite soon shows in the losses
            clip_dense(parameters, clip_norm)
            return
        norm = clip_gradients(parameters, clip_norm)
        if math.isfinite(norm):
            return
        gradients = [
            (name, gradient_of(p)) for name, p in self.named_parameters() if any(p is one for one in parameters)
        ]
        bad = not_finite((name, gradient) for name, gradient in gradients if gradient is not None)
        of = f" of {quoted(bad, 4)}" if bad else ""  # none: their squares are too large for a float32
        raise Divergence(f"the gradient{of} is not finite")
