"""The Multinomial Adversarial Network and, with parts switched off, its ablations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from multidomain.methods.adversarial.class_priors import prior_ratios
from multidomain.methods.adversarial.network import NetworkMethod
from multidomain.methods.adversarial.settings import ExtractorSettings, Widths
from multidomain.methods.base import FitContext, Requirements, check_labels_everywhere, unseen_domain_error
from multidomain.methods.data import TrainingData
from multidomain.methods.gradient import Stream
from multidomain.methods.history import History
from multidomain.methods.priors.settings import ClassPriors, described, resolved_priors
from multidomain.methods.registry import register
from multidomain.methods.task import Task
from multidomain.nn.adam import DenseAdam
from multidomain.nn.collectives import mean_over_processes
from multidomain.nn.heads import Head
from multidomain.nn.kernels.head_gradient import set_gradients
from multidomain.nn.norm import Norm
from multidomain.nn.sparse import SparseBatch
from multidomain.objectives.domain import OBJECTIVES
from multidomain.objectives.label import J_C
from multidomain.settings import Searched

_PAPER = "Chen and Cardie 2018, Multinomial Adversarial Networks for Multi-Domain Text Classification"
_NO_ADVERSARY: dict[str, Any] = {"paper": _PAPER, "unused": ("D_norm", "lam", "lam_epochs", "k", "warm_up")}

WARM_UP_ITERATIONS = 25  # of the first epoch
WARM_UP_UPDATES = 100  # of D, in place of k


class MANSettings(ExtractorSettings):
    """Sizes and hyperparameters; the defaults are those of the paper's appendix."""

    category: Literal["shared-private", "shared", "domain-specific"] = Field(
        "shared-private", description="which features there are: shared-private, shared or domain-specific"
    )
    adversary: Literal["nll", "l2"] | None = Field("nll", description="loss of the adversary, if there is one")
    private_hidden: Widths | None = Field(None, description="widths of F_d's hidden layers; by default as 'hidden'")
    shared_size: int = Field(128, ge=1, description="number of shared features")
    private_size: int = Field(64, ge=1, description="number of private features")
    norm: Norm = Field(
        "all-domains", description="rows that C and D normalise together: all-domains, per-domain or none"
    )
    D_norm: Norm | None = Field(None, description="the same for D; by default as 'norm'")
    lam: Annotated[float, Searched("0.001..1:log")] = Field(0.05, ge=0, description="weight of the adversary")
    lam_epochs: int = Field(0, ge=0, description="epochs over which the weight grows from 0; 0: constant")
    k: int = Field(5, ge=1, description="steps of D per step of the rest")
    lr: Annotated[float, Searched("1e-5..1e-2:log")] = Field(1e-4, gt=0, description="learning rate")
    warm_up: bool = Field(False, description="more steps of D at the start of training and of each epoch")
    class_priors: ClassPriors | None = Field(
        None,
        description="class priors of domains without labels: estimate, labelled, or given; the adversary then compares "
        "domains under one class prior, and predictions are aligned. By default neither",
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.adversary and self.category == "domain-specific":
            raise ValueError("a domain-specific model has no shared features for an adversary")
        if self.class_priors is not None and self.extractor_entry.extractor.featurizer != "ngrams":
            raise ValueError(f"class priors are estimated from n-grams, which '{self.extractor}' does not read")
        return self

    @property
    def has_shared(self) -> bool:
        """Tell whether there are shared features."""
        return self.category != "domain-specific"

    @property
    def has_private(self) -> bool:
        """Tell whether there are private features."""
        return self.category != "shared"

    def lam_in(self, epoch: int) -> float:
        """Return the weight of the adversary in an epoch, counted from 0."""
        return self.lam * min(epoch / self.lam_epochs, 1.0) if self.lam_epochs else self.lam

    def of_private(self) -> Self:
        """Return the settings of the private extractors."""
        return self if self.private_hidden is None else self.model_copy(update={"hidden": self.private_hidden})


@register(
    "man-nll",
    "shared and private features, an adversary with the NLL loss",
    paper=_PAPER,
    fixed={"adversary": "nll"},
)
@register(
    "man-l2",
    "shared and private features, an adversary with the least-squares loss",
    paper=_PAPER,
    fixed={"adversary": "l2"},
)
@register(
    "sp",
    "shared and private features, no adversary",
    fixed={"adversary": None, "category": "shared-private"},
    **_NO_ADVERSARY,
)
@register(
    "mlp",
    "one network for all domains (category 'shared') or one for each ('domain-specific')",
    fixed={"adversary": None},
    defaults={"category": "shared"},
    **_NO_ADVERSARY,
)
@register(
    "cnn",
    "one convolutional network for each domain (category 'domain-specific') or one for all ('shared')",
    fixed={"adversary": None, "extractor": "cnn"},
    defaults={"category": "domain-specific"},
    **_NO_ADVERSARY,
)
@register(
    "bilstm",
    "one recurrent network for each domain (category 'domain-specific') or one for all ('shared')",
    fixed={"adversary": None, "extractor": "bilstm"},
    defaults={"category": "domain-specific"},
    **_NO_ADVERSARY,
)
class MAN(NetworkMethod):
    """Multinomial Adversarial Network for multi-domain text classification.

    A shared extractor and one for each labelled domain feed a classifier; a discriminator over all
    domains reads the shared features, and the shared extractor learns to confuse it.

    Paper
    -----
    X. Chen and C. Cardie. Multinomial Adversarial Networks for Multi-Domain Text Classification.
    NAACL 2018. Algorithm 1.

    Symbols
    -------
    F_s, F_d : shared extractor, private extractors (one copy for each domain in Delta_L)
    C, D : classifier of [f_s, f_d], discriminator of f_s over the N domains
    J_C, J_D, J_Fs : their objectives
    lam, k : weight of J_Fs, updates of D in each iteration

    Departures
    ----------
    ``class_priors`` is not in the paper: rows count in J_D and J_Fs as much as brings every domain to the class prior
    of the labelled rows (see `prior_ratios`), by the classes that C predicts. Nor is ``lam_epochs``.
    Batch norm in C and D takes its statistics over all domains' mini-batches together (``norm``), since
    within one domain's it blinds D. F_s runs once for all k updates of D, during which it does not change. On a
    pretrained encoder with k = 1, D is updated on the text that F_s is then updated on, which the encoder reads once.
    ``warm_up`` is in the authors' code and not in the paper: 100 updates of D in place of k in the first
    25 iterations and at the start of each epoch.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> model = MultiDomainClassifier("man-nll", lr=0.01, hidden=(16,), max_epochs=12, random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype='<U4')
    """

    settings_type = MANSettings
    settings: MANSettings

    def __init__(self, task: Task, settings: MANSettings):
        super().__init__(task, settings)
        s, N, N_1 = self.settings, len(task.domains), len(task.labelled)
        if not s.has_shared:
            check_labels_everywhere(task)
        self.F_s = s.of_shared().make(1, task.n_inputs, s.shared_size) if s.has_shared else None
        self.F_d = s.of_private().make(N_1, task.n_inputs, s.private_size) if s.has_private else None
        size = s.shared_size * s.has_shared + s.private_size * s.has_private
        self.C = Head(size, task.n_classes, s.dropout, s.norm)
        # With a single domain there is nothing to adapt: D would have one class.
        has_adversary = s.adversary and N > 1
        self.D = Head(self.D_input_size(s.shared_size), N, s.dropout, s.D_norm or s.norm) if has_adversary else None
        self.prior_ratio: Tensor | None = None  # in D's objectives, shape (domains, classes); None: all 1
        if s.adversary:
            objective = OBJECTIVES[s.adversary]
            self.J_D, self.J_Fs, self.J_D_gradient = objective.J_D, objective.J_Fs, objective.J_D_gradient

    @classmethod
    def requirements(cls, settings: MANSettings) -> Requirements:
        has_adversary = settings.adversary is not None
        return settings.requirements(
            shared=settings.has_shared,
            private=settings.has_private,
            unlabelled_text=has_adversary or settings.class_priors is not None,
        )

    def fit(self, data: TrainingData, context: FitContext) -> History:
        how = self.settings.class_priors
        if how is None:
            return super().fit(data, context)
        priors = resolved_priors(how, data, data.text_without_labels)
        self.prior_ratio = prior_ratios(data, priors).to(self.device)
        history = super().fit(data, context)
        return replace(history, class_priors=described(priors, how, data))

    def start_training(self) -> None:
        self.start_optimisers(self.settings.lr, [self.C])
        if self.D is not None:
            self.optimisers["D"] = DenseAdam(self.D.parameters(), lr=self.settings.lr)

    def step(self, X: Stream, U: Stream, epoch: int, i: int) -> dict[str, Tensor]:
        log: dict[str, Tensor] = {}
        updates = self._updates_of_D(epoch, i)
        in_one_pass = self.trunk is not None and updates == 1
        if self.D is not None and not in_one_pass:  # lines 2-9
            log |= self._update_D(U, updates)

        batch = X.sample()  # line 12
        assert batch.y is not None
        x, text = self.read(batch.x, None if self.D is None else U.sample().x)  # line 18
        f_s, f_s_of_text = self._shared(x, text)  # lines 13 and 19
        if self.D is not None and in_one_pass:  # lines 2-9 on the text of line 18, which is read once for both
            log |= self._descend_D(f_s_of_text.detach(), text, 1)
        loss = J_C(self.C(self._with_private(f_s, x)), batch.y, batch.weight)  # lines 14-15
        log["J_C"] = loss.detach()
        if self.D is not None and text is not None:  # line 20
            with self.D.frozen():
                read, weight = self.D_input(f_s_of_text, text)
                j_Fs = self.J_Fs(self.D(read), weight)
            loss = loss + self.settings.lam_in(epoch) * j_Fs
            log["J_Fs"] = j_Fs.detach()
        self.descend(loss)  # line 21
        return log

    def _update_D(self, U: Stream, updates: int) -> dict[str, Tensor]:
        N = len(self.task.domains)
        with torch.no_grad():  # F_s does not change during the updates of D: one pass serves them all
            x, _ = self.read(U.sample(updates).x)
            return self._descend_D(self._f_s(x, updates * N), x, updates)

    def _descend_D(self, f_s: Tensor, x: Any, updates: int) -> dict[str, Tensor]:
        """Update D on the shared features of mini-batches of all domains, as many of each as there are updates."""
        assert self.D is not None
        N = len(self.task.domains)
        with torch.no_grad():
            read, weight = self.D_input(f_s, x)
            read = self.D.with_dropout(read)
        for u in range(updates):
            rows = slice(u * N, (u + 1) * N)
            counts = None if weight is None else weight[rows]
            logits = set_gradients(self.D, read[rows], partial(self.J_D_gradient, weight=counts))  # (N, B, N)
            self.take_step(["D"])
        correct = logits.argmax(-1) == torch.arange(N, device=logits.device)[:, None]
        exact = torch.float64 if correct.device.type == "cpu" else torch.float32  # not every device has doubles
        return {"J_D": self.J_D(logits, counts), "D_accuracy": correct.to(exact).mean()}

    def _updates_of_D(self, epoch: int, i: int) -> int:
        warming = self.settings.warm_up and (i == 0 or (epoch == 0 and i < WARM_UP_ITERATIONS))
        return WARM_UP_UPDATES if warming else self.settings.k

    def D_input(self, f_s: Tensor, x: Any) -> tuple[Tensor, Tensor | None]:
        return f_s, None if self.prior_ratio is None else self._row_weight(self._class_probabilities(f_s.detach(), x))

    def _row_weight(self, p: Tensor) -> Tensor | None:
        """Return how much rows count in D's objectives, given class probabilities of shape (mini-batches, B, K)."""
        if self.prior_ratio is None:
            return None
        weight = torch.einsum("tdbk,dk->tdb", p.unflatten(0, (-1, len(self.prior_ratio))), self.prior_ratio)
        return (weight / mean_over_processes(weight.mean(dim=-1, keepdim=True))).flatten(0, 1)

    def _class_probabilities(self, f_s: Tensor, x: Any) -> Tensor:
        """What C predicts for mini-batches of all domains, ordered by draw, then by domain."""
        with torch.no_grad(), self.C.frozen():
            parts = [f_s] if self.F_d is None else [f_s, self._private_features_of_text(x, f_s.shape[:2])]
            return self.C(torch.cat(parts, dim=-1)).softmax(dim=-1)

    def _private_features_of_text(self, x: Any, shape: torch.Size) -> Tensor:
        """Private features of mini-batches of all domains; zero where a domain has no labels."""
        assert self.F_d is not None
        (n_mini_batches, B), N = shape, len(self.task.domains)
        times = n_mini_batches // N
        blocks = [draw * N + d for d in self.task.labelled for draw in range(times)]
        own = self.F_d(x.blocks(blocks, B)).unflatten(1, (times, B))  # (labelled, times, B, size)
        f_d = own.new_zeros(times, N, B, own.shape[-1])
        labelled = torch.tensor(self.task.labelled).to(own.device)
        return f_d.index_copy_(1, labelled, own.transpose(0, 1)).flatten(0, 1)

    def _f_s(self, x: Any, mini_batches: int) -> Tensor:
        """Shared features of mini-batches: (mini_batches, B, shared_size)."""
        assert self.F_s is not None
        return self.F_s(x).view(mini_batches, -1, self.settings.shared_size)

    def _shared(self, x: Any, text: Any) -> tuple[Any, Any]:
        """Shared features of labelled mini-batches and, for the adversary, of text of all domains, in one pass."""
        if self.F_s is None:
            return None, None
        N_1, N = len(self.task.labelled), len(self.task.domains)
        if text is None:
            return self._f_s(x, N_1), None
        f_s = self._f_s(x + text, N_1 + N)
        return f_s[:N_1], f_s[N_1:]

    def _with_private(self, f_s: Tensor | None, x: Any) -> Tensor:
        """What C reads of mini-batches of all labelled domains: (N_1, B, size)."""
        parts = [] if f_s is None else [f_s]
        if self.F_d is not None:
            parts.append(self.F_d(x))
        return torch.cat(parts, dim=-1)

    def batch_logits(self, x: SparseBatch, d: int | None) -> Tensor:
        return self.batch_logits_of_views(x, x, d)

    def batch_logits_of_views(self, shared: SparseBatch, private: SparseBatch, d: int | None) -> Tensor:
        shared, private = self.read_views(shared, private)
        parts = []
        if self.F_s is not None:
            parts.append(self.F_s(shared))
        if self.F_d is not None:
            parts.append(self._private_or_zero(private, d, parts))
        return self.C(torch.cat(parts, dim=-1)).squeeze(0)

    def _private_or_zero(self, x: Any, d: int | None, parts: Sequence[Tensor]) -> Tensor:
        assert self.F_d is not None
        if d in self.task.labelled:
            return self.F_d(x, copy=self.task.labelled.index(d))
        if self.F_s is None:
            raise unseen_domain_error(self.task)
        return parts[0].new_zeros(1, len(x), self.settings.private_size)

    def batch_shared_features(self, x: SparseBatch) -> Tensor:
        assert self.F_s is not None
        return self.F_s(self.read(x)[0]).squeeze(0)

    def batch_private_features(self, x: SparseBatch, d: int) -> Tensor | None:
        if self.F_d is None or d not in self.task.labelled:
            return None
        return self.F_d(self.read(x)[0], copy=self.task.labelled.index(d)).squeeze(0)
