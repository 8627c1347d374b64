"""Marginalised denoising: features that reconstruct each word from the other words of a document."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

_MORE = 50  # directions beyond those wanted, for the accuracy of the last
_ROUNDS = 3


def undo_noise(S: Tensor, kept: Tensor, ridge: float, n_restored: int) -> Tensor:
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
    Q = S * kept[:, None] * kept
    Q.diagonal().copy_(S.diagonal() * kept + ridge)
    factor = torch.linalg.cholesky(Q)
    del Q  # the matrices are large
    # S and Q are symmetric, so the transpose of P Q^-1 solves Q W^T = P^T.
    return torch.cholesky_solve(S[:, :n_restored] * kept[:, None], factor)


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
    S = torch.from_numpy(np.asarray((x.T @ x).todense(), dtype=np.float32))
    n = len(S)
    ridge = 1e-5 * max(float(S.diagonal().mean()), 1e-30)
    restored = undo_noise(S, torch.full((n,), 1 - noise), ridge, n) * torch.from_numpy(scale.astype(np.float32))
    size = min(size, n)
    generator = torch.Generator().manual_seed(seed)
    V = torch.randn(n, min(size + _MORE, n), generator=generator)
    for _ in range(_ROUNDS):
        V, _ = torch.linalg.qr(restored.T @ (S @ (restored @ V)))
    inner = restored @ V
    _, within = torch.linalg.eigh(inner.T @ (S @ inner))  # ascending
    return (inner @ within.flip(1)[:, :size]).numpy()
