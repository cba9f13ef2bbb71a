"""Data of rank one and any number of outputs: quadrature over the length of the hidden activities.

With one positive eigenvalue g of the Gram matrix, the activities of the last hidden layer have squared
length λ = ∏_ℓ σ_ℓ² χ²(n_ℓ)/n_ℓ in units of the prior, and the targets given λ are N(0, (τ + g λ) I): log
p(Y) is an integral over log λ. Draws of L follow exactly:
log λ from its posterior, its factors given it, the outputs f before noise given λ and y (Gaussian), and
the weights, which are known on the activities and Gaussian beside them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lbnn._base.log_sums import log_sum_exp, normalised
from lbnn._base.types import Array
from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.known_columns import factors_of_known
from lbnn.engines.policy import GROUPS
from lbnn.engines.target import ScaleTarget
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.scale.bartlett import product
from lbnn.scale.gamma_product import GammaProduct

_SCAN, _NODES = 400, 600  # nodes of the first and of the final grid
_DROP = 45.0  # nats below the top at which the integrand is cut off: e^−45 is 3e-20
_DRAWS = 8192  # that are made at least: a few milliseconds
_LARGEST_SAMPLE = 1 << 25  # floats that scales or coordinates of all draws may fill
_FALL = 80.0  # nats by which the prior falls to the ends of the first grid


@dataclass(frozen=True)
class RankOneSample:
    """Draws of the posterior of L for data of rank one, with the log evidence from quadrature.

    Attributes
    ----------
    factors : list of (m, rows, columns) arrays
        Bartlett factors T_d, …, T_2 of every draw, L = T Tᵀ with T = T_d ⋯ T_2.
    log_weights : (m,) array
        Logs of the weights, normalised; equal up to the interpolation of one density.
    log_evidence : float
        log p(Y), with its constants.
    log_evidence_error : float
        Change of log p(Y) when every other node is left out, which the rule with all nodes beats by far.
    """

    factors: list[Array]
    log_weights: Array
    log_evidence: float
    log_evidence_error: float

    @property
    def scales(self) -> Array:
        """L of every draw, (m, n_d, n_d)."""
        root = self.factors[0]
        for factor in self.factors[1:]:
            root = root @ factor
        return root @ root.swapaxes(1, 2)


def sample_rank_one(
    eigenvalue: float,
    target: Array,
    noise: float,
    widths: Sequence[int],
    size: int,
    rng: np.random.Generator,
    *,
    layer_variances: Sequence[float] = (),
) -> RankOneSample:
    """Log evidence by quadrature and independent posterior draws of L, for data of rank one.

    Parameters
    ----------
    eigenvalue : float
        g, the only positive eigenvalue of the Gram matrix.
    target : (n_d,) array
        ỹ, the targets along its eigenvector.
    noise : float
        τ; zero is allowed where the target is not zero.
    widths : sequence of int
        n_1, …, n_{d−1}, at least one.
    size : int
        Number of draws.
    rng : numpy.random.Generator
    layer_variances : sequence of float
        σ_2², …, σ_d²; ones by default.

    Examples
    --------
    >>> import numpy as np
    >>> sample = sample_rank_one(1.0, np.array([1.0, -1.0]), 0.1, (3, 3), 100, np.random.default_rng(0))
    >>> sample.scales.shape
    (100, 2, 2)
    """
    variances = tuple(layer_variances) or (1.0,) * len(widths)
    outputs, square = len(target), float(target @ target)
    law = GammaProduct(widths, math.prod(variances))
    constant = -0.5 * outputs * math.log(2 * math.pi)

    def log_integrand(x: Array) -> Array:
        """Log of the integrand at x = log λ (k,)."""
        total = noise + eigenvalue * np.exp(x)
        result: Array = law.log_density(x) - 0.5 * (outputs * np.log(total) + square / total)
        return result

    nodes = _grid(law, log_integrand)
    logs = log_integrand(nodes)
    step = nodes[1] - nodes[0]
    integral = float(log_sum_exp(logs)) + math.log(step)
    half = float(log_sum_exp(logs[::2])) + math.log(2 * step)
    x, log_proposed = _draw_linear(nodes, np.exp(logs - logs.max()), size, rng)
    log_weights = np.log(normalised(log_integrand(x) - log_proposed))
    factors = _draw_factors(law, x, eigenvalue, target, noise, variances, rng)
    return RankOneSample(factors, log_weights, integral + constant, abs(half - integral))


def rank_one_estimate(target: ScaleTarget, call: Call) -> Estimate:
    """The estimate of a scale for data of rank one: exact evidence, independent draws."""
    began, likelihood, shapes = time.perf_counter(), target.likelihood, target.coordinates.shapes
    assert isinstance(likelihood, GaussianLikelihood)
    (eigenvalue,), (row,) = likelihood.eigenvalues, likelihood.targets
    most = _LARGEST_SAMPLE // max(target.dimension, target.rows**2)
    size = max(min(max(_DRAWS, math.ceil(call.effective)), most) // GROUPS, 1) * GROUPS
    sample = sample_rank_one(
        float(eigenvalue),
        row @ target.rotation,
        likelihood.noise_variance,
        [shape.width for shape in reversed(shapes)],
        size,
        call.stream("rank one"),
        layer_variances=[shape.variance for shape in reversed(shapes)],
    )
    total = product(sample.factors)
    assert total is not None
    with np.errstate(divide="ignore"):
        diagonal = np.log((total**2).sum(axis=2))
    return Estimate(
        "quadrature over the length of the hidden activities",
        sample.log_weights,
        np.repeat(np.arange(GROUPS), size // GROUPS),
        diagonal,
        lambda: target.coordinates.locate(sample.factors),
        sample.log_evidence + 0.5 * len(row) * math.log(2 * math.pi),  # less the likelihood's constant
        sample.log_evidence_error,
        seconds=time.perf_counter() - began,
    )


def _grid(law: GammaProduct, log_integrand: object) -> Array:
    """Equidistant nodes (k,) over all x = log λ at which the integrand counts."""
    count = len(law.widths)
    low = law.location(0.0) - _FALL / law.left_exponent
    high = law.location(0.0) + count * math.log(2 + _FALL / count / law.left_exponent) + 3
    scan = np.linspace(low, high, _SCAN)
    assert callable(log_integrand)
    logs = log_integrand(scan)
    counted = np.flatnonzero(logs > logs.max() - _DROP)
    first, last = max(counted[0] - 1, 0), min(counted[-1] + 1, _SCAN - 1)
    return np.linspace(scan[first], scan[last], _NODES)


def _draw_linear(nodes: Array, heights: Array, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draws (size,) from a density that is linear between nodes (k,), with its log up to a constant."""
    cumulative = np.cumsum(heights[:-1] + heights[1:])
    cell = np.minimum(np.searchsorted(cumulative, rng.random(size) * cumulative[-1]), len(nodes) - 2)
    left, right, uniform = heights[cell], heights[cell + 1], rng.random(size)
    density = np.sqrt(left**2 + uniform * (right**2 - left**2))
    within = uniform * (left + right) / (left + density)
    return nodes[cell] + (nodes[1] - nodes[0]) * within, np.log(density)


