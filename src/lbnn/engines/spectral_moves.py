"""Gibbs moves for the posterior of a scale matrix of low rank, in spectral coordinates.

A hidden layer of m units, no wider than the outputs (m ≤ n_d), makes L = F Fᵀ with F of shape (n_d, m).
Its prior is a chain of Wishart matrices of size m: with the narrowest layer as number j and c = ∏_ℓ σ_ℓ² /
∏_ℓ n_ℓ,

    S_0 = c I,   S_k | S_{k−1} ~ Wishart_m(ν_k, S_{k−1}),   rows of F | S_K ~ N(0, S_K),   K = d − 2,

with the degrees of freedom ν = (n_{j−1}, …, n_1, n_{j+1}, …, n_{d−1}): layers below the narrowest one
enter through their Gram matrices on its side, layers above through theirs. (`factors_of` reads the
Bartlett factors off such a chain.)

A particle keeps F = U diag(√l) with orthonormal columns U; an orthogonal matrix from the right changes the
law of nothing if the S_k are conjugated by it. The likelihood separates over the columns, z_ij = ỹ_i · u_j
~ N(0, τ + g_i l_j), and every move below leaves the posterior at noise variance τ invariant:

- `move_values`: log l_j together with the same direction of S_1, …, S_K, so that a direction of the outputs
  changes between fitted and collapsed in all layers at once. Its law is a convolution over the layers; a
  table proposes, the density accepts.
- `move_column`: the same together with the angle between a column and an axis of the data.
- `rotate_columns`: a rotation in the plane of two columns has a von Mises law.
- `move_root`: with the hidden activities h drawn, ỹ_i = √g_i F h_i + noise is a regression, and F given h
  is Gaussian.
- `move_inner`: S_k given its neighbours is matrix generalised inverse Gaussian; a row given the rest is
  Gaussian, its Schur complement generalised inverse Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lbnn._base.small_matrices import solve_lower, solve_lower_transposed
from lbnn._base.types import Array, IndexArray, Mask

_TABLE_STEP = 0.3  # largest distance of nodes in log l: more than 90% of proposals are accepted
_STEP_IN_DEVIATIONS = 0.9  # the same for many rows, where log l has the deviation √(2/r)
_BELOW, _BELOW_PER_LAYER = 12.0, 6.0  # e-folds of the table below τ/g: the prior of log l falls at least
# like e^{νx/2} there, ν the smallest number of degrees of freedom; half of them from ν = 2 on
_ABOVE = 3.0  # e-folds above the largest value that prior or data suggest
_DEEPEST = -60.0  # floor of the table relative to its maximum; proposals below it have a chance of 1e-26
_COARSER, _ANGLES = 3, np.linspace(-5.2, 5.2, 27)  # tables over size and angle: ζ up to φ = 0.011
_LARGEST_SINGLE = 1e5  # exponents up to which tables that only propose have single precision: off by 0.01
_GRADED = 1e-14  # ratio of values of L below which directions by a Gram matrix are off by more than 1e-9
_SMALLEST_SINE = 1e-6  # of angles below which a direction is lost to rounding
_TAIL = 8.0  # degrees of freedom of proposed ratios: heavier tails than their law
_NEWTON_STEPS, _LONGEST_NEWTON = 6, 4.0  # what is left is spread over the layers; proposals need no more
_RATIO_STEP, _RATIO_RANGE = (
    0.1,
    30.0,
)  # largest distance of nodes of the convolution of ratios, and their range
_CROSSED = np.linspace(-12.0, 12.0, 33)  # ρ for which it is tabulated
_TINY = 1e-300  # keeps the logarithm of a distance of two equal values finite


@dataclass(frozen=True)
class NarrowPosterior:
    """Data in the eigenbasis of the Gram matrix, and the chain of Wishart matrices behind the scale."""

    eigenvalues: Array  # g, (r,), positive
    targets: Array  # ỹ along the axes of the data, (r, n_d)
    axes: Array  # (n_d, n_d), orthogonal: ỹ as given is targets @ axes.T
    noise: float  # τ
    columns: int  # m
    degrees: tuple[int, ...]  # ν_1, …, ν_K, n_d
    base: float  # c
    nodes: Array = field(repr=False)  # of the tables of log l, equidistant
    ratios: RatioTable = field(repr=False)

    @property
    def outputs(self) -> int:
        """n_d."""
        return self.targets.shape[1]

    @property
    def layers(self) -> int:
        """K, the number of inner matrices S_k."""
        return len(self.degrees) - 1

    @property
    def shares(self) -> Array:
        """k/(K + 1), (K,): how far S_k goes along with L where every layer takes the same part."""
        return np.arange(1, self.layers + 1) / (self.layers + 1)


def narrow_posterior(
    eigenvalues: Array,
    targets: Array,
    noise: float,
    widths: Sequence[int],
    variance: float = 1.0,
) -> NarrowPosterior:
    """Posterior of L for g (r,), ỹ (r, n_d), τ, and widths of which the narrowest is at most n_d.

    `variance` is ∏ σ_ℓ² of the layers in L.
    """
    rows, outputs = targets.shape
    narrowest = int(np.argmin(widths))
    columns = widths[narrowest]
    if columns > outputs:
        raise ValueError(
            "the narrowest hidden layer must have at most as many units as there are outputs, got "
            f"{columns} units and {outputs} outputs: sample the Bartlett factors of the scale instead"
        )
    if not (0 < noise < math.inf and rows):
        raise ValueError(
            f"needs data and a noise variance that is positive and finite, got {rows} rows and {noise}"
        )
    seen = np.sqrt(eigenvalues / (noise + eigenvalues))[:, None] * targets
    axes = np.linalg.svd(seen, full_matrices=True)[2].T
    rotated = targets @ axes
    step = min(_TABLE_STEP, _STEP_IN_DEVIATIONS * math.sqrt(2 / rows))
    degrees = (*reversed(widths[:narrowest]), *widths[narrowest + 1 :], outputs)
    below = (_BELOW + _BELOW_PER_LAYER * (len(widths) - 1)) / min(*degrees, 2)
    low = math.log(noise / eigenvalues.max()) - below
    high = math.log(max(8 * variance, 4 * float((rotated**2).sum(axis=0).max() / eigenvalues.sum()))) + _ABOVE
    nodes = np.linspace(low, high, math.ceil((high - low) / step) + 1)
    return NarrowPosterior(
        eigenvalues,
        rotated,
        axes,
        noise,
        columns,
        degrees,
        variance / math.prod(widths),
        nodes,
        RatioTable(degrees, len(degrees) - 1, nodes),
    )


@dataclass
class Particles:
    """States of the chains: U, l, ỹU and S_1, …, S_K in the basis in which FᵀF is diagonal."""

    directions: Array  # Uᵀ, (N, m, n_d), orthonormal rows in any order
    values: Array  # l, (N, m)
    projections: Array  # (ỹU)ᵀ, (N, m, r)
    inner: list[Array]  # K arrays (N, m, m)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: IndexArray | slice) -> Particles:
        """Copies of the particles with index (k,)."""
        return Particles(
            self.directions[index].copy(),
            self.values[index].copy(),
            self.projections[index].copy(),
            [each[index].copy() for each in self.inner],
        )

    @property
    def roots(self) -> Array:
        """F = U diag(√l), (N, n_d, m)."""
        return np.asarray((self.directions * np.sqrt(self.values)[:, :, None]).swapaxes(1, 2))


def join(parts: Sequence[Particles]) -> Particles:
    """All particles of several sets."""
    return Particles(
        np.concatenate([part.directions for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.projections for part in parts]),
        [np.concatenate(each) for each in zip(*(part.inner for part in parts), strict=True)],
    )


def particles_of(
    posterior: NarrowPosterior, roots: Array, inner_roots: list[Array], rng: np.random.Generator
) -> Particles:
    """Particles of Fᵀ (N, m, n_d) and R_k (N, m, m), S_k = R_kᵀ R_k; columns of F come in random order.

    R_k, not S_k, is taken to the basis in which FᵀF is diagonal: behind six layers eigenvalues of S_k are
    1e−18 of the largest, and entries of S_k that belong to them would be rounded away.

    An order by size would make "column one" a choice that depends on the state, and moving it no Gibbs
    move.
    """
    right = np.linalg.eigh(roots @ roots.swapaxes(1, 2)).eigenvectors
    turned = right.swapaxes(1, 2) @ roots
    values = (turned**2).sum(axis=2)
    graded = values.min(axis=1) < _GRADED * values.max(axis=1)
    if graded.any():  # a Gram matrix has no digits of such small singular values
        left, sizes, directions = np.linalg.svd(roots[graded], full_matrices=False)
        right[graded], values[graded] = left, sizes**2
        turned[graded] = sizes[:, :, None] * directions
    order = np.argsort(rng.random(values.shape), axis=1)
    right = np.take_along_axis(right, order[:, None, :], axis=2)
    values = np.take_along_axis(values, order, axis=1)
    directions = np.take_along_axis(turned, order[:, :, None], axis=1) / np.sqrt(values)[:, :, None]
    inner = [_gram(each @ right) for each in inner_roots]
    return Particles(directions, values, _projections(posterior, directions), inner)


def _gram(roots: Array) -> Array:
    """RᵀR, (N, m, m)."""
    return np.asarray(roots.swapaxes(1, 2) @ roots)


def inner_roots(particles: Particles) -> list[Array]:
    """Upper triangular R_k (N, m, m) of S_k = R_kᵀ R_k."""
    return [np.asarray(np.linalg.cholesky(each)).swapaxes(1, 2) for each in particles.inner]


def _projections(posterior: NarrowPosterior, directions: Array) -> Array:
    """(ỹU)ᵀ, (N, m, r)."""
    size, columns, outputs = directions.shape
    return np.asarray(directions.reshape(-1, outputs) @ posterior.targets.T).reshape(size, columns, -1)


def draw_prior(posterior: NarrowPosterior, size: int, rng: np.random.Generator) -> Particles:
    """Draws of the prior, through Bartlett's decomposition of every Wishart matrix."""
    columns = posterior.columns
    root = np.broadcast_to(math.sqrt(posterior.base) * np.eye(columns), (size, columns, columns))
    inner = []
    for degrees in posterior.degrees[:-1]:
        bartlett = np.triu(rng.standard_normal((size, columns, columns)), 1)
        chi = np.sqrt(rng.chisquare(degrees - np.arange(columns), (size, columns)))
        bartlett[:, np.arange(columns), np.arange(columns)] = chi
        root = bartlett @ root
        inner.append(root)
    normal = rng.standard_normal((size, posterior.outputs, columns))
    return particles_of(posterior, (normal @ root).swapaxes(1, 2), inner, rng)


