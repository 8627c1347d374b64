"""Marginalised denoising: features that reconstruct each word from the other words of a document."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import linalg
from scipy.sparse import csr_matrix

from multidomain import arrays
from multidomain.features.sparse_rows import row_blocks

_MORE = 50  # directions beyond those wanted, for the accuracy of the last
_ROUNDS = 3
_MOST_ROWS = 1 << 16  # of a dense matrix with a column for each direction
_PRODUCT_ROWS = 512


def undo_noise(S: np.ndarray, kept: np.ndarray, ridge: float, n_restored: int) -> np.ndarray:
    r"""Return the linear map that best reconstructs rows from which features were dropped at random.

    With the scatter matrix :math:`S = \sum_i h_i h_i^\top` of the rows and the probability :math:`q_j` that feature `j`
    is kept, the expectation over all corruptions has the closed form

    .. math::
        W = P Q^{-1}, \quad Q_{jk} = S_{jk} q_j q_k \;(j \ne k), \quad Q_{jj} = S_{jj} q_j + \eta, \quad
        P_{jk} = S_{jk} q_k.

    Returns the transpose of `W`, so that a row is restored by ``h @ result``, of the first `n_restored` features.

    References
    ----------
    M. Chen, Z. Xu, K. Q. Weinberger and F. Sha. Marginalized Denoising Autoencoders for Domain Adaptation. ICML 2012.
    """
    _check_finite(S.diagonal())
    Q = S * kept[:, None] * kept
    np.fill_diagonal(Q, S.diagonal() * kept + ridge)
    factor = linalg.cho_factor(Q, lower=True, overwrite_a=True, check_finite=False)
    # S and Q are symmetric, so the transpose of P Q^-1 solves Q W^T = P^T.
    return linalg.cho_solve(factor, S[:, :n_restored] * kept[:, None], overwrite_b=True, check_finite=False)


def denoising_projection(x: csr_matrix, noise: float, scale: np.ndarray, size: int, seed: int = 0) -> np.ndarray:
    r"""Return a matrix, shape (columns, size), that projects rows on the principal directions of the denoised rows.

    A row is restored from noise that drops each feature with probability `noise`, its features are multiplied by
    `scale`, and what is left is projected on the directions in which the restored rows differ most:
    :math:`x \mapsto x W^\top \mathrm{diag}(s) V`, with the leading right singular vectors `V` of all restored rows,
    found by randomised subspace iteration.

    Parameters
    ----------
    x
        The rows to learn from.
    scale
        Of each column.
    """
    restored = _Denoising(x, noise)
    s = scale.astype(np.float32)[:, None]
    n = len(s)
    size = min(size, n)
    V = _random_start(n, min(size + _MORE, n), seed)
    for _ in range(_ROUNDS):
        V, _ = linalg.qr(s * restored.transposed(restored.scatter(restored(s * V))), mode="economic", overwrite_a=True)
    inner = restored(s * V)
    _, within = linalg.eigh(restored.squared(inner))  # ascending
    return inner @ within[:, ::-1][:, :size]


def _check_finite(squares: np.ndarray) -> None:
    if not np.isfinite(squares).all():
        raise np.linalg.LinAlgError("the squares of the features are not finite.")


def _random_start(n: int, size: int, seed: int) -> np.ndarray:
    """Return normal numbers, shape (n, size), by Box and Muller's method, in blocks of 16.

    The last of the directions depend on the start, so it must stay: these are the numbers that torch's generator gives.
    """
    random = np.random.RandomState(seed)

    def normal(uniform: np.ndarray) -> np.ndarray:
        blocks = uniform.reshape(-1, 2, 8)
        radius, angle = np.sqrt(-2 * np.log(1 - blocks[:, 0])), np.float32(2 * np.pi) * blocks[:, 1]
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()

    def uniform(count: int) -> np.ndarray:
        bits = random.randint(0, 2**32, count, dtype=np.uint32) & 0xFFFFFF
        return bits.astype(np.float32) / np.float32(2**24)

    count = max(n * size, 16)
    numbers, whole = uniform(count), count // 16 * 16
    numbers[:whole] = normal(numbers[:whole])
    if whole < count:
        numbers[-16:] = normal(uniform(16))
    return numbers[: n * size].reshape(n, size)


class _Denoising:
    r"""The map :math:`W^\top = q Q^{-1} S` of uniform noise (see `undo_noise`), applied without being computed.

    All features are kept with the same probability `q`, so :math:`Q = q^2 S + D` with a diagonal `D`, and
    :math:`W^\top = q D^{-1} K` with the symmetric

    .. math:: K = X^\top (I + q^2 X D^{-1} X^\top)^{-1} X = (D - D Q^{-1} D) / q^2

    whose first form needs a matrix of rows by rows, and the second one of columns by columns: the smaller is taken.
    """

    def __init__(self, x: csr_matrix, noise: float):
        self._x = x.astype(np.float32)
        self._xT = self._x.T.tocsr()
        self._q = q = 1 - noise
        squares = np.asarray(self._x.multiply(self._x).sum(axis=0), dtype=np.float32).ravel()
        _check_finite(squares)
        ridge = 1e-5 * max(float(squares.mean()), 1e-30)
        self._D = (q * (1 - q) * squares + ridge)[:, None]
        self._by_rows = x.shape[0] < x.shape[1]
        if self._by_rows:
            weighted = self._x.multiply(1 / np.sqrt(self._D.T)).tocsr()
            square, diagonal = _product(weighted, weighted.T.tocsr()), np.ones(x.shape[0], dtype=np.float32)
        else:
            square, diagonal = _product(self._xT, self._x), self._D.ravel()
        square *= np.float32(q**2)
        np.fill_diagonal(square, square.diagonal() + diagonal)
        # Transposed, which is the same matrix: LAPACK would copy one whose rows are contiguous.
        self._factor = linalg.cho_factor(square.T, lower=True, overwrite_a=True, check_finite=False)

    def __call__(self, V: np.ndarray) -> np.ndarray:
        return self._q * self._K(V) / self._D

    def transposed(self, V: np.ndarray) -> np.ndarray:
        """Return W V."""
        return self._q * self._K(V / self._D)

    def scatter(self, V: np.ndarray) -> np.ndarray:
        """Return S V."""
        return sum(x.T @ (x @ V) for x in self._blocks())

    def squared(self, V: np.ndarray) -> np.ndarray:
        """Return V' S V."""
        return sum(rows.T @ rows for rows in (x @ V for x in self._blocks()))

    def _blocks(self) -> Iterator[csr_matrix]:
        """Yield the rows in blocks, whose products with dense matrices fit into memory."""
        return (block for _, block in row_blocks(self._x, _MOST_ROWS))

    def _K(self, V: np.ndarray) -> np.ndarray:
        if self._by_rows:
            return self._xT @ linalg.cho_solve(self._factor, self._x @ V, overwrite_b=True)
        return self._D * (V - linalg.cho_solve(self._factor, self._D * V, overwrite_b=True)) / self._q**2


def _product(x: csr_matrix, y: csr_matrix) -> np.ndarray:
    """Return a product that has few zeros: as a sparse matrix it exists for some rows at a time."""
    product = np.empty((x.shape[0], y.shape[1]), dtype=x.dtype)
    for rows in arrays.blocks(len(product), _PRODUCT_ROWS):
        (x[rows] @ y).toarray(out=product[rows])
    return product
