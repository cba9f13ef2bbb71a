"""Small random data sets, and the library's answer for a prior of a few scale matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.engines import Diagnostics, ScaleInference
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.noise.noise import Noise
from lbnn.paper.routes import dense, scale_laws
from lbnn.posterior import Posterior
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.prior import ScalePrior


@dataclass(frozen=True)
class Problem:
    """Training data, test inputs and their Gram matrices as the paper normalises them."""

    X: Array
    Y: Array
    X_test: Array

    @property
    def y(self) -> Array:
        """The first column of Y."""
        return self.Y[:, 0]

    @cached_property
    def gram(self) -> Array:
        """G_xx."""
        return self.X @ self.X.T / self.X.shape[1]

    @cached_property
    def cross(self) -> Array:
        """G_xx̂, (p, p̂)."""
        return self.X @ self.X_test.T / self.X.shape[1]

    @cached_property
    def test_gram(self) -> Array:
        """G_x̂x̂."""
        return self.X_test @ self.X_test.T / self.X.shape[1]

    @cached_property
    def unexplained(self) -> Array:
        """R = G_x̂x̂ − G_x̂x G_xx⁻¹ G_xx̂."""
        return self.test_gram - self.cross.T @ np.linalg.solve(self.gram, self.cross)

    @cached_property
    def target_square(self) -> Array:
        """S = Yᵀ G_xx⁻¹ Y."""
        return self.Y.T @ np.linalg.solve(self.gram, self.Y)

    def log_weight(self, widths: tuple[int, ...], beta: float) -> scale_laws.LogDensity:
        """Log of ϖ(λ) N(y; 0, λG + I/β): one output, the density of ρ times the evidence."""
        log_prior, noise = scale_laws.log_prior_density(widths), np.eye(len(self.y)) / beta
        return lambda scale: log_prior(scale) + dense.log_gaussian(self.y, scale * self.gram + noise)

    def log_evidence(self, widths: tuple[int, ...], beta: float) -> float:
        """Log ∫ ϖ(λ) N(y; 0, λG + I/β) dλ."""
        log_weight = self.log_weight(widths, beta)
        return scale_laws.log_integral(lambda t: log_weight(math.exp(t)) + t)


def random_problem(
    rng: np.random.Generator, *, examples: int = 5, inputs: int = 9, points: int = 3, outputs: int = 1
) -> Problem:
    """Gaussian inputs, and targets of order one."""
    X, X_test = rng.standard_normal((examples, inputs)), rng.standard_normal((points, inputs))
    return Problem(X, rng.standard_normal((examples, outputs)), X_test)


@dataclass(frozen=True)
class ScaleAtoms:
    """A prior ϖ that is a few scale matrices: the paper's averages over L become sums."""

    scales: Array  # (m, n_d, n_d)
    prior_weights: Array  # (m,)

    def dense_weights(self, problem: Problem, beta: float) -> Array:
        """Weights of ρ by the printed density (13)."""
        factors = [dense.log_scale_density(L, problem.gram, problem.Y, beta) for L in self.scales]
        weights = self.prior_weights * np.exp(np.array(factors) - max(factors))
        return weights / weights.sum()

    def library_weights(self, problem: Problem, beta: float) -> Array:
        """Weights of ρ by the library's likelihood."""
        log_values = library_likelihood(problem, beta).log_value(*np.linalg.eigh(self.scales))
        weights = self.prior_weights * np.exp(log_values - log_values.max())
        return weights / weights.sum()

    def library_posterior(self, problem: Problem, beta: float, width: int = 7) -> Posterior:
        """The library's posterior for this prior."""
        measure = ScaleMeasure(self.scales, self.library_weights(problem, beta), False)
        inference = ScaleInference(measure, 0.0, 0.0, Diagnostics("report", math.inf))
        prior = ScalePrior((width,), self.scales.shape[1])
        return Posterior(
            prior, Spectrum.from_inputs(problem.X, problem.Y), Noise.independent(1 / beta), inference
        )


def library_likelihood(problem: Problem, beta: float) -> GaussianLikelihood:
    """The library's likelihood of a problem."""
    data = Spectrum.from_inputs(problem.X, problem.Y)
    return GaussianLikelihood(data.eigenvalues, data.targets, data.residual, data.examples, 1 / beta)


def random_scales(rng: np.random.Generator, outputs: int = 3, count: int = 4) -> ScaleAtoms:
    """Positive definite matrices with weights."""
    roots = rng.standard_normal((count, outputs, outputs + 1)) / math.sqrt(outputs)
    return ScaleAtoms(roots @ roots.swapaxes(1, 2), rng.dirichlet(np.ones(count)))


def draw_weights(rng: np.random.Generator, sizes: Sequence[int], count: int) -> list[Array]:
    """`count` draws of W_1..W_d from the prior (2), for layer sizes n_0..n_d: (count, n_ℓ, n_{ℓ−1})."""
    shapes = zip(sizes[1:], sizes[:-1], strict=True)
    return [rng.standard_normal((count, rows, columns)) / math.sqrt(columns) for rows, columns in shapes]


def network_outputs(X: Array, weights: Sequence[Array]) -> Array:
    """F = X W_1ᵀ ⋯ W_dᵀ, (count, p, n_d)."""
    F = X @ weights[0].swapaxes(1, 2)
    for layer in weights[1:]:
        F = F @ layer.swapaxes(1, 2)
    return F


def likelihood_weights(F: Array, Y: Array, beta: float) -> Array:
    """The likelihood (3) of every draw, up to a constant common to all."""
    log_likelihood = -0.5 * beta * ((F - Y) ** 2).sum((1, 2))
    return np.exp(log_likelihood - log_likelihood.max())