def inverse(matrices: Array) -> Array:
    """Inverses (N, m, m) of positive definite matrices whose rows may differ by many orders of magnitude."""
    scale = 1 / np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    both = scale[:, :, None] * scale[:, None, :]
    result: Array = np.linalg.inv(matrices * both) * both
    return result


def log_determinant(matrices: Array) -> Array:
    """Log determinants (N,) of positive definite matrices (N, m, m), by their Cholesky factors."""
    diagonal = np.diagonal(np.linalg.cholesky(matrices), axis1=1, axis2=2)
    result: Array = 2 * np.log(diagonal).sum(axis=1)
    return result


def precisions(posterior: NarrowPosterior, particles: Particles) -> list[Array]:
    """S_0⁻¹, …, S_K⁻¹, (N, m, m) each."""
    shape = (len(particles), posterior.columns, posterior.columns)
    first = np.broadcast_to(np.eye(posterior.columns) / posterior.base, shape)
    return [first, *(inverse(each) for each in particles.inner)]


def log_likelihood(posterior: NarrowPosterior, values: Array, projections: Array, noise: float) -> Array:
    """log p(Y | L) at a noise variance, with its constants, (N,)."""
    ratio = 1 + (posterior.eigenvalues / noise) * values[:, :, None]
    seen = (projections**2 * (1 - 1 / ratio)).sum(axis=(1, 2))
    total = float((posterior.targets**2).sum())
    constant = -0.5 * (posterior.targets.size * math.log(2 * math.pi * noise) + total / noise)
    result: Array = constant - 0.5 * np.log(ratio).sum(axis=(1, 2)) + 0.5 / noise * seen
    return result


