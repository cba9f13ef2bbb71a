"""Deterministic quadrature over x = log λ: one output or data of rank one, any depth, any temperature.

The rule is that of `_base.log_integrals`. Its nodes reach as far as λ^{−1}, λ and λ² times the density have
mass: in a deep, narrow network E λ lies dozens of standard deviations away from the density's own peak.
`integrate_over_noise` does the same for many noise variances at once.

With one positive eigenvalue of the Gram matrix the kernel of the last hidden layer is a number λ, and the
outputs given λ are independent: ỹ_j ~ N(0, τ + g λ). So the integral is that of one output and n_d examples,
whose law of λ has the hidden layers in reverse order (`rank_one_estimate`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from scipy import interpolate, special
from scipy.integrate import cumulative_trapezoid

from lbnn._base.blocks import blocks
from lbnn._base.gauss_rule import GaussRule
from lbnn._base.log_integrals import Integrals, LogFunction, Nodes, integrate
from lbnn._base.types import Array, ComplexArray, IndexArray
from lbnn._base.warn import warn
from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.inference import Diagnostics, ScaleInference
from lbnn.engines.policy import GROUPS
from lbnn.engines.target import Target
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.hidden_kernel import dual_prior, primal_factors
from lbnn.scale.bartlett import product
from lbnn.scale.density_table import DensityTable
from lbnn.scale.gamma_product import GammaProduct
from lbnn.scale.measure import Exponent, ScaleMeasure, Tails
from lbnn.scale.phases import LogScaleDensity, Phase, Phases, modes
from lbnn.scale.prior import ScalePrior
from lbnn.scale.total_factor import rotate_factors

_DRAWS = 8192  # of rank-one data that are made at least: a few milliseconds
_LARGEST_SAMPLE = 1 << 25  # floats that scales or coordinates of all draws may fill
_ROUNDING = 64 * float(np.finfo(float).eps)
_BLOCK = 1 << 18  # floats of one block of noise variances × nodes × rows: what a cache holds

RealFunction = Callable[[Array], Array]
AnyFunction = Callable[[Array], Array | ComplexArray]


def infer_quadrature(
    prior: ScalePrior, likelihood: GaussianLikelihood, single_output: bool
) -> ScaleInference:
    """Posterior of λ for one output and at least one hidden layer."""
    law = QuadratureLaw(prior, likelihood)
    nodes = law.nodes
    tails = Tails(law.inverse_integrable, prior.exponential_rate, min(prior.widths))
    measure = ScaleMeasure(np.exp(nodes.x)[:, None, None], nodes.weights, single_output, tails, law)
    diagnostics = Diagnostics("quadrature", math.inf, ok=nodes.converged, messages=messages(nodes))
    return ScaleInference(measure, likelihood.log_constant + nodes.log_total, 0.0, diagnostics)


def rank_one_estimate(target: Target, call: Call) -> tuple[Estimate, tuple[str, ...]]:
    """Exact evidence and independent draws for data of rank one, and what is said of the quadrature.

    The target is that of L, or of the hidden kernel where L has no density of its own.
    """
    began, own, shapes = time.perf_counter(), target.likelihood, target.coordinates.shapes[::-1]
    widths, variances = tuple(each.width for each in shapes), tuple(each.variance for each in shapes)
    prior = ScalePrior(widths, target.rows, variances)
    assert isinstance(own, GaussianLikelihood)
    law = QuadratureLaw(prior if own.of_kernel else dual_prior(prior, 1), as_one_output(own))
    most = _LARGEST_SAMPLE // max(target.dimension, target.rows**2)
    size = max(min(max(_DRAWS, math.ceil(call.effective)), most) // GROUPS, 1) * GROUPS
    rng = call.stream("rank one")
    factors = law.sample_factors(size, rng)
    if not own.of_kernel:
        factors = rotate_factors(primal_factors(factors, prior, own, rng), target.rotation.T)
    total = product(factors)
    assert total is not None
    with np.errstate(divide="ignore"):
        diagonal = np.log((total**2).sum(axis=2))
    estimate = Estimate(
        "quadrature over the hidden kernel, which is a number",
        np.zeros(size),
        np.repeat(np.arange(GROUPS), size // GROUPS),
        diagonal,
        lambda: target.coordinates.locate(factors),
        law.nodes.log_total,
        0.0,
        seconds=time.perf_counter() - began,
    )
    return estimate, messages(law.nodes)


def as_one_output(data: GaussianLikelihood) -> GaussianLikelihood:
    """Data of rank one, or of a hidden kernel that is a number, as examples of one output, less the constant.

    ỹ_j ~ N(0, τ + g d_j² λ) for every output j.
    """
    values = data.eigenvalues * data.output_units**2
    return GaussianLikelihood(values, data.targets.reshape(-1, 1), 0.0, len(values), data.noise_variance)


_NOT_CONVERGED = (
    "quadrature over the scale did not converge to 1e-9; the integrand has structure finer than its nodes. "
    "Try another engine, or rescale the data"
)


def messages(nodes: Nodes) -> tuple[str, ...]:
    """What is said of an integral that did not converge."""
    return () if nodes.converged else (_NOT_CONVERGED,)


class QuadratureLaw:
    """The continuous posterior of λ behind the nodes: prior law of log λ times likelihood."""

    def __init__(self, prior: ScalePrior, likelihood: GaussianLikelihood) -> None:
        self.prior, self.law, self.likelihood = prior, prior.log_scale_law, likelihood

    @cached_property
    def nodes(self) -> Nodes:
        """Nodes good for the density times 1, λ and λ², and λ⁻¹ where that is integrable."""
        powers = (-1, 0, 1, 2) if self.inverse_integrable else (0, 1, 2)
        return self._integrate(None, powers)

    @property
    def inverse_integrable(self) -> bool:
        """Whether E λ⁻¹ is finite: by the prior, or as targets at zero temperature keep λ from 0."""
        hard_edge = self.likelihood.noise_variance == 0
        lost = len(self.likelihood.eigenvalues) / 2 if hard_edge else 0.0
        return (hard_edge and bool(self.likelihood.targets.any())) or self.law.left_exponent - lost > 1

    def nodes_of(self, exponent: Exponent, powers: tuple[int, ...] = (0, 1, 2)) -> Nodes:
        """Nodes placed where the density times exp(exponent(λ)) and powers of λ have their mass."""
        tilted = self._integrate(lambda x: exponent(np.exp(x)[:, None], np.ones((len(x), 1, 1))), powers)
        if not tilted.converged:
            warn(_NOT_CONVERGED)
        return tilted

    def log_expect_exp(self, exponent: Exponent) -> complex:
        """Log E exp(exponent(λ)), on nodes placed where this integrand has its mass."""
        tilted = self.nodes_of(exponent, (0,))
        total = special.logsumexp(tilted.log_terms.astype(complex))
        return complex(total) - self.nodes.log_total

    def log_density(self, x: Array) -> Array:
        """Log density of x = log λ (m,), at any λ that a double holds."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            data = self.likelihood.log_value(np.exp(x)[:, None], np.ones((len(x), 1, 1)))
            smallest = self.likelihood.noise_variance + self.likelihood.eigenvalues.min(
                initial=np.inf
            ) * np.exp(x)
            beyond = ~np.isfinite(data) | (smallest < np.finfo(float).tiny)  # g_i λ is no double
            data[beyond] = log_value_in_logs(self.likelihood, x[beyond])
            return self.law.log_density(x) + data - self.nodes.log_total

    def phases(self, measure: ScaleMeasure) -> Phases:
        """Modes of the density of x, cut at the minima between them."""
        density = LogScaleDensity(
            self.log_density, self._slope, self._rounding, float(self.nodes.x[0]), float(self.nodes.x[-1])
        )
        found = modes(density)
        if not all(mode.converged for mode in found):
            warn(_NOT_CONVERGED)
        return Phases(
            tuple(
                Phase(
                    mode.mass,
                    0.0,
                    mode.mean_scale if measure.single_output else np.array([[mode.mean_scale]]),
                    int(self._signal(mode.location) > self.likelihood.noise_variance),
                )
                for mode in found
            )
        )

    def _slope(self, x: Array) -> Array:
        """Derivative (m,) of `log_density`: π′/π = a (1 − π₊/π), π₊ with one width n = 2a raised by two."""
        widths, narrowest = sorted(self.prior.widths), min(self.prior.widths)
        growth = (narrowest + 2) / narrowest
        raised = GammaProduct((narrowest + 2, *widths[1:]), self.prior.variance * growth)
        ratio = np.exp(raised.log_density(x) - self.law.log_density(x))
        return narrowest / 2 * (1 - ratio) + data_slope(self.likelihood, x)

    def _rounding(self, x: Array) -> Array:
        """Rounding of `log_density`, (m,): so many units of the last place of its terms."""
        return _ROUNDING * (1 + np.abs(self.law.log_density(x)) + size_of_terms(self.likelihood, x))

    def _signal(self, x: float) -> float:
        """Variance of the function along the strongest direction of the data, max_i g_i λ."""
        return float(self.likelihood.eigenvalues.max(initial=0.0)) * math.exp(x)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Independent draws (size, 1, 1) by inversion of the distribution function."""
        return np.exp(self._inverse_distribution(rng.random(size)))[:, None, None]

    def sample_factors(self, size: int, rng: np.random.Generator) -> list[Array]:
        """Draws (size, 1, 1) of T_d, ..., T_2: the factors of a product given the product."""
        log_squares = self.law.split(np.log(self.sample(size, rng)[:, 0, 0]), rng)
        roots = [math.sqrt(variance) for variance in reversed(self.prior.layer_variances)]
        return [
            root * np.exp(column / 2)[:, None, None]
            for root, column in zip(roots, log_squares.T, strict=True)
        ]

    def partial_products(self, layer: int) -> Array:
        """√E[(T_ℓ ⋯ T_2)² | λ] at every node, (m, 1, 1): all that a kernel needs, since it is quadratic.

        Weighting by χ²(n)/n raises n by two, so that the conditional mean is a ratio of two densities.
        """
        widths, variances = self.prior.widths, self.prior.layer_variances
        raised = [width + 2 if number < layer - 1 else width for number, width in enumerate(widths)]
        growth = math.prod(new / old for new, old in zip(raised, widths, strict=True))
        weighted = GammaProduct(raised, self.prior.variance * growth)
        ratio = np.exp(weighted.log_density(self.nodes.x) - self.law.log_density(self.nodes.x))
        return np.sqrt(math.prod(variances[: layer - 1]) * ratio)[:, None, None]

    @cached_property
    def _inverse_distribution(self) -> Callable[[Array], Array]:
        """Quantile function of x: a spline through the log density in v, integrated on a fine grid."""
        nodes = self.nodes
        fine = np.linspace(nodes.v[0], nodes.v[-1], 16 * len(nodes.v) + 1)
        density = np.exp(interpolate.CubicSpline(nodes.v, nodes.log_terms - nodes.log_total)(fine))
        distribution = cumulative_trapezoid(density, fine, initial=0)
        rising = np.concatenate([[True], np.diff(distribution) > 0])
        x = interpolate.CubicSpline(nodes.v, nodes.x)(fine)[rising]
        return interpolate.PchipInterpolator(distribution[rising] / distribution[-1], x)

    def _integrate(self, tilt: AnyFunction | None, powers: tuple[int, ...]) -> Nodes:
        low, high = first_range(self.law, self.likelihood.turning_region())
        rough, exact = self._with(self.law.saddle_log_density, tilt), self._with(self.law.log_density, tilt)
        return integrate(exact, rough, np.array([low]), np.array([high]), powers).one()

    def _with(self, log_prior: RealFunction, tilt: AnyFunction | None) -> LogFunction:
        """The log integrand as a batch of one."""

        def log_integrand(points: Array, which: IndexArray) -> Array | ComplexArray:
            """Log of the integrand at points (j, n)."""
            x = points.ravel()
            value = log_prior(x) + self.likelihood.log_value(np.exp(x)[:, None], np.ones((len(x), 1, 1)))
            return (value if tilt is None else value + tilt(x)).reshape(points.shape)

        return log_integrand


def first_range(law: GammaProduct, turning: tuple[float, float] | None) -> tuple[float, float]:
    """Where the prior of log λ has its mass, and where the likelihood turns."""
    region = law.location(-law.left_exponent / 2), law.location(2.0)
    low, high = turning or region
    return min(region[0], low), max(region[1], high)


def integrate_over_noise(
    law: GammaProduct, likelihoods: Sequence[GaussianLikelihood]
) -> tuple[Integrals, bool]:
    """Integrals of prior × likelihood × λ^power for likelihoods that differ in their noise alone.

    All noise variances must be positive and finite. The prior is interpolated (`DensityTable`) and the data
    are the few rows of their Gauss rule. Also returned: whether the interpolation is accurate.
    """
    first = likelihoods[0]
    noise = np.array([each.noise_variance for each in likelihoods])
    rows = first.gauss_rule or GaussRule(
        first.eigenvalues, np.ones(len(first.eigenvalues)), first.eigenvalues, first.targets
    )
    squares, table = rows.targets[:, 0] ** 2, DensityTable.of_product(law)

    def log_likelihood(x: Array, which: IndexArray) -> Array:
        """−½ Σ_i [log(τ + g_i λ) + ỹ_i²/(τ + g_i λ)], over the rows of a Gauss rule, (k, n)."""
        result = np.empty(x.shape)
        for here in blocks(len(x), x.shape[1] * len(rows.nodes), _BLOCK):
            own, scale = noise[which[here], None, None], np.exp(x[here])[:, :, None]
            logs = np.log(own + scale * rows.nodes) @ rows.counts
            result[here] = -0.5 * (logs + (1 / (own + scale * rows.eigenvalues)) @ squares)
        return result

    def exact(x: Array, which: IndexArray) -> Array:
        """Log of the integrands `which` (j,) at x (j, n)."""
        return table.log_density(x) + log_likelihood(x, which)

    ranges = [first_range(law, each.turning_region()) for each in likelihoods]
    low, high = np.array(ranges).T
    powers = (-1, 0, 1, 2) if law.left_exponent > 1 else (0, 1, 2)
    return integrate(exact, exact, low, high, powers), table.accurate


def log_value_in_logs(likelihood: GaussianLikelihood, x: Array) -> Array:
    """`GaussianLikelihood.log_value` at x = log λ, (m,), with fewer digits but without under- or overflow."""
    log_variance = np.logaddexp(
        np.log(likelihood.noise_variance), np.log(likelihood.eigenvalues) + x[:, None]
    )
    squares = np.exp(2 * np.log(np.abs(likelihood.targets[:, 0])) - log_variance)
    return -0.5 * (likelihood.multiplicity * log_variance + squares).sum(axis=1)


def data_slope(likelihood: GaussianLikelihood, x: Array) -> Array:
    """Derivative of log p(Y | λ) in x = log λ, (m,): half of that in log √λ."""
    root = np.exp(x / 2)
    return 0.5 * root * likelihood.of_root.value_and_gradient(root[:, None, None])[1][:, 0, 0]


def size_of_terms(likelihood: GaussianLikelihood, x: Array) -> Array:
    """½ Σ_i |log v_i| + y_i²/v_i with v_i = τ + g_i λ, (m,): the sizes of what log p(Y | λ) is a sum of."""
    result = np.zeros_like(x)
    if not likelihood.flat:
        for here in blocks(len(x), len(likelihood.eigenvalues)):
            variance = likelihood.noise_variance + likelihood.eigenvalues * np.exp(x[here, None])
            logs = likelihood.multiplicity * np.abs(np.log(variance))
            result[here] = 0.5 * (logs + likelihood.targets[:, 0] ** 2 / variance).sum(axis=1)
    return result
