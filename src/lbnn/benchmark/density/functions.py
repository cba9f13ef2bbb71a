"""Functions of the weights that a posterior is judged by.

They do not change when hidden units are relabelled or rotated, see every layer and the size of the signal,
and their posterior means are known: exactly for one output.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.types import Array
from lbnn.benchmark.density.weights import WeightDensity


@dataclass(frozen=True, eq=False)
class Functions:
    """The functions of one task, in the order of `names`.

    With F̂ the outputs at the test points (with views their sums) and L = (W_d⋯W_2)(W_d⋯W_2)ᵀ:

    - ``F[i]``, ``F[i]²``: predictions and their squares (``F[i,j]`` with several outputs);
    - ``|W_ℓ|²``: squared norm of every layer;
    - ``log tr L``, and ``log det L`` where L has full rank and more than one entry;
    - ``tr K_ℓ``: trace of X W_1ᵀ⋯W_ℓᵀ W_ℓ⋯W_1 Xᵀ/n_ℓ for every hidden layer;
    - ``balance_ℓ``: log of gain_{ℓ+1}/gain_ℓ, gain_ℓ = |W_d⋯W_ℓ|²/|W_d⋯W_{ℓ+1}|², what a layer does to the
      signal;
    - ``log likelihood``, ``log joint``.
    """

    density: WeightDensity
    X_test: Array

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the functions."""
        depth, outputs = len(self.density.shapes), self.density.Y.shape[1]
        points = len(self.X_test) // max(self.density.views, 1)
        places = [f"F[{i}]" if outputs == 1 else f"F[{i},{j}]" for i in range(points) for j in range(outputs)]
        return (
            *places,
            *(f"{place}²" for place in places),
            *(f"|W_{layer}|²" for layer in range(1, depth + 1)),
            "log tr L",
            *(["log det L"] if self._has_determinant else []),
            *(f"tr K_{layer}" for layer in range(1, depth)),
            *(f"balance_{layer}" for layer in range(1, depth)),
            "log likelihood",
            "log joint",
        )

    def __call__(self, z: Array) -> Array:
        """Values at z (..., dimension), (..., functions)."""
        flat = np.asarray(z, float).reshape(-1, self.density.dimension)
        result = np.empty((len(flat), len(self.names)))
        for here in blocks(len(flat), 4 * self.density.dimension + 2 * self.density.X.size):
            result[here] = self._values(flat[here])
        return result.reshape(*np.shape(z)[:-1], len(self.names))

    @property
    def _has_determinant(self) -> bool:
        outputs = self.density.channels
        return outputs > 1 and min(self.density.widths) >= outputs

    def _values(self, z: Array) -> Array:
        density, weights = self.density, self.density.unflatten(z)
        tails = density.tails(weights)
        product = tails[-1] @ weights[0]
        predictions = density.predictions(product, self.X_test).swapaxes(1, 2).reshape(len(z), -1)
        norms = np.stack([(weight**2).sum((1, 2)) for weight in weights], axis=1)
        paths = np.stack([(tail**2).sum((1, 2)) for tail in (*tails, product)], axis=1)  # |W_d⋯W_ℓ|²
        gains = np.diff(np.log(paths), axis=1)[:, ::-1]  # of layers 1, ..., d
        log_likelihood = density.log_likelihood(z)
        scale = [np.log(paths[:, -2])]
        if self._has_determinant:
            scale.append(np.linalg.slogdet(tails[-1] @ tails[-1].swapaxes(1, 2))[1])
        return np.column_stack(
            [
                predictions,
                predictions**2,
                norms,
                *scale,
                self._kernel_traces(weights),
                np.diff(gains, axis=1),
                log_likelihood,
                log_likelihood + density.log_prior(z),
            ]
        )

    def _kernel_traces(self, weights: list[Array]) -> Array:
        """tr K_ℓ of every hidden layer, (draws, d − 1); from the smaller of X and a root of XᵀX."""
        features: Array = self._root
        traces = []
        for weight in weights[:-1]:
            features = features @ weight.swapaxes(1, 2)
            traces.append((features**2).sum((1, 2)) / weight.shape[1])
        return np.stack(traces, axis=1)

    @cached_property
    def _root(self) -> Array:
        """R with RᵀR = XᵀX and as few rows as can be."""
        X = self.density.X
        return np.asarray(np.linalg.qr(X, mode="r")) if len(X) > X.shape[1] else X
