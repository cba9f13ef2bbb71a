"""Learning curves at zero temperature, p ≤ n0: averages over data by quadrature, no draws.

Without noise the network interpolates, its mean is the interpolator m of least norm, and the data enter the
law of λ through s = yᵀG⁻¹y alone. With P the projection on the rows of X and m − w = −(1 − P)w + ζ, ζ in
their range,

    s = n0 |Pw + ζ|²,   |Pw|² = |w|² A,   |ζ|² = σ² R,   cos∠(Pw, ζ) = c,
    A ~ Beta(p/2, (n0 − p)/2),   R ~ χ²(p)/χ²(n0 − p + 1),   (1 + c)/2 ~ Beta((p − 1)/2, (p − 1)/2),

all three independent: X Xᵀ is independent of its directions, and εᵀ(X Xᵀ)⁻¹ε = |ε|²/χ²(n0 − p + 1) in the
Cholesky factor whose last axis is ε. The same χ² is a factor of det(X Xᵀ), so that log det given R has the
mean constant − log(1 + R). A teacher drawn from the prior adds |w|² as a fourth variable. The log-odds of
each have the density e^{at}/(1 + e^t)^{a+b} and are integrated by the trapezoid rule; functions of s, each an
integral over λ, are interpolated in log s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from lbnn._base.types import Array
from lbnn.learning_curves.gaussian_data import expected_log_determinant
from lbnn.learning_curves.sampled import Point, Problem
from lbnn.learning_curves.scale_law import DROP, FARTHEST, Panels, ScaleLaw, at_one_scale, integrate
from lbnn.scale.gamma_product import GammaProduct

#: Nodes of each variable, by the number of variables, some 10⁵ points in all; every other node makes the rule
#: that the answer is checked against.
_NODES = (1, 385, 193, 49, 25)
_SETTLED = 1e-7  # relative change between the two rules below which an average counts as exact
_SMALLEST = 1e-30  # s relative to its median over nodes below which it is taken as that small
_TAIL = 25.0  # e-folds to which tails of R matter, times what is averaged
_LARGEST_LAYER = 10.0  # log of |w_ℓ|² of every layer at which power laws in s take over: e⁻¹⁰ from them


@dataclass(frozen=True)
class Rule:
    """Nodes and probabilities of one random variable, (k,) each."""

    nodes: Array
    weights: Array

    @property
    def halved(self) -> Rule:
        """Every other node: the same rule with twice the step."""
        if len(self.nodes) < 3:
            return self
        weights = self.weights[::2]
        return Rule(self.nodes[::2], weights / weights.sum())


def log_odds_rule(first: float, second: float, count: int, power: float = 0.0, drop: float = DROP) -> Rule:
    """t = log(u/(1 − u)) for u ~ Beta(first, second), good for averages of e^{power · t} too.

    The trapezoid rule in v, t = centre + spread · sinh(v): tails are exponential, and e^{power · t} may make
    the decay of the right one arbitrarily slow.
    """
    log_constant = -float(special.betaln(first, second))

    def log_density(t: Array) -> Array:
        """Log density at t of any shape."""
        return first * t - (first + second) * np.logaddexp(0.0, t) + log_constant

    return _stretched(
        log_density,
        math.log(first / second),
        math.sqrt(float(special.polygamma(1, first) + special.polygamma(1, second))),
        count,
        power,
        drop,
    )


def _stretched(
    log_density: Callable[[Array], Array],
    centre: float,
    spread: float,
    count: int,
    power: float,
    drop: float,
) -> Rule:
    """Trapezoid rule for a density of one peak on the line."""
    ends = []
    for sign in (-1.0, 1.0):
        v = np.linspace(0.0, np.arcsinh(FARTHEST / spread), 2001)
        t = centre + sign * spread * np.sinh(v)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # far out: no density left
            values = log_density(t) + max(sign * power, 0.0) * np.abs(t - centre) + np.log(np.cosh(v))
        values = np.where(np.isnan(values), -np.inf, values)
        ends.append(sign * v[int(np.argmax((values < values.max() - drop) & (v > v[values.argmax()])))])
    v = np.linspace(ends[0], ends[1], count)
    t = centre + spread * np.sinh(v)
    weights = np.exp(log_density(t)) * spread * np.cosh(v) * (v[1] - v[0])
    return Rule(t, weights / weights.sum())


@dataclass(frozen=True)
class _Variables:
    """A, R, c and |w|² at the nodes of a product rule, flat, with their probabilities."""

    squares: Array  # |w|²
    within: Array  # A
    ratio: Array  # R
    s: Array
    weights: Array


def _variables(problem: Problem, count: int, halved: bool) -> _Variables:
    """The product rule over what is random."""
    examples, inputs, noise = problem.examples, problem.inputs, problem.teacher.noise
    one = Rule(np.zeros(1), np.ones(1))
    freedom = inputs - examples + 1
    seen = log_odds_rule(examples / 2, (inputs - examples) / 2, count) if examples < inputs else one
    powers = np.multiply.outer([0.0, 1.0, 2.0], [_growth(problem), 1 - _growth(problem)]).ravel()
    power = max(q for q in (*powers, 1 + _growth(problem)) if q < freedom / 2)
    ratio = log_odds_rule(examples / 2, freedom / 2, count, power, _TAIL) if noise > 0 else one
    if noise == 0 or problem.teacher.norm == 0:
        angle = one
    elif examples == 1:
        angle = Rule(np.array([-40.0, 40.0]), np.full(2, 0.5))  # c = ±1
    else:
        angle = log_odds_rule((examples - 1) / 2, (examples - 1) / 2, count)
    if problem.teacher.norm is not None:
        norm = Rule(np.array([2 * math.log(problem.teacher.norm or 1.0)]), np.ones(1))
    else:
        law = problem.norm_law  # of log |w|² for a teacher drawn from the prior
        norm = _stretched(law.log_density, law.location(0.0), law.spread(0.0), count, 2.0, DROP)
    rules = [each.halved if halved else each for each in (norm, seen, ratio, angle)]
    size, odds, log_ratio, turn = np.meshgrid(*(each.nodes for each in rules), indexing="ij")
    weights = np.ones(())
    for each in rules:
        weights = np.multiply.outer(weights, each.weights)
    squares = np.exp(size) if problem.teacher.norm != 0 else np.zeros_like(size)
    within = special.expit(odds) if examples < inputs else np.ones_like(odds)
    spread = np.exp(log_ratio) if noise > 0 else np.zeros_like(log_ratio)
    a, b = np.sqrt(squares * within), noise * np.sqrt(spread)
    # |Pw + ζ|² = (a − b)² + 4ab (1 + c)/2: without cancellation
    s = inputs * ((a - b) ** 2 + 4 * a * b * special.expit(turn))
    return _Variables(*(each.ravel() for each in (squares, within, spread, s, weights)))


def _dimension(problem: Problem) -> int:
    """Number of variables that the product rule is over."""
    random_norm, noisy = problem.teacher.norm is None, problem.teacher.noise > 0
    angle = noisy and problem.teacher.norm != 0 and problem.examples > 1
    return random_norm + (problem.examples < problem.inputs) + noisy + angle


def _functions_of(problem: Problem, s: Array) -> tuple[Array, Array]:
    """log Z(s) and E λσ_1², (k,) each, interpolated in log s.

    Z(s) = ∫ ϖ(λ) λ^{−p/2} e^{−s/2λ} dλ is analytic for Re s > 0, |Im log s| < π/2. Where s is so large that
    every layer is e^{10} times its prior size, log Z and log λ are powers of s, s^{1/d} and s^{(d−1)/d}.
    """
    law = problem.law
    if law is None:
        v = problem.variance
        return -0.5 * (problem.examples * math.log(v) + s / v), np.full(len(s), v)
    layers = len(law.widths)
    cap = min(law.widths) * problem.variance * math.exp(_LARGEST_LAYER * (layers + 1))
    inner = np.log(np.minimum(s, cap))
    panels = Panels.over(float(inner.min()), float(inner.max()), math.pi / 2)
    parts = []
    for nodes in panels.nodes.reshape(panels.count, panels.each):
        given = _law_given(problem, law, np.exp(nodes))
        parts.append((given.log_total, np.log(given.scale_mean)))
    log_total, log_mean = (
        panels.interpolate(np.concatenate(each), inner) for each in zip(*parts, strict=True)
    )
    beyond = np.maximum(np.log(s / cap), 0.0) / (layers + 1)
    return log_total * np.exp(beyond), np.exp(log_mean + layers * beyond)


def _law_given(problem: Problem, law: GammaProduct, s: Array) -> ScaleLaw:
    """Posterior of x = log λσ_1² for every s (m,): prior × e^{−px/2 − s e^{−x}/2}."""

    def over(low: float, high: float) -> Callable[[Array], Array]:
        return lambda x: -0.5 * (problem.examples * x + s[:, None] * np.exp(-x))

    span = max(60.0, abs(math.log(s.max())) + 40, abs(math.log(s.min())) + 40)
    x = np.linspace(max(-span, -FARTHEST), min(span, FARTHEST), 4001)
    rough = law.saddle_log_density(x)
    low, high = math.inf, -math.inf
    for each in (s.min(), s.max()):
        with np.errstate(over="ignore"):
            values = rough - 0.5 * (problem.examples * x + each * np.exp(-x))
        for power in (0, 1):
            near = np.flatnonzero(values + power * x >= np.nanmax(values + power * x) - DROP)
            low, high = min(low, x[max(near[0] - 1, 0)]), max(high, x[min(near[-1] + 1, len(x) - 1)])
    return integrate(law, over, float(low), float(high))


def exact_point(problem: Problem) -> Point:
    """Every quantity of one point of a curve."""
    mean, rough = (_averages(problem, halved) for halved in (False, True))
    with np.errstate(invalid="ignore"):
        change = np.abs(mean - rough)
        allowed = _SETTLED * np.maximum(np.abs(mean), 1.0 * (np.arange(4) == 1))
    change[np.isinf(mean)] = 0.0
    return Point(mean, np.where(change <= allowed, 0.0, change), np.empty((0, 4)), ())


def _averages(problem: Problem, halved: bool) -> Array:
    """Means over data sets of `QUANTITIES`, (4,)."""
    data = _variables(problem, _NODES[_dimension(problem)], halved)
    log_z, scale = _at(problem, data.s)
    examples, inputs, noise = problem.examples, problem.inputs, problem.teacher.noise
    freedom, share = inputs - examples + 1, 1 - examples / inputs
    # with noise E λ grows like R to the first power, log Z falls like R to the second
    grows, falls = (_growth(problem), 1 - _growth(problem)) if noise > 0 else (0.0, 0.0)
    scale_mean = data.weights @ scale if grows < freedom / 2 else math.inf
    log_evidence = float(data.weights @ (log_z - 0.5 * examples * math.log(2 * math.pi)))
    log_evidence -= 0.5 * expected_log_determinant(examples, inputs)
    if falls >= freedom / 2:
        log_evidence = -math.inf
    square = math.exp(problem.norm_law.shift) if problem.teacher.norm is None else problem.teacher.norm**2
    error = square * share  # and E R = p/(ν − 2)
    if noise > 0:
        error += noise**2 * examples / (freedom - 2) if freedom > 2 else math.inf
    gibbs = error + share * scale_mean if share else error
    return np.array([scale_mean / problem.first_variance, log_evidence, error, gibbs])


def _at(problem: Problem, s: Array) -> tuple[Array, Array]:
    """log Z and E λσ_1² at values of s, (k,) each."""
    if not s.any():
        law = _law_given_zero(problem)
        return np.full(len(s), law.log_total[0]), np.full(len(s), law.scale_mean[0])
    return _functions_of(problem, np.maximum(s, _SMALLEST * np.median(s[s > 0])))


def _law_given_zero(problem: Problem) -> ScaleLaw:
    """The law of λ for targets that are zero: its prior × λ^{−p/2}, where that can be normalised."""
    law = problem.law
    if law is None:
        x = math.log(problem.variance)
        return at_one_scale(x, lambda points: -0.5 * problem.examples * points[None])
    if min(law.widths) <= problem.examples:
        raise ValueError(
            "targets that are zero (no teacher, no noise) have a zero-temperature posterior if every hidden "
            f"layer is wider than the number of examples, got widths={tuple(map(int, law.widths))} and "
            f"{problem.examples} examples"
        )
    centre = law.location(-problem.examples / 2)
    return integrate(
        law, lambda low, high: lambda x: -0.5 * problem.examples * x[None], centre - 5, centre + 5
    )


def _growth(problem: Problem) -> float:
    """E λ grows like s to this power: s/λ balances Σ_ℓ n_ℓ u_ℓ with Π u_ℓ = λ over d − 1 layers."""
    layers = 0 if problem.law is None else len(problem.law.widths)
    return layers / (layers + 1)
