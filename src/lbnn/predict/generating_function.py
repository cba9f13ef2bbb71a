"""Exponents of the posterior's generating functions given a scale, and where they can be averaged.

Z(β, J) = E_ρ exp(μ_Lᵀ v(J) + ½ v(J)ᵀ Σ_L v(J))                    (eqn:posterior_genfun)
"""

from __future__ import annotations

import math

import numpy as np

from lbnn._base.arrays import times
from lbnn._base.types import Array, ComplexArray
from lbnn.data.projection import RANK_TOLERANCE, Projection
from lbnn.predict.conditional import ConditionalProcess
from lbnn.scale.measure import Exponent


def cumulant_exponent(projection: Projection, process: ConditionalProcess, source: Array) -> Exponent:
    """μ_Lᵀv(J) + ½ v(J)ᵀΣ_L v(J) as a function of the scale, for J (p̂, n_d)."""
    linear_and_quadratic = _exponent_parts(projection, process, source)

    def exponent(scale_values: Array, scale_vectors: Array) -> Array:
        """At eigenvalues (m, n_d) and eigenvectors (m, n_d, n_d), (m,)."""
        linear, quadratic = linear_and_quadratic(scale_values, scale_vectors)
        return linear + 0.5 * quadratic

    return exponent


def characteristic_exponent(projection: Projection, process: ConditionalProcess, source: Array) -> Exponent:
    """i μ_Lᵀv(J) − ½ v(J)ᵀΣ_L v(J) as a function of the scale, for J (p̂, n_d)."""
    linear_and_quadratic = _exponent_parts(projection, process, source)

    def exponent(scale_values: Array, scale_vectors: Array) -> ComplexArray:
        """At eigenvalues (m, n_d) and eigenvectors (m, n_d, n_d), (m,)."""
        linear, quadratic = linear_and_quadratic(scale_values, scale_vectors)
        return 1j * linear - 0.5 * quadratic

    return exponent


def source_in_domain(projection: Projection, source: Array, exponential_rate: float, informed: bool) -> bool:
    """Whether E exp(½ tr(L JᵀRJ)) is finite for a source J (p̂, n_d).

    E exp(½ c l_max(L)) is finite for c < exponential_rate.

    R is what the training inputs leave unexplained, and all of G_x̂x̂ where targets do not inform (β = 0).
    On the boundary itself, at depth two, the answer is no.
    """
    if math.isinf(exponential_rate):
        return True
    explained = times(projection.explained.T, source)
    unexplained = _unexplained_square(projection, source)
    largest = _largest_eigenvalue(unexplained if informed else unexplained + explained.T @ explained)
    size = largest + _largest_eigenvalue(explained.T @ explained)
    return largest <= RANK_TOLERANCE * len(source) * size or largest < exponential_rate


def _exponent_parts(projection: Projection, process: ConditionalProcess, source: Array):  # type: ignore[no-untyped-def]
    """μ_Lᵀv(J) and v(J)ᵀΣ_L v(J) as one function of the scale, for J (p̂, n_d)."""
    explained = times(projection.explained.T, source)  # ΦᵀJ, (r, n_d)
    unexplained = _unexplained_square(projection, source)

    def parts(scale_values: Array, scale_vectors: Array) -> tuple[Array, Array]:
        """At eigenvalues (m, n_d) and eigenvectors (m, n_d, n_d), (m,) each."""
        rotated = explained @ scale_vectors
        linear = (process.rotated_mean(scale_values, scale_vectors) * rotated).sum((1, 2))
        rest = np.einsum("sja,jk,ska,sa->s", scale_vectors, unexplained, scale_vectors, scale_values)
        return linear, rest + (process.shrunken_scale(scale_values) * rotated**2).sum((1, 2))

    return parts


def _unexplained_square(projection: Projection, source: Array) -> Array:
    """JᵀRJ, (n_d, n_d)."""
    return source.T @ times(projection.unexplained_gram, source)


def _largest_eigenvalue(matrix: Array) -> float:
    """Of a symmetric matrix (n, n)."""
    return float(np.linalg.eigvalsh(matrix)[-1])
