"""Every system by its name in the paper's tables, in lower case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from multidomain.errors import ConfigError, did_you_mean
from multidomain.features.ngrams import Weighting
from multidomain.methods.adversarial.asp_mtl import ASPMTL
from multidomain.methods.adversarial.dann import DANN
from multidomain.methods.adversarial.man import MAN
from multidomain.methods.adversarial.mdan import MDAN
from multidomain.methods.adversarial.network import NetworkMethod
from multidomain.methods.base import Method, Task
from multidomain.methods.ensemble import Ensemble
from multidomain.methods.linear.cmsc import CMSC
from multidomain.methods.linear.feature_augmentation import FeatureAugmentation
from multidomain.methods.linear.mtl_graph import MTLGraph
from multidomain.methods.linear.plain import Linear
from multidomain.methods.linear.rmtl import RMTL
from multidomain.methods.msda import MSDA
from multidomain.methods.self_training import SelfTraining
from multidomain.methods.sped.method import SPED
from multidomain.settings import Settings

_MAN = "Chen and Cardie 2018, Multinomial Adversarial Networks for Multi-Domain Text Classification"
_CMSC = "Wu and Huang 2015, Collaborative Multi-Domain Sentiment Classification"
_ASP = "Liu, Qiu and Huang 2017, Adversarial Multi-task Learning for Text Classification"
_FA = "Daumé III 2007, Frustratingly Easy Domain Adaptation"
_MDAN = "Zhao et al. 2018, Adversarial Multiple Source Domain Adaptation"


@dataclass(frozen=True)
class MethodEntry:
    """A method under its name.

    Attributes
    ----------
    fixed
        Settings that make this method what its name says; a user cannot change them.
    defaults
        Settings whose default differs from the class's.
    weighting, max_features, ngram_range
        What it reads of a document unless told otherwise; weighting None: each of its members decides.
    words
        What the words behind the features are needed for, if they are.
    unused
        Settings of the class that have no effect in this method.
    """

    name: str
    summary: str
    paper: str
    method: type[Method]
    uses_unlabelled_text: bool
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    weighting: Weighting | None = "counts"
    max_features: int = 5000
    ngram_range: tuple[int, int] = (1, 2)
    words: str = ""

    def settings(self, values: Mapping[str, Any]) -> Settings:
        """Check a user's settings, all at once, and add the defaults."""
        refused = dict.fromkeys(self.fixed, f"makes '{self.name}' what it is; choose another method.")
        refused |= dict.fromkeys(self.unused, f"has no effect in '{self.name}'; leave it out.")
        if not issubclass(self.method, NetworkMethod):
            others = MAN.settings_type.model_fields.keys() - Linear.settings_type.model_fields.keys()
            others -= self.method.settings_type.model_fields.keys()
            refused |= dict.fromkeys(others, f"is for networks, such as 'man-nll', and '{self.name}' is none.")
        return self.method.settings_type.parse(
            {**self.defaults, **values}, f"settings of method '{self.name}'", refused=refused, fixed=self.fixed
        )

    @property
    def labels(self) -> str:
        """Say where training needs labels."""
        own = " (in every domain if category=domain-specific)" if "category" in self._open_settings else ""
        return f"in at least one domain{own}"

    @property
    def _open_settings(self) -> set[str]:
        fields = set(self.method.settings_type.model_fields)
        return fields - set(self.fixed) - set(self.unused)

    def build(self, task: Task, settings: Settings) -> Method:
        """Make an untrained network."""
        return self.method(task, settings)


def _man(name: str, summary: str, **options: Any) -> MethodEntry:
    return MethodEntry(name, summary, _MAN, MAN, **options)


def _without_adversary(name: str, summary: str, **options: Any) -> MethodEntry:
    fixed = {"adversary": None, **options.pop("fixed", {})}
    unused = ("lam", "k", "warm_up")
    return _man(name, summary, uses_unlabelled_text=False, fixed=fixed, unused=unused, **options)


def _convex(name: str, summary: str, paper: str, method: type[Method], **options: Any) -> MethodEntry:
    options = {"uses_unlabelled_text": False, "weighting": "tfidf", **options}
    return MethodEntry(name, summary, paper, method, **options)


_LOSS_NAMES: dict[str, str] = {"ls": "least squares", "svm": "support vector machine", "lr": "logistic regression"}

