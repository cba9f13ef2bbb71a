"""The posterior of a block of targets, as arrays that a file can keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lbnn._base.arrays import to_numpy
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.bands.direction_sums import ROUNDING

#: Matrices of a posterior that are sparse, and the arrays of which such a matrix consists.
SPARSE = "weights", "mean_weights", "error_weights"
_SPARSE_PARTS = "data", "indices", "indptr"


@dataclass(frozen=True)
class BlockPosterior:
    """The posterior of a block of V targets with K bands that are not zero, as NumPy.

    Attributes
    ----------
    log_directions : (J, K)
    weights : sparse (J, V)
        Probabilities of the directions, where they are not negligible: posterior means are averages with
        these weights, roughly if answers are interpolated between directions.
    mean_weights, error_weights : sparse (J, V)
        Of either sign. The posterior mean of a function of the direction is its sum with `mean_weights`, and
        the numerical error of that the sum of its differences from the mean with `error_weights`.
    direction_count : (V,)
        Directions that were computed for each target.
    log_evidence, log_evidence_error, noise_mean, effective_directions : (V,)
        In units of the targets.
    scale_mean, log_scale_mean, log_scale_deviation : (V, K)
        Of λ_k and log λ_k, for kernels of mean diagonal one.
    log_noise_mean, log_noise_deviation : (V,)
    share_mean, share_deviation, share_error : (V, K)
    share_places, share_distribution : (V, K, places)
        Distribution functions of the shares.
    dual_coefficients : (K, r, V) on the device of the data
        Coefficients of the kernels in the posterior mean.
    """

    log_directions: Array
    weights: sparse.csr_array
    mean_weights: sparse.csr_array
    error_weights: sparse.csr_array
    direction_count: IndexArray
    log_evidence: Array
    log_evidence_error: Array
    noise_mean: Array
    effective_directions: Array
    scale_mean: Array
    log_scale_mean: Array
    log_scale_deviation: Array
    log_noise_mean: Array
    log_noise_deviation: Array
    share_mean: Array
    share_deviation: Array
    share_error: Array
    share_places: Array
    share_distribution: Array
    dual_coefficients: AnyArray

    def ok(self, target_error: float) -> Mask:
        """Whether all stated errors are at most what was asked for, (V,)."""
        allowed = target_error * self.share_deviation + ROUNDING
        return (self.log_evidence_error <= target_error) & (self.share_error <= allowed).all(axis=1)

    def by_direction(self) -> Iterator[tuple[Array, IndexArray, Array]]:
        """Directions with weight: log θ (K,), their targets (v,), and the weights of three kinds (3, v).

        `weights`, `mean_weights` and `error_weights`, for all targets to which one of them is not negligible.
        """
        kinds = self.weights, self.mean_weights, self.error_weights
        for j, log_theta in enumerate(self.log_directions):
            rows = [row_of(matrix, j) for matrix in kinds]
            columns = np.unique(np.concatenate([each for each, _ in rows]))
            if len(columns):
                own = np.zeros((len(kinds), len(columns)))
                for weights, (some, values) in zip(own, rows, strict=True):
                    weights[np.searchsorted(columns, some)] = values
                yield log_theta, columns, own

    def arrays(self) -> dict[str, Array]:
        """All of it as NumPy arrays by name, for a file."""
        plain = {name: to_numpy(value) for name, value in vars(self).items() if name not in SPARSE}
        parts = {
            f"{name}.{part}": getattr(getattr(self, name), part) for name in SPARSE for part in _SPARSE_PARTS
        }
        return plain | parts

    @classmethod
    def of_arrays(cls, arrays: dict[str, Array]) -> BlockPosterior:
        """From arrays by name."""
        plain = {name: value for name, value in arrays.items() if "." not in name}
        shape = len(arrays["log_directions"]), len(arrays["log_evidence"])
        matrices = {
            name: sparse.csr_array(tuple(arrays[f"{name}.{part}"] for part in _SPARSE_PARTS), shape=shape)
            for name in SPARSE
        }
        return cls(**matrices, **plain)  # type: ignore[arg-type]


def row_of(matrix: sparse.csr_array, number: int) -> tuple[IndexArray, Array]:
    """Columns (v,) and values (v,) of one row of a sparse matrix."""
    row = slice(matrix.indptr[number], matrix.indptr[number + 1])
    return matrix.indices[row].astype(np.int64), matrix.data[row]
