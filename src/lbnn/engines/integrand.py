"""The integrand of every answer against the plain formula, at a few of its draws.

Two estimates that share no proposal still share the likelihood, and agree where it is wrong. So before an
answer is returned, the likelihood that the engine integrated is compared with `likelihood.plain` at the draw
of largest weight and at two others. A difference beyond rounding is an error of the library, never a message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lbnn._base.errors import LikelihoodMismatch
from lbnn._base.types import Array, IndexArray
from lbnn.likelihood.plain import PlainFormula

_MOST_DRAWS = 3
#: Operations that the comparison may take beyond its first draw: some 50 ms. One draw takes r n_d³ of them,
#: against thousands of draws of about 30 r n_d² each that were made for the answer: below 1% up to n_d = 100.
CHECKED_WORK = 5e7


@dataclass(frozen=True)
class IntegrandCheck:
    """Compares what was integrated with the plain likelihood of the data as they were given."""

    plain: PlainFormula

    def few(self, weights: Array) -> IndexArray:
        """The draw of largest weight (m,) and up to two others, at thirds of the total weight."""
        count = int(np.clip(CHECKED_WORK // (self.plain.operations + 1), 1, _MOST_DRAWS))
        others = np.searchsorted(np.cumsum(weights), np.arange(1, count) / _MOST_DRAWS * weights.sum())
        return np.unique(np.append(np.argmax(weights), np.minimum(others, len(weights) - 1)))

    def scales(self, scales: Array, log_values: Array, target_error: float) -> str:
        """Raise unless log p(Y | L) (k,) at scales (k, n_d, n_d) is what the plain formula gives.

        Returns what to say where rounding changes it by more than the target error, or an empty text.
        """
        self._compare(self.plain.log_value, scales, log_values)
        lost = max(self.plain.rounding(*each) for each in zip(scales, map(float, log_values), strict=True))
        if lost <= target_error:
            return ""
        size = f"by about {lost:.2g}" if np.isfinite(lost) else "by an unknown amount"
        return (
            f"rounding changes the log likelihood {size}: along some direction the signal is so much larger "
            "than the noise that digits of the others are lost; use inputs of similar size in all columns, "
            "fewer that repeat each other, or a smaller beta"
        )

    def kernels(self, kernels: Array, log_values: Array) -> None:
        """The same for log p(Y | Λ) at hidden kernels (k, r, r)."""
        self._compare(self.plain.log_kernel_value, kernels, log_values)

    @staticmethod
    def _compare(formula: Callable[[Array], tuple[float, float]], matrices: Array, log_values: Array) -> None:
        """Raise unless log values (k,) at matrices (k, n, n) are those of a formula."""
        for matrix, found in zip(matrices, log_values, strict=True):
            expected, bound = formula(matrix)
            if np.isnan(expected):  # a covariance that is singular to rounding tells nothing
                continue
            if not abs(found - expected) <= bound:
                raise LikelihoodMismatch(
                    f"the likelihood that was integrated is {found:.10g} at a draw where the plain formula "
                    f"gives {expected:.10g}, with rounding of at most {bound:.2g}: this is an error of lbnn, "
                    "please report it with the data; no answer is returned"
                )