def log_prior(posterior: NarrowPosterior, particles: Particles, chain: list[Array]) -> Array:
    """Log density of F and S_1, …, S_K, up to a constant, (N,), with `precisions` (N, m, m) in `chain`."""
    columns, total = posterior.columns, np.zeros(len(particles))
    log_above: Array | float = 0.0
    for layer, degrees in enumerate(posterior.degrees):
        precision = chain[layer]
        total -= 0.5 * degrees * log_above
        if layer == posterior.layers:
            total -= 0.5 * (np.diagonal(precision, axis1=1, axis2=2) * particles.values).sum(axis=1)
        else:
            below = particles.inner[layer]
            log_above = log_determinant(below)
            total += 0.5 * (degrees - columns - 1) * log_above - 0.5 * (precision * below).sum(axis=(1, 2))
    return total


def log_vandermonde(values: Array) -> Array:
    """Σ_{i<j} log|l_i − l_j|, (N,): dF is ∏ l^{(n_d−m−1)/2} ∏|l_i − l_j| dl dU."""
    first, second = np.triu_indices(values.shape[1], 1)
    result: Array = np.log(np.abs(values[:, first] - values[:, second]) + _TINY).sum(axis=1)
    return result


def sweep(
    posterior: NarrowPosterior,
    particles: Particles,
    noise: float,
    rng: np.random.Generator,
    axes: Sequence[int] = (),
    whole: bool = True,
) -> Particles:
    """Every move once, with `move_column` for every column and each of these axes of the data.

    Without `whole` only `move_column` and `move_root`. Particles are changed in place where that is possible.
    """
    chain = precisions(posterior, particles)
    signal = SignalTable(posterior, noise)
    if whole:
        move_values(posterior, particles, chain, signal, rng)
    for axis in axes:
        for j in rng.permutation(posterior.columns):
            move_column(posterior, particles, chain, signal, rng, int(j), axis)
    if whole:
        rotate_columns(posterior, particles, noise, rng)
        move_inner(posterior, particles, chain, rng)
    return move_root(posterior, particles, chain, noise, rng)


class SignalTable:
    """What log p(Y | L) has of one direction of size l = e^x: logs(x) + Σ_i weights_i(x) z_i².

    Nodes begin as far below the noise variance τ as those of the posterior.
    logs = −½ Σ_i log(1 + g_i l/τ) and weights_i = ½ g_i l/(τ (τ + g_i l)), at the nodes and anywhere.
    """

    def __init__(self, posterior: NarrowPosterior, noise: float) -> None:
        self.ratios, self.noise = posterior.eigenvalues / noise, noise
        lowest = posterior.nodes[0] + math.log(noise / posterior.noise)
        self.nodes = posterior.nodes[max(np.searchsorted(posterior.nodes, lowest) - 1, 0) :]
        self.logs, weights = self.at(self.nodes)
        largest = 0.5 * float((posterior.targets**2).sum()) / noise  # of weights · z²
        self.kind: Any = np.float32 if largest < _LARGEST_SINGLE else np.float64
        self.weights: Array = weights.T.astype(self.kind)  # of tables, (r, nodes)

    def at(self, x: Array) -> tuple[Array, Array]:
        """(…) → (…), (…, r)."""
        ratio = 1 + np.exp(x)[..., None] * self.ratios
        return -0.5 * np.log(ratio).sum(axis=-1), (0.5 - 0.5 / ratio) / self.noise