def _draw_factors(
    law: GammaProduct,
    x: Array,
    eigenvalue: float,
    target: Array,
    noise: float,
    variances: Sequence[float],
    rng: np.random.Generator,
) -> list[Array]:
    """T_d, …, T_2, (m, rows, columns) each, given log λ (m,): weights in units of σ_ℓ/√n_{ℓ−1}."""
    widths = law.widths
    signal = eigenvalue * np.exp(x)
    share = signal / (signal + noise)
    deviation = np.sqrt(share * noise)
    outputs = share[:, None] * target + deviation[:, None] * rng.standard_normal((len(x), len(target)))
    lengths = np.exp(0.5 * law.split(x, rng)) * np.sqrt(np.asarray(widths[::-1]))  # χ(n_{d−1}), …, χ(n_1)
    deviations = np.sqrt(np.asarray(variances) / np.asarray(widths))[::-1]  # of W_d, …, W_2
    # f = √g · ∏ deviations · W_d h, h of length ∏ χ where the first layer's activities are standard normal
    activity = math.sqrt(eigenvalue) * float(deviations.prod()) * lengths.prod(axis=1)
    known = (outputs / activity[:, None])[:, :, None]
    steps = [length[:, None, None] for length in lengths.T[:-1]]  # |h_ℓ|/|h_{ℓ−1}| = χ(n_ℓ)
    factors, _ = factors_of_known(known, steps, [int(width) for width in widths[::-1]], rng)
    return [factor * unit for factor, unit in zip(factors, deviations, strict=True)]
