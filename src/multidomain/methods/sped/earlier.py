"""Weights as earlier versions have saved them: dense, a score for each class, temperatures multiplied in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from multidomain.methods.base import ArraySpec, check_arrays

_SPECS = {
    "weight": ArraySpec((None, None, None)),
    "denoised_weight": ArraySpec((None, None, None)),
    "views.place": ArraySpec((None,), np.int64),
    "views.projection": ArraySpec((None, None)),
}


def converted(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return weights under the present names and in the present shapes; raise a ValueError if that cannot be done."""
    rest = dict(weights)
    try:
        weight, denoised, bias = (rest.pop(name) for name in ("weight", "denoised_weight", "bias"))
        place, projection = rest.pop("views.place"), rest.pop("views.projection")
    except KeyError as error:
        raise ValueError(f"{error} is missing") from None
    found = {"weight": weight, "denoised_weight": denoised, "views.place": place, "views.projection": projection}
    check_arrays(found, _SPECS)
    if not len(weight) or not len(projection):
        raise ValueError("'weight' or 'views.projection' is empty")
    if bias.ndim == 1:  # from before domains had biases of their own
        bias = np.repeat(bias[None], len(weight), axis=0)
    if weight.shape[2] == 2:
        weight, denoised = (part[..., 1:] - part[..., :1] for part in (weight, denoised))
    own = weight[1:] - weight[:1]
    d, columns = np.nonzero(own.any(axis=2))
    known = np.flatnonzero(place < len(projection) - 1)
    if not known.size == len(projection) - 1 == len(set(place[known])) or place.min(initial=0) < 0:
        raise ValueError("'views.place' does not fit the projection")
    return {
        **rest,
        "linear.shared": np.ascontiguousarray(weight[0].T),
        "linear.private": np.ascontiguousarray(own[d, columns].T),
        "linear.columns": columns.astype(np.int32),
        "linear.starts": np.searchsorted(d, np.arange(len(weight))),
        "linear.denoised": np.ascontiguousarray(denoised.transpose(2, 0, 1)),
        "linear.scale": np.ones(len(weight), dtype=np.float32),
        "linear.bias": bias,
        "views.columns": known.astype(np.int32),
        "views.projection": projection[place[known]],
    }