METHODS: dict[str, MethodEntry] = {
    entry.name: entry
    for entry in (
        _convex(
            "sped",
            "shared and private weights of evidence-weighted and denoised words",
            "Wang and Manning 2012, Chen et al. 2012 and Daumé III 2007 put together; see its documentation",
            SPED,
            uses_unlabelled_text=True,
            max_features=500_000,
            ngram_range=(1, 3),
        ),
        _man(
            "man-nll",
            "shared and private features, an adversary with the NLL loss",
            uses_unlabelled_text=True,
            fixed={"adversary": "nll"},
        ),
        _man(
            "man-l2",
            "shared and private features, an adversary with the least-squares loss",
            uses_unlabelled_text=True,
            fixed={"adversary": "l2"},
        ),
        _without_adversary("sp", "shared and private features, no adversary", fixed={"category": "shared-private"}),
        _without_adversary(
            "mlp",
            "one network for all domains (category 'shared') or one for each ('domain-specific')",
            defaults={"category": "shared"},
        ),
        *(
            _without_adversary(
                extractor,
                f"one network for each domain (category 'domain-specific') or one for all ('shared'), {what}",
                fixed={"extractor": extractor},
                defaults={"category": "domain-specific"},
            )
            for extractor, what in (("cnn", "convolutional"), ("bilstm", "recurrent"))
        ),
        MethodEntry(
            "fs-mtl",
            "one recurrent network for all domains, an output layer for each",
            _ASP,
            ASPMTL,
            uses_unlabelled_text=False,
            fixed={"category": "shared"},
            defaults={"extractor": "lstm"},
            unused=("private_size", "lam", "gamma"),
        ),
        MethodEntry(
            "asp-mtl",
            "shared and private features kept orthogonal, an adversary, an output layer for each domain",
            _ASP,
            ASPMTL,
            uses_unlabelled_text=True,
            fixed={"category": "shared-private"},
            defaults={"extractor": "lstm"},
        ),
        MethodEntry(
            "dann",
            "shared features, an adversary that tells labelled domains from the others",
            "Ganin et al. 2016, Domain-Adversarial Training of Neural Networks",
            DANN,
            uses_unlabelled_text=True,
        ),
        MethodEntry(
            "mdan-hmax",
            "an adversary for each labelled domain; trains on the worst of them",
            _MDAN,
            MDAN,
            uses_unlabelled_text=True,
            fixed={"combine": "max"},
            unused=("gamma",),
        ),
        MethodEntry(
            "mdan-smax",
            "an adversary for each labelled domain; trains on all, most on the worst",
            _MDAN,
            MDAN,
            uses_unlabelled_text=True,
            fixed={"combine": "softmax"},
        ),
        MethodEntry(
            "msda",
            "features that undo noise in all text, then a support vector machine",
            "Chen et al. 2012, Marginalized Denoising Autoencoders for Domain Adaptation",
            MSDA,
            uses_unlabelled_text=True,
            weighting="tfidf",
        ),
        *(
            _convex(loss, f"{name}, one for all domains or one for each", _CMSC, Linear, fixed={"loss": loss})
            for loss, name in _LOSS_NAMES.items()
        ),
        _convex(
            "fa-lr",
            "logistic regression on features and a copy of them for each domain",
            _FA,
            FeatureAugmentation,
            fixed={"loss": "lr"},
        ),
        _convex(
            "fa-svm",
            "support vector machine on features and a copy of them for each domain",
            _FA,
            FeatureAugmentation,
            fixed={"loss": "svm"},
        ),
        _convex(
            "rmtl",
            "support vector machine, weights of all domains and a difference for each",
            "Evgeniou and Pontil 2004, Regularized Multi-Task Learning",
            RMTL,
        ),
        _convex(
            "mtl-graph",
            "weights of each domain, drawn towards those of the others",
            "Zhou et al. 2012, MALSAR: Multi-tAsk Learning via StructurAl Regularization",
            MTLGraph,
        ),
        *(
            _convex(
                f"cmsc-{loss}",
                f"{name}, global weights and a difference for each domain, alike in similar domains",
                _CMSC,
                CMSC,
                fixed={"loss": loss},
                uses_unlabelled_text=True,
                words="for a lexicon, if one is given",
            )
            for loss, name in _LOSS_NAMES.items()
        ),
        _convex(
            "self-training",
            "a method that is fitted at once (setting 'base') and learns from its own surest answers",
            "Yarowsky 1995, Unsupervised Word Sense Disambiguation Rivaling Supervised Methods",
            SelfTraining,
            uses_unlabelled_text=True,
        ),
        MethodEntry(
            "ensemble",
            "several methods or saved models (setting 'members') by the mean of their probabilities",
            "Hansen and Salamon 1990, Neural Network Ensembles",
            Ensemble,
            uses_unlabelled_text=True,
            weighting=None,
        ),
    )
}

RECOMMENDED = "sped"
"""The most accurate on development rows of all three protocols (decision 19), and so the default."""


def method_entry(name: str, also: Sequence[str] = ()) -> MethodEntry:
    """Look a method up; the error of an unknown name lists the near ones, and what `also` can be given in its place."""
    if name not in METHODS:
        raise ConfigError(f"There is no method '{name}'.{did_you_mean(name, [*also, *METHODS])}")
    return METHODS[name]
