"""One row of several outputs behind narrow and wide layers, with targets of any size.

The squared lengths h_ℓ = h_{ℓ−1} σ_ℓ² χ²(n_ℓ)/n_{ℓ−1} of the hidden activities are a random walk in logs, and
the targets given the last of them are independent, N(0, k + τ_j) with k = σ_d² h_{d−1}/n_{d−1}. The referee
adds up the walk on an equidistant grid, density by density, under an exponential tilt which moves it to where
the posterior is: sums of positive terms, which keep their digits in every tail. W_ℓ acts freely beside the
activities, so that with f the outputs before noise

    E L = b_d I + E[f fᵀ Σ_ℓ b_ℓ/h_ℓ],   b_1 = 1,   b_ℓ = b_{ℓ−1} (n_{ℓ−1} − 1) σ_ℓ²/n_{ℓ−1},

whose sum is carried along the walk with the density.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

import lbnn
from benchmarks.silent_errors.judgement import Judgement

Array = NDArray[np.float64]

_REACH = 400.0  # nats below its peak at which a step of the walk ends: with 150 an evidence was off by 7e-7
_KINDS = ("independent", "per_output", "coupled", "zero temperature", "weighted row")


@dataclass(frozen=True)
class OneRow:
    """A network, one row, and the noise of its outputs."""

    kind: str
    widths: tuple[int, ...]
    variances: tuple[float, ...]
    gram: float
    y: Array
    noise: Array  # τ_j, (n_d,)
    name: str


def problems(count: int, seed: int) -> Iterator[OneRow]:
    """Depth two to five, widths 1 to 100, variances 0.01 to 10, targets from 0.01 to 100 times their size."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        widths = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 10, 30, 100], rng.integers(1, 5)))
        variances = tuple(float(v) for v in 10 ** rng.uniform(-2, 1, len(widths) + 1))
        outputs, gram = int(rng.integers(2, 41)), float(10 ** rng.uniform(-1.5, 1.5))
        kind = _KINDS[int(rng.choice(5, p=[0.5, 0.15, 0.1, 0.15, 0.1]))]
        noise = np.full(outputs, 10 ** rng.uniform(-3, 0.5))
        if kind == "per_output":
            noise = noise * 10 ** rng.uniform(-1, 1, outputs)
        if kind == "zero temperature":
            noise = np.zeros(outputs)
        size = np.sqrt(gram * np.prod(variances) + noise.mean()) * 10 ** rng.uniform(-2, 2)
        name = f"{number} of seed {seed}: {kind}, widths {widths}, {outputs} outputs, |y|/sd {size:.2g}"
        yield OneRow(kind, widths, variances, gram, size * rng.normal(size=outputs), noise, name)


def answered(problem: OneRow) -> Any:
    """The library's posterior."""
    network, y = lbnn.Network(problem.widths, problem.variances), problem.y[None]
    inputs, noise = np.array([[np.sqrt(problem.gram)]]), problem.noise
    if problem.kind == "per_output":
        return network.condition(inputs, y, 1 / noise, noise="per_output")
    if problem.kind == "zero temperature":
        return network.condition(inputs, y, np.inf)
    if problem.kind == "weighted row":
        return network.condition(inputs, y, 1 / (4 * noise[0]), weights=[4.0])
    kind = "coupled" if problem.kind == "coupled" else "independent"
    return network.condition(inputs, y, 1 / noise[0], noise=kind)


def judge(problem: OneRow) -> list[Judgement]:
    """Log evidence, E L along the targets, and its trace."""
    began = time.process_time()
    post = answered(problem)
    seconds = time.process_time() - began
    along = problem.y / np.linalg.norm(problem.y)
    parts = (lambda scale: along @ scale @ along, lambda scale: np.trace(scale))
    said = [(post.log_evidence, post.log_evidence_error), *map(post.scale.expect_with_error, parts)]
    fine, rough = referee(problem, 1.0), referee(problem, 2.0)
    names = ("log evidence", "E L along y", "trace of E L")
    ok = post.diagnostics.ok
    return [
        Judgement(f"{problem.name}, {name}", *own, truth, abs(truth - other), ok, seconds=seconds / 3)
        for name, own, truth, other in zip(names, said, fine, rough, strict=True)
    ]