class _ColumnLaw:
    """Prior of the size of column j of F given everything else, where the inner matrices go with it.

    With D_k = I + (d_k − 1) e_j e_jᵀ let S_k → D_k S_k D_k and column j → d_{K+1} times it. The ratios
    e^{y_k} = d_k/d_{k−1} of neighbouring layers (d_0 = 1) are independent under the prior, but for the factor
    that eigenvalues of L have, which depends on l_j only: y_k has the log density
    ν_k y − ½ q_k e^{2y} − c_k e^y with q_k = (P_k)_jj (S_k)_jj and c_k = Σ_{i≠j} (P_k)_ji (S_k)_ij,
    P_k = S_{k−1}⁻¹. In v_k = y_k + ½ log q_k this is ν_k v − ½ e^{2v} − ρ_k e^v, ρ_k = c_k/√q_k, where
    neither ν_k nor ρ_k change by the move, and log l_j is 2 Σ_k v_k and a constant. So the law of the size
    is a convolution (`RatioTable`), and the ratios given the size are log-concave and nearly Gaussian. ρ is
    zero for the first layer (P_1 is a multiple of I) and the last (FᵀF is diagonal).
    """

    def __init__(self, posterior: NarrowPosterior, particles: Particles, chain: list[Array], j: int) -> None:
        """The law of column j, with inverses (N, m, m) of the inner matrices in `chain`."""
        self.particles, self.chain, self.j, self.table = particles, chain, j, posterior.ratios
        self.others = np.delete(particles.values, j, axis=1)
        self.extra = posterior.columns - 1
        self.degrees = np.asarray(posterior.degrees, float)
        self.size = np.log(particles.values[:, j])
        products = [chain[k][:, j] * each[:, j] for k, each in enumerate(particles.inner)]
        diagonal = [each[:, j] for each in products]
        crossed = [each.sum(axis=1) - own for each, own in zip(products, diagonal, strict=True)]
        diagonal.append(chain[-1][:, j, j] * particles.values[:, j])
        crossed.append(np.zeros(len(particles)))
        if len(crossed) > 1:
            crossed[0] = np.zeros(len(particles))  # exactly; not by rounding
        root = np.sqrt(np.array(diagonal))
        self.places = np.log(root)  # v_k, (K + 1, N)
        self.crossed = np.array(crossed) / root  # ρ_k
        self.offset = self.places.sum(axis=0) - 0.5 * self.size

    def log_repulsion(self, x: Array) -> Array:
        """Log density of log l_j = x by the other eigenvalues of L: Σ_i log|e^x − l_i|; to (N, any)."""
        value = np.exp(x)
        distance = np.ones((len(self.others), x.shape[1]))
        for other in self.others.T:
            distance *= np.abs(value - other[:, None])
        return np.asarray(np.log(distance + _TINY))

    def log_marginal(self, x: Array, every: int = 1) -> Array:
        """Log density of log l_j = x up to a constant, (k,) → (N, k): for proposals.

        x are the nodes of the posterior from some node on, or one of `every` so many.
        """
        logs = self.table.log_densities(self.offset + 0.5 * x[0], len(x), every, self.crossed)
        logs -= 0.5 * self.extra * x
        if self.extra:
            logs += self.log_repulsion(x[None])
        return logs

    def log_joint(self, x: Array, places: Array) -> Array:
        """Log density of log l_j = x and all ratios, (N,)."""
        with np.errstate(over="ignore"):  # of a proposal that will be rejected
            root = np.exp(places)
            logs = self.degrees[:, None] * places - (0.5 * root + self.crossed) * root
        return np.asarray(logs.sum(axis=0) - 0.5 * self.extra * x + self.log_repulsion(x[:, None])[:, 0])

    def draw_ratios(self, x: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Ratios v_k (K + 1, N) that belong to a size x (N,), and log q(new) − log q(current)."""
        if len(self.places) == 1:
            return (self.offset + 0.5 * x)[None], np.zeros(len(x))
        totals = self.offset + 0.5 * np.stack([x, self.size])
        modes, curvatures = _constrained_modes(self.degrees, self.crossed, totals)  # (K + 1, 2, N)
        spread = 1 / curvatures
        normal = np.sqrt(spread[:, 0]) * rng.standard_normal(self.places.shape)
        normal *= np.sqrt(_TAIL / rng.chisquare(_TAIL, len(x)))
        normal -= spread[:, 0] / spread[:, 0].sum(axis=0) * normal.sum(axis=0)
        deviations = np.stack([normal, self.places - modes[:, 1]], axis=1)
        square = (curvatures * deviations**2).sum(axis=0)
        logs = 0.5 * (np.log(curvatures).sum(axis=0) + np.log(spread.sum(axis=0)))
        logs -= 0.5 * (_TAIL + len(spread) - 1) * np.log1p(square / _TAIL)
        return modes[:, 0] + normal, logs[0] - logs[1]

    def scale(self, accepted: Mask, places: Array) -> None:
        """Take accepted particles (N,) to other ratios: l_j, the inner matrices and their inverses."""
        steps = np.where(accepted, places - self.places, 0.0)
        totals = np.cumsum(steps, axis=0)
        self.particles.values[:, self.j] *= np.exp(2 * totals[-1])
        for matrices, inverses, total in zip(self.particles.inner, self.chain[1:], totals, strict=False):
            root = np.exp(total)[:, None]
            for array, scale in ((matrices, root), (inverses, 1 / root)):
                array[:, self.j, :] *= scale
                array[:, :, self.j] *= scale


def _constrained_modes(degrees: Array, crossed: Array, totals: Array) -> tuple[Array, Array]:
    """Modes of Σ_k (ν_k v_k − ½ e^{2v_k} − ρ_k e^{v_k}) given Σ_k v_k = total, and its negative curvatures.

    There ν_k − e^{2v} − ρ_k e^v = λ for all k, a quadratic equation for e^{v_k}; the sum of its solutions
    falls with λ from +∞ to −∞ (at the smallest ν), and Newton's method in log(ν_min − λ) finds the total.
    Shapes (K + 1,), (K + 1, N), (any, N) → (K + 1, any, N) twice.
    """
    lowest = degrees.min()
    above, linear = (degrees - lowest)[:, None, None], crossed[:, None, :]
    if len(degrees) == 2:  # no ρ_k: e^{2v_1} e^{2v_2} = (above_1 + gap) (above_2 + gap), one of which is gap
        square = above + _positive_root(above.max(), np.exp(2 * totals))
        return 0.5 * np.log(square), 2 * square
    log_gap = np.full(totals.shape, math.log(lowest))
    for _ in range(_NEWTON_STEPS):
        gap = np.exp(log_gap)
        need = above + gap  # e^{2v} + ρ e^v
        root = _positive_root(linear, need)
        slope = (gap / (2 * root**2 + linear * root)).sum(axis=0)  # of Σ v in log gap
        log_gap += np.clip((totals - np.log(root).sum(axis=0)) / slope, -_LONGEST_NEWTON, _LONGEST_NEWTON)
    root = _positive_root(linear, above + np.exp(log_gap))
    modes = np.log(root)
    modes += (totals - modes.sum(axis=0)) / len(modes)  # what Newton's method left, so that the sum is exact
    return modes, 2 * root**2 + linear * root


def _positive_root(linear: Array, need: Array) -> Array:
    """The positive solution of e² + linear · e = need, arrays of the same shape, without cancellation."""
    discriminant = np.sqrt(linear**2 + 4 * need)
    return np.asarray(
        np.where(linear > 0, 2 * need / (discriminant + np.abs(linear)), 0.5 * (discriminant - linear))
    )


class RatioTable:
    """Log density of Σ_k v_k, v_k independent with log densities ν_k v − ½ e^{2v} − ρ_k e^v: a convolution.

    Tabulated for values of ρ of the last inner matrix; other ρ_k are taken as zero, which only makes
    proposals worse. Its nodes divide half the distance of the `nodes` of log l, so that the densities of one
    particle at all of these are every so many entries of one row of the table.
    """

    def __init__(self, degrees: Sequence[int], layers: int, nodes: Array) -> None:
        """For nodes (k,) of log l, equidistant."""
        step = nodes[1] - nodes[0]
        tilt = 0.9 * min(degrees)  # keeps what is far below in the range of numbers; divided out in the end
        self.finer = math.ceil(0.5 * step / _RATIO_STEP)
        self.step = 0.5 * step / self.finer
        places = self.step * np.arange(-round(_RATIO_RANGE / self.step), round(3 / self.step))
        self.slopes, self.low = _CROSSED if layers > 1 else np.zeros(1), len(degrees) * places[0]
        logs = []
        for slope in self.slopes:
            crossed = [slope if k == layers - 1 > 0 else 0.0 for k in range(len(degrees))]
            total, log_scale = np.ones(1), 0.0
            for degree, each in zip(degrees, crossed, strict=True):
                law = (degree - tilt) * places - (0.5 * np.exp(places) + each) * np.exp(places)
                total, log_scale = np.convolve(total, np.exp(law - law.max())), log_scale + law.max()
            at = self.low + self.step * np.arange(len(total))
            logs.append(np.log(np.maximum(total, _TINY)) + log_scale + tilt * at)
        beyond = self.finer * len(nodes)  # the table goes on as it ends
        self.logs = np.pad(np.array(logs), ((0, 0), (beyond, beyond)), mode="edge")
        self.low -= beyond * self.step

    def log_densities(self, start: Array, count: int, every: int, crossed: Array) -> Array:
        """Interpolated at start (N,) and then after every so many nodes of log l, for ρ_k (K + 1, N).

        (N, count).
        """
        stride = self.finer * every
        windows = sliding_window_view(self.logs, stride * (count - 1) + 1, axis=1)[:, :, ::stride]
        place = np.clip((start - self.low) / self.step, 0.0, windows.shape[1] - 1.001)
        first = place.astype(int)
        row: IndexArray | int = 0
        if len(self.slopes) > 1:
            step = self.slopes[1] - self.slopes[0]
            near = np.rint((crossed[-2] - self.slopes[0]) / step)
            row = np.clip(near, 0, len(self.slopes) - 1).astype(int)
        left, right = windows[row, first], windows[row, first + 1]
        return np.asarray(left + (place - first)[:, None] * (right - left))


def move_values(
    posterior: NarrowPosterior,
    particles: Particles,
    chain: list[Array],
    signal: SignalTable,
    rng: np.random.Generator,
) -> None:
    """Draw log l_j of all columns with the ratios through all layers, inverses (N, m, m) in `chain`."""
    nodes = signal.nodes
    for j in range(posterior.columns):
        law = _ColumnLaw(posterior, particles, chain, j)
        squares, current = particles.projections[:, j] ** 2, law.size
        table: Array = squares.astype(signal.kind) @ signal.weights
        table += signal.logs + law.log_marginal(nodes)
        proposed, log_ratio, inside = _draw_from_table(nodes, _heights(table), current, rng)
        places, log_path = law.draw_ratios(proposed, rng)
        both = np.stack([proposed, current], axis=1)
        exact, fits = signal.at(both)
        exact += (fits @ squares[:, :, None])[:, :, 0]
        log_target = exact[:, 0] - exact[:, 1] + law.log_joint(proposed, places)
        log_target -= law.log_joint(current, law.places)
        accepted = inside & (np.log(rng.random(len(table))) < log_target - log_ratio - log_path)
        law.scale(accepted, places)


def move_column(
    posterior: NarrowPosterior,
    particles: Particles,
    chain: list[Array],
    signal: SignalTable,
    rng: np.random.Generator,
    j: int,
    axis: int,
) -> None:
    """Draw log l_j (N,) of a column with its ratios, and the angle φ between u_j and an axis of the data.

    Between a collapsed column, with any direction, and one that is fitted to the axis, size and direction
    have to change at once. A table over log l_j and ζ = log tan(φ/2) proposes a cell, a uniform draw in it a
    point, and the density accepts.
    """
    if posterior.outputs == posterior.columns:
        return  # the other columns leave a single direction
    law, plane = _ColumnLaw(posterior, particles, chain, j), _Plane.of(posterior, particles, j, axis)
    nodes = signal.nodes[::_COARSER]
    cells = _cells_of(plane, law, signal)
    rows, by_size = np.arange(len(particles)), cells @ np.ones(len(_ANGLES), cells.dtype)
    first = _draw_cell(by_size, rng)
    second = _draw_cell(cells[rows, first], rng)
    steps = nodes[1] - nodes[0], _ANGLES[1] - _ANGLES[0]
    proposed = nodes[first] + steps[0] * (rng.random(len(rows)) - 0.5)
    zeta = _ANGLES[second] + steps[1] * (rng.random(len(rows)) - 0.5)
    own = np.rint((law.size - nodes[0]) / steps[0]), np.rint((plane.zeta - _ANGLES[0]) / steps[1])
    inside = (own[0] >= 0) & (own[0] < len(nodes)) & (own[1] >= 0) & (own[1] < len(_ANGLES)) & plane.usable
    here = [np.where(inside, each, 0).astype(int) for each in own]
    log_ratio = np.log(cells[rows, first, second] / cells[rows, here[0], here[1]])

    places, log_path = law.draw_ratios(proposed, rng)
    log_target = plane.log_density(signal, proposed, zeta) + law.log_joint(proposed, places)
    log_target -= plane.log_density(signal, law.size, plane.zeta) + law.log_joint(law.size, law.places)
    accepted = inside & (np.log(rng.random(len(rows))) < log_target - log_ratio - log_path)
    law.scale(accepted, places)
    particles.directions[accepted, j] = plane.directions(zeta)[accepted]
    particles.projections[accepted, j] = plane.projections(zeta)[accepted]


@dataclass(frozen=True)
class _Plane:
    """The plane of u_j and an axis of the data, orthogonal to the other columns: u_j = cos φ e + sin φ b.

    e is the part of the axis orthogonal to the other columns. φ has the prior density sin^{D−2} φ on the
    sphere of D = n_d − m + 1 dimensions that the other columns leave; cos φ = −tanh ζ and sin φ = 1/cosh ζ.
    """

    centre: Array  # e, (N, n_d)
    tangent: Array  # b, (N, n_d)
    seen: Array  # ỹe, (N, r)
    seen_tangent: Array  # ỹb, (N, r)
    zeta: Array  # of u_j, (N,)
    usable: Mask  # (N,): neither the axis in the span of the other columns nor u_j along e
    dimension: int  # D

    @classmethod
    def of(cls, posterior: NarrowPosterior, particles: Particles, j: int, axis: int) -> _Plane:
        """The plane of column j and an axis."""
        rest = np.delete(np.arange(posterior.columns), j)
        others = particles.directions[:, rest]  # (N, m − 1, n_d)
        along = others[:, None, :, axis]  # of the axis on the other columns
        centre = -(along @ others)[:, 0]
        centre[:, axis] += 1.0
        length = np.sqrt((centre**2).sum(axis=1))
        usable = length > _SMALLEST_SINE
        length = np.where(usable, length, 1.0)[:, None]
        centre /= length
        seen = (posterior.targets[:, axis] - (along @ particles.projections[:, rest])[:, 0]) / length
        direction, projection = particles.directions[:, j], particles.projections[:, j]
        cosine = (direction * centre).sum(axis=1)
        tangent = direction - cosine[:, None] * centre
        sine = np.sqrt((tangent**2).sum(axis=1))
        usable &= sine > _SMALLEST_SINE
        sine, cosine = np.where(usable, sine, 1.0), np.where(usable, cosine, 0.0)
        return cls(
            centre,
            tangent / sine[:, None],
            seen,
            (projection - cosine[:, None] * seen) / sine[:, None],
            np.log(sine) - np.log1p(cosine),
            usable,
            posterior.outputs - posterior.columns + 1,
        )

    def directions(self, zeta: Array) -> Array:
        """u_j at ζ (N,), (N, n_d)."""
        return self.tangent / np.cosh(zeta)[:, None] - self.centre * np.tanh(zeta)[:, None]

    def projections(self, zeta: Array) -> Array:
        """ỹu_j at ζ (N,), (N, r)."""
        return self.seen_tangent / np.cosh(zeta)[:, None] - self.seen * np.tanh(zeta)[:, None]

    def log_density(self, signal: SignalTable, size: Array, zeta: Array) -> Array:
        """Likelihood of a column of log size x (N,) at ζ (N,), and prior of ζ, (N,)."""
        logs, fits = signal.at(size)
        logs += (fits * self.projections(zeta) ** 2).sum(axis=1)
        return np.asarray(logs - (self.dimension - 1) * np.log(np.cosh(zeta)))


def _cells_of(plane: _Plane, law: _ColumnLaw, signal: SignalTable) -> Array:
    """Probabilities of cells of log l_j and ζ up to a factor, (N, sizes, angles).

    The exponent at an angle is cos²φ p_0 + 2 cos φ sin φ p_1 + sin²φ p_2 + p_3 with p (N, sizes).
    """
    nodes, weights = signal.nodes[::_COARSER], signal.weights[:, ::_COARSER]
    seen: Array = plane.seen.astype(signal.kind)
    tangent: Array = plane.seen_tangent.astype(signal.kind)
    cos, sin = -np.tanh(_ANGLES), 1 / np.cosh(_ANGLES)
    prior = (plane.dimension - 1) * np.log(sin)
    shapes = np.array([cos**2, 2 * cos * sin, sin**2, np.ones_like(cos), prior], signal.kind)
    parts = np.ones((len(seen), len(nodes), 5), signal.kind)
    parts[:, :, 0] = seen**2 @ weights
    parts[:, :, 1] = (seen * tangent) @ weights
    parts[:, :, 2] = tangent**2 @ weights
    parts[:, :, 3] = signal.logs[::_COARSER] + law.log_marginal(nodes, _COARSER)
    table = parts.reshape(-1, 5) @ shapes
    return _heights(table.reshape(len(parts), -1)).reshape(len(parts), len(nodes), -1)


def _heights(table: Array) -> Array:
    """Densities of log densities (N, any), relative to the largest of their row; the table is overwritten."""
    table -= table.max(axis=1, keepdims=True)
    np.maximum(table, _DEEPEST, out=table)
    if table.dtype == np.float64:
        table = table.astype(np.float32)
    return np.exp(table, out=table)


def _draw_cell(heights: Array, rng: np.random.Generator) -> IndexArray:
    """A cell (N,) of every row of heights (N, k), drawn in proportion."""
    cumulative = np.cumsum(heights, axis=1)
    reached = cumulative > (rng.random(len(heights)) * cumulative[:, -1])[:, None]
    return reached.argmax(axis=1)


def _draw_from_table(
    nodes: Array, heights: Array, current: Array, rng: np.random.Generator
) -> tuple[Array, Array, Mask]:
    """Draw from densities (N, nodes) that are linear between nodes.

    Returns the draws, log q(draw) − log q(current), and whether the current point is within the table.
    """
    step, last, rows = nodes[1] - nodes[0], len(nodes) - 2, np.arange(len(heights))
    cell = _draw_cell(heights[:, :-1] + heights[:, 1:], rng)
    left, right = heights[rows, cell], heights[rows, cell + 1]
    uniform = rng.random(len(heights))
    density = np.sqrt(left**2 + uniform * (right**2 - left**2))  # at the draw
    within = uniform * (left + right) / (left + density)
    place = (current - nodes[0]) / step
    inside = (place >= 0) & (place < last + 1)
    own = np.clip(place.astype(int), 0, last)
    share = np.where(inside, place - own, 0.0)
    density_own = heights[rows, own] * (1 - share) + heights[rows, own + 1] * share
    return nodes[cell] + step * within, np.log(density / density_own), inside


def rotate_columns(
    posterior: NarrowPosterior, particles: Particles, noise: float, rng: np.random.Generator
) -> None:
    """Rotate every pair of columns of U: the exponent is κ cos(2θ − 2θ_0), von Mises in 2θ."""
    fit = (1 - 1 / (1 + (posterior.eigenvalues / noise) * particles.values[:, :, None])) / noise
    projections, directions = particles.projections, particles.directions
    for i, j in zip(*np.triu_indices(posterior.columns, 1), strict=True):
        difference = fit[:, i] - fit[:, j]
        one, two = projections[:, i], projections[:, j]
        first, second = difference * one, difference * two
        cosine = 0.5 * (np.einsum("nr,nr->n", first, one) - np.einsum("nr,nr->n", second, two))
        sine = np.einsum("nr,nr->n", first, two)
        angle = 0.5 * rng.vonmises(np.arctan2(sine, cosine), 0.5 * np.hypot(cosine, sine))
        angle += np.pi * (rng.random(len(angle)) < 0.5)
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        for array in (projections, directions):
            one, two = array[:, i], array[:, j]
            array[:, i], array[:, j] = c * one + s * two, c * two - s * one


def move_root(
    posterior: NarrowPosterior,
    particles: Particles,
    chain: list[Array],
    noise: float,
    rng: np.random.Generator,
) -> Particles:
    """Draw the hidden activities h given F, then F, inverses (N, m, m) of the inner matrices in `chain`."""
    values, root = particles.values[:, :, None], np.sqrt(posterior.eigenvalues)
    variance = noise + posterior.eigenvalues * values  # (N, m, r)
    hidden = root * np.sqrt(values) * particles.projections / variance
    hidden += np.sqrt(noise / variance) * rng.standard_normal(variance.shape)
    design = root * hidden
    precision = chain[-1] + design @ design.swapaxes(1, 2) / noise
    factor = np.asarray(np.linalg.cholesky(precision), float)
    explained = (design.reshape(-1, design.shape[2]) @ (posterior.targets / noise)).reshape(
        len(particles), posterior.columns, posterior.outputs
    )
    mean = solve_lower(factor, explained)
    roots = solve_lower_transposed(factor, mean + rng.standard_normal(mean.shape))
    return particles_of(posterior, roots, inner_roots(particles), rng)


def move_inner(
    posterior: NarrowPosterior, particles: Particles, chain: list[Array], rng: np.random.Generator
) -> None:
    """Draw every S_k (N, m, m) given its neighbours, row by row.

    The inverses in `chain` are kept up to date.

    Given its neighbours S_k is MGIG with P = S_{k−1}⁻¹ and M = S_{k+1} (FᵀF for the last).
    """
    columns = posterior.columns
    for k, matrices in enumerate(particles.inner):
        above, inverses = chain[k], chain[k + 1]
        last = k + 1 == posterior.layers
        after = np.eye(columns) * particles.values[:, None, :] if last else particles.inner[k + 1]
        power = 0.5 * (posterior.degrees[k] - posterior.degrees[k + 1])
        move_mgig(matrices, power, above, after, rng)
        inverses[:] = inverse(matrices)


def move_mgig(matrices: Array, order: float, above: Array, after: Array, rng: np.random.Generator) -> None:
    """Move matrices S (N, m, m) in place, in an order of rows that is random.

    Each step leaves the MGIG density |S|^{order − (m + 1)/2} exp(−½ tr(P S) − ½ tr(S⁻¹ M)) invariant, with
    P = `above` and M = `after`, (N, m, m).
    With b = S_11⁻¹ S_1j and s = S_jj − bᵀ S_11 b for one index j and the others "1", b given s is Gaussian
    with precision P_jj S_11 + M_11/s, and s given b is generalised inverse Gaussian.
    """
    columns = matrices.shape[1]
    power = order - 0.5 * (columns - 1)
    for j in rng.permutation(columns):
        rest = np.delete(np.arange(columns), j)
        block = matrices[:, rest[:, None], rest]
        after_block, after_row = after[:, rest[:, None], rest], after[:, rest, j, None]
        cross = matrices[:, rest, j, None]
        slope = np.linalg.solve(block, cross)
        schur = matrices[:, j, j] - (slope * cross).sum(axis=(1, 2))
        schur = schur[:, None, None]
        precision = above[:, j, j, None, None] * block + after_block / schur
        factor = np.asarray(np.linalg.cholesky(precision), float)
        mean = solve_lower(factor, after_row / schur - block @ above[:, rest, j, None])
        slope = solve_lower_transposed(factor, mean + rng.standard_normal(mean.shape))
        square = ((after_block @ slope - 2 * after_row) * slope).sum(axis=(1, 2)) + after[:, j, j]
        cross = block @ slope
        matrices[:, rest, j] = matrices[:, j, rest] = cross[:, :, 0]
        log_schur = draw_log_gig(power, above[:, j, j], np.maximum(square, _TINY), rng)
        matrices[:, j, j] = np.exp(log_schur) + (slope * cross).sum(axis=(1, 2))


def draw_log_gig(power: float, rate: Array, inverse_rate: Array, rng: np.random.Generator) -> Array:
    """Draw logs of generalised inverse Gaussians with rates (N,), (N,).

    x has the log density power · x − ½ (rate e^x + inverse_rate e^{−x}). Rejection with a hat that is flat
    around the mode and exponential beyond the points where the log density has fallen by about one (Devroye
    2014, Statistics and Computing 24, 239): it is log-concave, so that few proposals are rejected.
    """
    concentration = np.sqrt(power**2 + rate * inverse_rate)
    if power > 0:
        mode = np.log((concentration + power) / rate)
    else:
        mode = np.log(inverse_rate) - np.log(concentration - power)

    def log_density(t: Array, concentration: Array) -> Array:
        """Log density at t (N,) from the mode, up to a constant."""
        return -2 * concentration * np.sinh(0.5 * t) ** 2 - power * (np.sinh(t) - t)

    def fall(sign: float) -> Array:
        """Distance (N,) from the mode at which the log density has fallen by about one."""
        low, high = np.zeros_like(concentration), np.full_like(concentration, 2.0)
        while (short := log_density(sign * high, concentration) > -1).any():
            high = np.where(short, 2 * high, high)
        for _ in range(5):
            middle = 0.5 * (low + high)
            short = log_density(sign * middle, concentration) > -1
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return high

    right, left = fall(1.0), fall(-1.0)
    right_rate = concentration * np.sinh(right) + power * (np.cosh(right) - 1)
    left_rate = concentration * np.sinh(left) - power * (np.cosh(left) - 1)
    right += log_density(right, concentration) / right_rate  # where the tangents reach the mode's height
    left += log_density(-left, concentration) / left_rate
    result, open_rows = np.empty_like(concentration), np.arange(len(concentration))
    while len(open_rows):
        r, m = right[open_rows], left[open_rows]
        tail_right, tail_left = 1 / right_rate[open_rows], 1 / left_rate[open_rows]
        place = rng.random(len(open_rows)) * (tail_right + tail_left + r + m)
        beyond = rng.standard_exponential(len(open_rows))
        is_right = place < tail_right
        is_left = ~is_right & (place < tail_right + tail_left)
        t = np.where(is_right, r + beyond * tail_right, place - tail_right - tail_left - m)
        t = np.where(is_left, -m - beyond * tail_left, t)
        log_hat = np.where(is_right | is_left, -beyond, 0.0)
        allowed = log_density(t, concentration[open_rows]) - log_hat
        accepted = np.log(rng.random(len(open_rows))) < allowed
        result[open_rows[accepted]] = t[accepted]
        open_rows = open_rows[~accepted]
    return mode + result
