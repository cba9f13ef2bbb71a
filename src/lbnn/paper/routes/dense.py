"""The paper's equations as printed: Kronecker products and dense linear algebra, given a scale L.

Matrices are vectorised row by row, v(A) = A.reshape(−1). Nothing here is fast, and nothing is the library's.
"""

from __future__ import annotations

import math

import numpy as np

from lbnn._base.types import Array


def gamma_matrix(L: Array, gram: Array, beta: float) -> Array:
    """Γ_L = I + β G_xx ⊗ L                                                          (10)."""
    return np.eye(len(gram) * len(L)) + beta * np.kron(gram, L)


def covariance(L: Array, gram: Array, cross: Array, test_gram: Array, beta: float) -> Array:
    """Σ_L; cross is G_xx̂, (p, p̂)                                                    (11)."""
    if math.isinf(beta):  # (25)
        unexplained = test_gram - cross.T @ np.linalg.solve(gram, cross)
        return np.asarray(np.kron(unexplained, L), np.float64)
    lifted = np.kron(cross, L)
    return np.kron(test_gram, L) - beta * lifted.T @ np.linalg.solve(gamma_matrix(L, gram, beta), lifted)


def mean(L: Array, gram: Array, cross: Array, Y: Array, beta: float) -> Array:
    """μ_L, (p̂ n_d,)                                                                 (12)."""
    if math.isinf(beta):  # (24)
        return np.kron(np.linalg.solve(gram, cross).T, np.eye(len(L))) @ Y.reshape(-1)
    return beta * np.kron(cross, L).T @ np.linalg.solve(gamma_matrix(L, gram, beta), Y.reshape(-1))


def log_scale_density(L: Array, gram: Array, Y: Array, beta: float) -> float:
    """Log dρ/dϖ, without its normalisation                                          (13)."""
    if math.isinf(beta):  # (28)
        square = Y.T @ np.linalg.solve(gram, Y)
        return float(-0.5 * len(gram) * log_det(L) - 0.5 * np.trace(square @ np.linalg.inv(L)))
    gamma, y = gamma_matrix(L, gram, beta), Y.reshape(-1)
    return float(-0.5 * log_det(gamma) - 0.5 * beta * y @ np.linalg.solve(gamma, y))


def log_generating_function(mean: Array, covariance: Array, source: Array) -> float:
    """μ_Lᵀ v(J) + ½ v(J)ᵀ Σ_L v(J): the exponent of (14)."""
    j = source.reshape(-1)
    return float(mean @ j + 0.5 * j @ covariance @ j)


def kernel_correction(L: Array, gram: Array, Y: Array, beta: float) -> Array:
    """Δ_L, entry by entry                                                           (33)."""
    if math.isinf(beta):  # (36)
        return Y @ np.linalg.inv(L) @ Y.T - len(L) * gram
    size, inverse = len(gram), np.linalg.inv(gamma_matrix(L, gram, beta))
    y = inverse @ Y.reshape(-1)
    delta = np.empty((size, size))
    for mu in range(size):
        for nu in range(size):
            middle = np.kron(np.outer(gram[:, mu], gram[nu]), L)  # G χ_μν G ⊗ L
            delta[mu, nu] = beta**2 * y @ middle @ y - beta * np.trace(inverse @ middle)
    return delta


def log_gaussian(values: Array, covariance: Array) -> float:
    """Log N(values; 0, covariance)."""
    quadratic = float(values @ np.linalg.solve(covariance, values))
    return -0.5 * (len(values) * math.log(2 * math.pi) + log_det(covariance) + quadratic)


def log_det(matrix: Array) -> float:
    """Log determinant of a positive definite matrix."""
    return float(np.linalg.slogdet(matrix)[1])