def referee(problem: OneRow, coarseness: float) -> tuple[float, float, float]:
    """Log evidence, E L along the targets and its trace, on a grid of some coarseness."""
    widths, y = np.array(problem.widths, float), problem.y
    first, noise = problem.gram * problem.variances[0], problem.noise
    if problem.kind == "coupled":  # function and noise are one, as without noise
        first, noise = first + noise[0], np.zeros(len(y))
    free = np.cumprod(np.r_[1.0, (widths - 1) * problem.variances[1:] / widths])  # b_1, …, b_d
    shifts = np.log(np.r_[first, problem.variances[1:-1] / widths[:-1]])
    last = problem.variances[-1] / widths[-1]

    def log_likelihood(x: Array) -> Array:
        """Log p(y | h_{d−1} = e^x), (m,)."""
        total = last * np.exp(x)[:, None] + noise
        return -0.5 * (np.log(2 * np.pi * total) + y**2 / total).sum(axis=1)

    tilt = _tilt(widths / 2, shifts.sum(), log_likelihood)
    step = coarseness * min(0.1, 0.3 / np.sqrt(max(widths.max() / 2 + tilt, len(y) / 2)))
    x, log_density, log_sum = _walk(widths / 2, shifts, free, tilt, step)
    log_terms = log_likelihood(x) - tilt * x + np.log(step)
    log_evidence = special.logsumexp(log_density + log_terms)
    weights = np.exp(log_sum + log_terms - log_evidence)
    share = 1 / (1 + noise / (last * np.exp(x)[:, None]))  # E[f | k, y] = share · y
    squares = weights[:, None] * ((share * y) ** 2 + share * noise)  # diagonal of f fᵀ Σ b/h
    size = np.linalg.norm(y)
    seen = weights @ (((share * y) @ y / size) ** 2 + (share * noise) @ y**2 / size**2)
    return float(log_evidence), float(free[-1] + seen), float(len(y) * free[-1] + squares.sum())


def _tilt(shapes: Array, shift: float, log_likelihood: Any) -> float:
    """The power of the sum's exponential that centres the prior where the posterior has its peak."""
    gaps = np.exp(np.linspace(np.log(1e-3), np.log(1e7), 4000))
    tilts = gaps - shapes.min()
    arguments = shapes[:, None] + tilts
    places = (special.digamma(arguments) + np.log(2)).sum(axis=0) + shift  # where e^{tilt x} has its centre
    logs = special.gammaln(arguments).sum(axis=0) - tilts * (places - shift - len(shapes) * np.log(2))
    logs = logs - 0.5 * np.log(special.polygamma(1, arguments).sum(axis=0))
    inside = places > -600.0
    return float(tilts[inside][np.argmax((logs + log_likelihood(places))[inside])])


def _walk(shapes: Array, shifts: Array, free: Array, tilt: float, step: float) -> tuple[Array, Array, Array]:
    """x = log h_{d−1}, and logs of density and of density times E[Σ b_ℓ/h_ℓ | x], both times e^{tilt x}."""
    start, density, total = 0.0, np.ones(1), np.zeros(1)
    scale = 0.0
    for shape, shift, weight in zip(shapes, shifts, free, strict=False):
        z, logs = _log_chi_square(shape, shift, tilt, step)
        top = logs.max()
        own = np.exp(logs - top) * (step if len(density) > 1 else 1.0)
        density, total = np.convolve(density, own), np.convolve(total, own)
        start, scale = start + z[0], scale + top
        x = start + step * np.arange(len(density))
        total = total + weight * np.exp(-x) * density
    held = (density > 0) & (
        x > -600.0
    )  # e^x is a double, and steps that cannot be told from zero are left out
    return x[held], np.log(density[held]) + scale, np.log(total[held]) + scale


def _log_chi_square(shape: float, shift: float, tilt: float, step: float) -> tuple[Array, Array]:
    """Grid of z = log χ² + shift and its log density, plus tilt · z."""

    def tilted(w: Array) -> Array:
        """Log density of w = log(χ²/2) times e^{tilt w}."""
        return (shape + tilt) * w - np.exp(w) - special.gammaln(shape)

    peak = np.log(shape + tilt)
    top = tilted(peak)
    ends = [
        optimize.brentq(lambda w: float(tilted(w) - top + _REACH), *sorted((peak, far)))
        for far in (peak - 2 * _REACH / (shape + tilt) - 20, peak + 20)
    ]
    w = np.arange(ends[0], ends[1] + step, step)
    return w + np.log(2) + shift, tilted(w) + tilt * (np.log(2) + shift)
