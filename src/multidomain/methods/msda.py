"""Marginalised stacked denoising autoencoders, then a linear support vector machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.sparse import csr_matrix

from multidomain.methods.base import ArraySpec, FitContext, Method, Requirements
from multidomain.methods.calibration import best_scale
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.denoising import undo_noise
from multidomain.methods.history import History
from multidomain.methods.registry import register
from multidomain.methods.selection import dev_rows, dev_score, fit_best
from multidomain.metrics import two_class_scores
from multidomain.settings import Searched, Settings

_BLOCK = 1024  # rows that are dense at a time
_C_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


class MSDASettings(Settings):
    """Settings; `C` of None is chosen on the dev set."""

    layers: Annotated[int, Searched("1..7")] = Field(5, ge=1, description="number of layers")
    noise: Annotated[float, Searched("0.3..0.9")] = Field(
        0.5, gt=0, lt=1, description="probability that noise drops a feature"
    )
    ridge: float = Field(1e-5, gt=0, description="regularisation of a layer")
    C: float | None = Field(None, gt=0, description="weight of the loss; by default chosen on the dev set")


@register(
    "msda",
    "denoising features learnt on all text, then a support vector machine",
    paper="Chen et al. 2012, Marginalized Denoising Autoencoders for Domain Adaptation",
)
class MSDA(Method):
    r"""Features that reconstruct all text from corrupted text, layer by layer; a linear SVM on all layers.

    A layer learns to undo noise that sets each feature to 0 with probability `p`. The expectation over all corruptions
    has a closed form: with the scatter matrix :math:`S = \sum_i \tilde h_i \tilde h_i^\top` of the layer's inputs,
    each with a constant 1 appended, and :math:`q = (1-p, \dots, 1-p, 1)`,

    .. math::
        W = P Q^{-1}, \quad Q_{jk} = S_{jk} q_j q_k \;(j \ne k), \quad Q_{jj} = S_{jj} q_j + \eta,
        \quad P_{jk} = S_{jk} q_k, \qquad h \leftarrow \tanh(W \tilde h)

    The classifier reads the input and all layers:
    :math:`\min_{w, b} \tfrac12 \|w\|^2 + C \sum_i \max(0, 1 - y_i (w \cdot h_i + b))`.

    Paper
    -----
    M. Chen, Z. Xu, K. Q. Weinberger and F. Sha. Marginalized Denoising Autoencoders for Domain Adaptation. ICML 2012.

    Symbols
    -------
    W : weights of a layer
    noise, layers : p, and how many layers
    ridge, C : eta, weight of the classifier's loss

    Departures
    ----------
    All features are reconstructed, not only the frequent ones. In float32: a layer takes 4 bytes for each pair of
    features, so 5,000 features need 100 MB a layer, in memory and in the saved model; while fitting, one layer of all
    text and all layers of the labelled rows are in memory. The support vector machine is solved on the products of the
    rows (libsvm); more than two classes are one against the rest.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> labels[2::4] = labels[3::4] = [None] * 12  # nobody has labelled the books
    >>> model = MultiDomainClassifier("msda", method_settings={"layers": 2}, random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype=object)
    """

    settings_type = MSDASettings
    settings: MSDASettings
    W: np.ndarray
    weight: np.ndarray
    bias: np.ndarray

    def arrays(self) -> dict[str, ArraySpec]:
        n, K, layers = self.task.n_inputs, self.task.n_classes, self.settings.layers
        own = {"W": (layers, n + 1, n), "weight": ((layers + 1) * n, K), "bias": (K,)}
        return super().arrays() | {name: ArraySpec(shape) for name, shape in own.items()}

    @classmethod
    def requirements(cls, settings: MSDASettings) -> Requirements:
        return Requirements(features={"weighting": "tfidf"}, unlabelled_text=True)

    def fit(self, data: TrainingData, context: FitContext) -> History:
        self._fit_layers(data.text.x)
        h, h_dev = self._all_layers(data.labelled.x), self._all_layers(data.dev.x)
        products = (h @ h.T).astype(np.float64)
        costs = _C_GRID if self.settings.C is None else [self.settings.C]
        (weight, bias), chosen = fit_best(
            [{"C": C} for C in costs],
            lambda values: self._support_vectors(products, h, data.labelled, values["C"]),
            lambda fitted: dev_score(h_dev @ fitted[0] + fitted[1], data.dev, context.metric),
            context,
            n_dev=dev_rows(data.dev, context.metric),
        )
        scale = best_scale(h_dev @ weight + bias, data.dev)
        self.weight, self.bias = (weight * scale).astype(np.float32), (bias * scale).astype(np.float32)
        return History(chosen=chosen)

    def _fit_layers(self, text: csr_matrix) -> None:
        h = [text[rows].toarray() for rows in _blocks(text.shape[0])]
        self.W = np.empty((self.settings.layers, self.task.n_inputs + 1, self.task.n_inputs), dtype=np.float32)
        for W in self.W:
            W[:] = denoising_weights(h, self.settings.noise, self.settings.ridge)
            h = [_layer(block, W) for block in h]

    def _all_layers(self, x: csr_matrix) -> np.ndarray:
        """The input and the outputs of all layers, shape (rows, (layers + 1) * columns)."""
        n = self.task.n_inputs
        out = np.empty((x.shape[0], (1 + len(self.W)) * n), dtype=np.float32)
        for rows in _blocks(x.shape[0]):
            h = out[rows, :n] = x[rows].toarray()
            for number, W in enumerate(self.W, start=1):
                h = out[rows, number * n : (number + 1) * n] = _layer(h, W)
        return out

    def _support_vectors(
        self, products: np.ndarray, h: np.ndarray, rows: Examples, C: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights (columns, classes) and bias of one class against the rest; two classes have scores -s/2 and s/2."""
        from sklearn.svm import SVC  # imported here: prediction must not load it

        n = self.task.n_classes
        weights, biases = [], []
        for y in [1] if n == 2 else range(n):
            machine = SVC(C=C, kernel="precomputed", cache_size=500)
            machine.fit(products, rows.y == y, sample_weight=rows.weight)
            weights.append((machine.dual_coef_[0] @ h[machine.support_]).astype(np.float64))
            biases.append(machine.intercept_[0])
        if n == 2:
            return two_class_scores(weights[0]), two_class_scores(biases[0])
        return np.stack(weights, axis=1), np.array(biases)

    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        return self._all_layers(x) @ self.weight + self.bias


def denoising_weights(blocks: Sequence[np.ndarray], noise: float, ridge: float) -> np.ndarray:
    """Return the weights of a layer, shape (columns + 1, columns), that undo noise in rows given by blocks."""
    n = blocks[0].shape[1]
    S = np.zeros((n + 1, n + 1), dtype=blocks[0].dtype)
    for block in blocks:
        with_one = _with_one(block)
        S += with_one.T @ with_one
    kept = np.full(n + 1, 1 - noise, dtype=S.dtype)
    kept[-1] = 1
    return undo_noise(S, kept, ridge, n)


def _layer(h: np.ndarray, W: np.ndarray) -> np.ndarray:
    return np.tanh(_with_one(h) @ W)


def _with_one(h: np.ndarray) -> np.ndarray:
    return np.c_[h, np.ones((len(h), 1), dtype=h.dtype)]


def _blocks(n_rows: int) -> list[slice]:
    return [slice(start, min(start + _BLOCK, n_rows)) for start in range(0, n_rows, _BLOCK)]
