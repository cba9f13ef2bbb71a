"""The same density for samplers that use JAX, PyTorch or Stan.

All three run the network forward layer by layer from the inputs, unlike the NumPy density, which multiplies
the layers from the top: their agreement is a test of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lbnn.benchmark.density.weights import WeightDensity


@dataclass(frozen=True)
class DensityFunctions:
    """Log densities as functions of a flat vector z of the other library; both parts keep all constants."""

    log_prior: Callable[[Any], Any]
    log_likelihood: Callable[[Any], Any]
    log_density: Callable[[Any], Any]


def jax_density(density: WeightDensity) -> DensityFunctions:
    """Functions of one vector z (dimension,), to be mapped, differentiated and compiled.

    They compute in the precision of JAX: `jax.config.update("jax_enable_x64", True)` for double.
    """
    try:
        import jax.numpy as jnp
    except ImportError as error:
        raise ImportError("task.jax() needs JAX: pip install 'jax<0.10'") from error
    X, Y = jnp.asarray(density.X), jnp.asarray(density.Y)
    return _forward(density, X, Y, jnp.eye(max(density.views, 1)), lambda z, a, b: z[a:b])


def torch_density(density: WeightDensity) -> DensityFunctions:
    """Functions of z (..., dimension) of float64; autograd differentiates them."""
    try:
        import torch
    except ImportError as error:
        raise ImportError("task.torch() needs PyTorch: pip install torch") from error
    X, Y = torch.from_numpy(density.X), torch.from_numpy(density.Y)
    eye = torch.eye(max(density.views, 1), dtype=X.dtype)
    return _forward(density, X, Y, eye, lambda z, a, b: z[..., a:b])


def _forward(
    density: WeightDensity, X: Any, Y: Any, eye: Any, part: Callable[[Any, int, int], Any]
) -> DensityFunctions:
    """Written once in what the two libraries share: slices, reshape, products, sums; eye (M, M)."""
    starts, views = [0, *density.ends[:-1]], density.views
    layers = list(zip(starts, density.ends, density.shapes, density.deviations, strict=True))

    def log_prior(z: Any) -> Any:
        return -0.5 * (z**2).sum(-1) - 0.5 * density.dimension * math.log(2 * math.pi)

    def log_likelihood(z: Any) -> Any:
        features = X
        for start, end, shape, deviation in layers:
            weight = deviation * part(z, start, end).reshape(*z.shape[:-1], *shape)
            features = features @ weight.swapaxes(-1, -2)
        if views:  # Σ_m of output m at view m
            own = features.reshape(*features.shape[:-2], -1, views, views)
            features = (own * eye).sum((-2, -1))[..., None]
        squares = ((features - Y) ** 2).sum((-2, -1))
        return density.log_normaliser - 0.5 * squares / density.noise**2

    return DensityFunctions(log_prior, log_likelihood, lambda z: log_prior(z) + log_likelihood(z))


STAN_PROGRAM = """\
// A deep linear Bayesian network; z holds W_1, ..., W_d row by row in units of their prior deviations.
functions {
  matrix forward(matrix features, vector z, array[] int sizes, vector deviations, int layer, int start);
  matrix forward(matrix features, vector z, array[] int sizes, vector deviations, int layer, int start) {
    if (layer > num_elements(deviations)) return features;
    int columns = sizes[layer];
    int rows = sizes[layer + 1];
    matrix[columns, rows] transposed
      = deviations[layer] * to_matrix(segment(z, start, rows * columns), columns, rows);
    return forward(features * transposed, z, sizes, deviations, layer + 1, start + rows * columns);
  }
  // With M views an example is M rows, and its target is the sum of output m at view m.
  matrix read_views(matrix outputs, int views) {
    if (views == 0) return outputs;
    int examples = rows(outputs) %/% views;
    matrix[examples, 1] sums;
    for (a in 1:examples) sums[a, 1] = trace(block(outputs, (a - 1) * views + 1, 1, views, views));
    return sums;
  }
}
data {
  int<lower=1> depth;
  array[depth + 1] int<lower=1> sizes;
  int<lower=1> examples;
  int<lower=0> views;
  matrix[examples * max(views, 1), sizes[1]] X;
  matrix[examples, views == 0 ? sizes[depth + 1] : 1] Y;
  vector<lower=0>[depth] deviations;
  real<lower=0> noise;
}
transformed data {
  int dimension = 0;
  for (layer in 1:depth) dimension += sizes[layer] * sizes[layer + 1];
}
parameters {
  vector[dimension] z;
}
model {
  target += std_normal_lpdf(z);
  target += normal_lpdf(
    to_vector(Y) | to_vector(read_views(forward(X, z, sizes, deviations, 1, 1), views)), noise);
}
"""


@dataclass(frozen=True)
class StanProgram:
    """A Stan program and its data; `log_prob` of the model is the log density with all constants."""

    code: str
    data: dict[str, Any]


def stan_program(density: WeightDensity) -> StanProgram:
    """One program for every task; the network is in the data."""
    sizes = [density.X.shape[1], *density.widths, density.channels]
    return StanProgram(
        STAN_PROGRAM,
        {
            "depth": len(density.shapes),
            "sizes": sizes,
            "examples": len(density.Y),
            "views": density.views,
            "X": density.X.tolist(),
            "Y": density.Y.tolist(),
            "deviations": list(density.deviations),
            "noise": density.noise,
        },
    )
