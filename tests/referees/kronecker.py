"""Averages over scale matrices by the paper's equations, with Kronecker products and dense linear algebra.

The equations for one scale matrix L (n_d x n_d) as printed, (10)-(13), (24), (25), (28), (33), (36), are in
`lbnn.paper.routes.dense`, which the report needs where there are no tests; it calls nothing of the library.
Matrices are vectorised row-major, v(A) = A.reshape(-1), so that v(ABC) = (A kron C^T) v(B).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, optimize, stats

from lbnn.paper.routes import dense

Array = NDArray[np.float64]


def vectorize(matrix: Array) -> Array:
    """v(A): the row-major vectorisation of A."""
    return np.ascontiguousarray(matrix).reshape(-1)


def unit_matrix(rows: int, columns: int, row: int, column: int) -> Array:
    """[chi_{mu j}]_{rho l} = delta_{mu rho} delta_{j l}."""
    chi = np.zeros((rows, columns))
    chi[row, column] = 1.0
    return chi


# ---------------------------------------------------------------- finite temperature, given L


def log_prior_density(F: Array, L: Array, gram: Array) -> float:
    """Log of (2 pi)^(-n_d p/2) det(L kron G_xx)^(-1/2) etr(-1/2 L^-1 F^T G_xx^-1 F)."""
    p, outputs = F.shape
    exponent = -0.5 * np.trace(np.linalg.inv(L) @ F.T @ np.linalg.inv(gram) @ F)
    log_constant = -0.5 * outputs * p * math.log(2 * math.pi)
    return float(log_constant - 0.5 * dense.log_det(np.kron(L, gram)) + exponent)


def log_likelihood(L: Array, gram: Array, Y: Array, beta: float) -> float:
    """Log N(v(Y); 0, G_xx kron L + I / beta): the normalised evidence of one scale matrix."""
    covariance = np.kron(gram, L) + np.eye(Y.size) / beta  # beta may be infinite
    return dense.log_gaussian(vectorize(Y), covariance)


def log_generating_function(
    J: Array, L: Array, gram: Array, cross: Array, test_gram: Array, Y: Array, beta: float
) -> float:
    """Log Z_L(beta, J) = mu_L^T v(J) + 1/2 v(J)^T Sigma_L v(J)."""
    source = vectorize(J)
    linear = dense.mean(L, gram, cross, Y, beta) @ source
    return float(linear + 0.5 * source @ dense.covariance(L, gram, cross, test_gram, beta) @ source)


def log_gaussian_integral(
    J: Array, L: Array, gram: Array, cross: Array, test_gram: Array, Y: Array, beta: float
) -> float:
    """Log of det(G~ kron L)^(-1/2) det(A)^(-1/2) exp(1/2 b^T A^-1 b - 1/2 beta tr YY^T) (Appendix)."""
    combined = np.block([[gram, cross], [cross.T, test_gram]])
    A = np.kron(np.linalg.inv(combined), np.linalg.inv(L))
    A[: Y.size, : Y.size] += beta * np.eye(Y.size)
    b = np.concatenate([beta * vectorize(Y), vectorize(J)])
    exponent = 0.5 * b @ np.linalg.solve(A, b) - 0.5 * beta * np.trace(Y @ Y.T)
    return float(-0.5 * dense.log_det(np.kron(combined, L)) - 0.5 * dense.log_det(A) + exponent)


# ---------------------------------------------------------------- one output, given lambda


def gamma_lambda(scale: float, gram: Array, beta: float) -> Array:
    """Gamma_lambda = I_p + beta lambda G_xx."""
    return np.eye(gram.shape[0]) + beta * scale * gram


def sigma_lambda(scale: float, gram: Array, cross: Array, test_gram: Array, beta: float) -> Array:
    """Sigma_lambda = lambda G_x^x^ - beta lambda^2 G_xx^^T Gamma_lambda^-1 G_xx^."""
    inverse_gamma = np.linalg.inv(gamma_lambda(scale, gram, beta))
    return scale * test_gram - beta * scale**2 * cross.T @ inverse_gamma @ cross


def mu_lambda(scale: float, gram: Array, cross: Array, y: Array, beta: float) -> Array:
    """mu_lambda = lambda beta G_xx^^T Gamma_lambda^-1 y."""
    return scale * beta * cross.T @ np.linalg.inv(gamma_lambda(scale, gram, beta)) @ y


def delta_lambda(scale: float, gram: Array, y: Array, beta: float) -> Array:
    """Delta_lambda = lambda beta^2 G Gamma^-1 y y^T Gamma^-1 G - lambda beta G Gamma^-1 G."""
    inverse_gamma = np.linalg.inv(gamma_lambda(scale, gram, beta))
    outer = gram @ inverse_gamma @ np.outer(y, y) @ inverse_gamma @ gram
    return scale * beta**2 * outer - scale * beta * gram @ inverse_gamma @ gram


# ---------------------------------------------------------------- averages over atoms (L_s, w_s)


def posterior_weights(
    atoms: Array, prior_weights: Array, gram: Array, Y: Array, beta: float
) -> tuple[Array, float]:
    """w_s drho/dvarpi(L_s) normalised to one, and log sum_s w_s N(v(Y); 0, G kron L_s + I / beta).

    `prior_weights` must sum to one. Zero temperature is beta = inf.
    """
    _check_weights(prior_weights)
    log_terms = np.array([log_likelihood(L, gram, Y, beta) for L in atoms])
    largest = log_terms.max()
    terms = prior_weights * np.exp(log_terms - largest)
    return terms / terms.sum(), float(largest + math.log(terms.sum()))


def average_mean(atoms: Array, weights: Array, gram: Array, cross: Array, Y: Array, beta: float) -> Array:
    """<F^_{mu j}> = E_rho mu_L^T v(chi_{mu j}), shape (p^, n_d); `weights` are those of rho."""
    _check_weights(weights)
    points, outputs = cross.shape[1], Y.shape[1]
    means = np.array([dense.mean(L, gram, cross, Y, beta) for L in atoms])
    average = np.empty((points, outputs))
    for mu in range(points):
        for j in range(outputs):
            chi = vectorize(unit_matrix(points, outputs, mu, j))
            average[mu, j] = weights @ (means @ chi)
    return average


def average_covariance(
    atoms: Array, weights: Array, gram: Array, cross: Array, test_gram: Array, Y: Array, beta: float
) -> Array:
    """cov(F^_{mu j}, F^_{nu k}) = E_rho Sigma_L + cov_rho(mu_L), shape (p^, n_d, p^, n_d)."""
    _check_weights(weights)
    points, outputs = cross.shape[1], Y.shape[1]
    means = np.array([dense.mean(L, gram, cross, Y, beta) for L in atoms])
    centred = means - weights @ means
    within = sum(
        w * dense.covariance(L, gram, cross, test_gram, beta) for L, w in zip(atoms, weights, strict=True)
    )
    between = sum(w * np.outer(row, row) for row, w in zip(centred, weights, strict=True))
    return np.asarray(within + between).reshape(points, outputs, points, outputs)


def average_generating_function(
    J: Array, atoms: Array, weights: Array, gram: Array, cross: Array, test_gram: Array, Y: Array, beta: float
) -> float:
    """Z(beta, J) = E_rho exp(mu_L^T v(J) + 1/2 v(J)^T Sigma_L v(J))."""
    _check_weights(weights)
    source = vectorize(J)
    linear = np.array([dense.mean(L, gram, cross, Y, beta) for L in atoms]) @ source
    quadratic = [source @ dense.covariance(L, gram, cross, test_gram, beta) @ source for L in atoms]
    return float(weights @ np.exp(linear + 0.5 * np.array(quadratic)))


def average_kernel(atoms: Array, weights: Array, gram: Array, Y: Array, beta: float, n_1: int) -> Array:
    """<K> = G_xx + E_rho Delta_L / n_1."""
    _check_weights(weights)
    deltas = [dense.kernel_correction(L, gram, Y, beta) for L in atoms]
    return gram + np.einsum("s,smn->mn", weights, np.array(deltas)) / n_1


def _check_weights(weights: Array) -> None:
    if np.any(np.asarray(weights) < 0) or not math.isclose(float(np.sum(weights)), 1.0, rel_tol=1e-9):
        raise ValueError("weights must be non-negative and sum to one")


# ---------------------------------------------------------------- depth two, one output: quadrature


@dataclass(frozen=True)
class DepthTwoQuadrature:
    """Adaptive quadrature over t = log(lambda) for one output, lambda ~ Gamma(n_1/2, 2 variance/n_1).

    `gram` carries the first layer's prior variance; `scale_variance` is the second layer's.
    """

    gram: Array
    y: Array
    beta: float
    n_1: int
    scale_variance: float = 1.0

    def log_integrand(self, log_scale: float) -> float:
        """Log of varpi(lambda) lambda N(y; 0, lambda G_xx + I / beta), a density in log(lambda)."""
        scale = math.exp(log_scale)
        prior = stats.gamma(a=self.n_1 / 2, scale=2 * self.scale_variance / self.n_1)
        noise = 0.0 if math.isinf(self.beta) else 1.0 / self.beta
        covariance = scale * self.gram + noise * np.eye(self.y.size)
        return float(prior.logpdf(scale)) + log_scale + dense.log_gaussian(self.y, covariance)

    def log_evidence(self) -> float:
        """Log of the integral of N(y; 0, lambda G_xx + I / beta) over varpi."""
        peak, lower, upper = self._peak_and_limits()
        total = _integrate(lambda t: np.array(math.exp(self.log_integrand(t) - peak)), lower, upper)
        return peak + math.log(float(total))

    def expect(self, function: Callable[[float], Array | float]) -> Array:
        """E_rho function(lambda), for a scalar- or array-valued function."""
        peak, lower, upper = self._peak_and_limits()

        def weighted(log_scale: float) -> Array:
            weight = math.exp(self.log_integrand(log_scale) - peak)
            value = np.asarray(function(math.exp(log_scale)), dtype=float)
            return weight * np.concatenate([[1.0], value.reshape(-1)])

        integrals = _integrate(weighted, lower, upper)
        shape = np.shape(function(1.0))
        return (integrals[1:] / integrals[0]).reshape(shape)

    def _peak_and_limits(self, drop: float = 60.0) -> tuple[float, float, float]:
        """Find the largest log integrand, and the log-scales on both sides where it has fallen by `drop`."""
        grid = np.linspace(-60.0, 12.0, 289)
        values = np.array([self._guarded(t) for t in grid])
        best = int(values.argmax())
        found = optimize.minimize_scalar(
            lambda t: -self._guarded(t), bounds=(grid[max(best - 1, 0)], grid[best + 1]), method="bounded"
        )
        peak = max(-float(found.fun), float(values[best]))
        inside = np.flatnonzero(values > peak - drop)
        lower = grid[max(inside[0] - 1, 0)] if inside.size else grid[best - 1]
        upper = grid[min(inside[-1] + 1, grid.size - 1)] if inside.size else grid[best + 1]
        return peak, float(lower), float(upper)

    def _guarded(self, log_scale: float) -> float:
        value = self.log_integrand(log_scale)
        return value if math.isfinite(value) else -1e300


def _integrate(function: Callable[[float], Array], lower: float, upper: float) -> Array:
    """Adaptive Gauss-Kronrod (the vector form of scipy.integrate.quad), which must report convergence."""
    value, error, report = integrate.quad_vec(
        function, lower, upper, epsrel=1e-11, epsabs=1e-13, norm="max", limit=2000, full_output=True
    )
    if not report.success or error > 1e-8 * max(1e-300, float(np.max(np.abs(value)))):
        raise RuntimeError(f"quadrature did not converge: error {error}")
    return np.asarray(value)
