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

- `move_values`: log l_j given everything else has a one-dimensional density; a table of it proposes, the
  density accepts.
  The column can take the same direction of S_k, …, S_K with it, which keeps the traces between them: a
  direction of the outputs changes between fitted and collapsed in all layers at once.
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

import numpy as np

from lbnn._base.types import Array, IndexArray

_TABLE_STEP = 0.3  # largest distance of nodes in log l: more than 90% of proposals are accepted
_STEP_IN_DEVIATIONS = 0.9  # the same for many rows, where log l has the deviation √(2/r)
_BELOW, _BELOW_PER_LAYER = (
    12.0,
    6.0,
)  # e-folds of the table below τ/g: the prior of log l falls at least like e^{x/2} there
_ABOVE = 3.0  # e-folds above the largest value that prior or data suggest
_DEEPEST = -60.0  # floor of the table relative to its maximum; proposals below it have a chance of 1e-26
_COARSER, _ANGLES, _WIDEST = (
    3,
    27,
    5.2,
)  # tables over size and angle: every third node, ζ in steps of 0.4 up to φ = 0.011
_COLUMN_MOVES = 2  # in a sweep; with one (and longer stages) one exact problem came out low by 0.8 nats
_SMALLEST_SINE = 1e-6  # of angles below which a direction is lost to rounding
_TINY = 1e-300  # keeps the logarithm of a distance of two equal values finite


@dataclass(frozen=True)
class NarrowPosterior:
    """Data in the eigenbasis of the Gram matrix, and the chain of Wishart matrices behind the scale."""

    eigenvalues: Array  # g, (r,), positive
    targets: Array  # ỹ along the axes of the data, (r, n_d)
    axes: Array  # (n_d, n_d), orthogonal: ỹ as given is targets @ axes.T
    noise: float  # τ
    residual: float  # squared norm of the targets outside the range of the Gram matrix
    examples: int
    columns: int  # m
    degrees: tuple[int, ...]  # ν_1, …, ν_K, n_d
    base: float  # c
    nodes: Array = field(repr=False)  # of the tables of log l, equidistant

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
    residual: float = 0.0,
    examples: int | None = None,
) -> NarrowPosterior:
    """Posterior of L for hidden widths of which the narrowest is at most n_d, `variance` = ∏ σ_ℓ²."""
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
    low = math.log(noise / eigenvalues.max()) - _BELOW - _BELOW_PER_LAYER * (len(widths) - 1)
    high = math.log(max(8 * variance, 4 * float((rotated**2).sum(axis=0).max() / eigenvalues.sum()))) + _ABOVE
    return NarrowPosterior(
        eigenvalues,
        rotated,
        axes,
        noise,
        residual,
        rows if examples is None else examples,
        columns,
        (*reversed(widths[:narrowest]), *widths[narrowest + 1 :], outputs),
        variance / math.prod(widths),
        np.linspace(low, high, math.ceil((high - low) / step) + 1),
    )


@dataclass
class Particles:
    """States of the chains: U, l, ỹU and S_1, …, S_K in the basis in which FᵀF is diagonal."""

    directions: Array  # U, (N, n_d, m), orthonormal columns in any order
    values: Array  # l, (N, m)
    projections: Array  # ỹU, (N, r, m)
    inner: list[Array]  # K arrays (N, m, m)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: IndexArray | slice) -> Particles:
        """Copies of some particles."""
        return Particles(
            self.directions[index].copy(),
            self.values[index].copy(),
            self.projections[index].copy(),
            [each[index].copy() for each in self.inner],
        )

    @property
    def roots(self) -> Array:
        """F = U diag(√l), (N, n_d, m)."""
        return self.directions * np.sqrt(self.values)[:, None, :]


def join(parts: Sequence[Particles]) -> Particles:
    """All particles of several sets."""
    return Particles(
        np.concatenate([part.directions for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.projections for part in parts]),
        [np.concatenate(each) for each in zip(*(part.inner for part in parts), strict=True)],
    )


def particles_of(
    posterior: NarrowPosterior, roots: Array, inner: list[Array], rng: np.random.Generator
) -> Particles:
    """Particles of F (N, n_d, m) and S_k; the columns come in random order.

    An order by size would make "column one" a choice that depends on the state, and moving it no Gibbs
    move.
    """
    left, sizes, right = np.linalg.svd(roots, full_matrices=False)
    order = np.argsort(rng.random(sizes.shape), axis=1)
    left = np.take_along_axis(left, order[:, None, :], axis=2)
    sizes = np.take_along_axis(sizes, order, axis=1)
    right = np.take_along_axis(right, order[:, :, None], axis=1)
    turned = [right @ each @ right.swapaxes(1, 2) for each in inner]
    return Particles(left, sizes**2, posterior.targets @ left, turned)


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
        inner.append(root.swapaxes(1, 2) @ root)
    normal = rng.standard_normal((size, posterior.outputs, columns))
    return particles_of(posterior, normal @ root, inner, rng)


def inverse(matrices: Array) -> Array:
    """Inverses of positive definite matrices whose rows may differ by many orders of magnitude."""
    scale = 1 / np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    both = scale[:, :, None] * scale[:, None, :]
    result: Array = np.linalg.inv(matrices * both) * both
    return result


def log_determinant(matrices: Array) -> Array:
    """Log determinants of positive definite matrices, by their Cholesky factors."""
    diagonal = np.diagonal(np.linalg.cholesky(matrices), axis1=1, axis2=2)
    result: Array = 2 * np.log(diagonal).sum(axis=1)
    return result


def precision_above(posterior: NarrowPosterior, particles: Particles, layer: int) -> Array:
    """S_{layer}⁻¹, (N, m, m), for layer 0, …, K."""
    if layer:
        return inverse(particles.inner[layer - 1])
    shape = (len(particles), posterior.columns, posterior.columns)
    return np.broadcast_to(np.eye(posterior.columns) / posterior.base, shape)


def log_likelihood(posterior: NarrowPosterior, values: Array, projections: Array, noise: float) -> Array:
    """log p(Y | L) at a noise variance, with its constants, (N,)."""
    ratio = 1 + (posterior.eigenvalues / noise)[:, None] * values[:, None, :]
    seen = (projections**2 * (1 - 1 / ratio)).sum(axis=(1, 2))
    total = float((posterior.targets**2).sum()) + posterior.residual
    constant = (
        -0.5 * posterior.examples * posterior.outputs * math.log(2 * math.pi * noise) - 0.5 * total / noise
    )
    result: Array = constant - 0.5 * np.log(ratio).sum(axis=(1, 2)) + 0.5 / noise * seen
    return result


def log_prior(posterior: NarrowPosterior, particles: Particles) -> Array:
    """Log density of F and S_1, …, S_K, up to a constant, (N,)."""
    columns = posterior.columns
    total = np.zeros(len(particles))
    log_above: Array | float = 0.0
    for layer, degrees in enumerate(posterior.degrees):
        precision = precision_above(posterior, particles, layer)
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
    posterior: NarrowPosterior, particles: Particles, noise: float, rng: np.random.Generator
) -> Particles:
    """Every move once; particles are changed in place where that is possible.

    Of the ways in which a column can take the layers with it, a random one: through all layers evenly, or
    from one of them on.
    """
    alone = np.eye(posterior.layers + 1)
    move_values(posterior, particles, noise, alone[-1], rng)
    if posterior.layers:
        even = np.full(posterior.layers + 1, 1 / (posterior.layers + 1))
        for move in (move_values, *(move_column,) * _COLUMN_MOVES):
            shares = even if rng.random() < 0.5 else alone[rng.integers(posterior.layers)]
            move(posterior, particles, noise, shares, rng)
    rotate_columns(posterior, particles, noise, rng)
    move_inner(posterior, particles, rng)
    return move_root(posterior, particles, noise, rng)


class _ColumnLaw:
    """Prior of log l_j where S_1, …, S_K go along in the direction j, given everything else.

    With D = I + (e^δ − 1) e_j e_jᵀ, l_j → e^{2δ} l_j and S_k → D^{a_k} S_k D^{a_k}, a_k = b_1 + … + b_k for
    shares b of the K + 1 layers, sum one. Of the prior changes (Σ_k b_k ν_k − m + 1) δ
    + Σ_i log|e^{2δ} l_j − l_i| − ½ Σ_k tr(P_k S_k), P_k = S_{k−1}⁻¹, each trace by the power b_k alone.
    """

    def __init__(
        self, posterior: NarrowPosterior, particles: Particles, precisions: list[Array], shares: Array, j: int
    ) -> None:
        self.particles, self.precisions, self.shares, self.j = particles, precisions, shares, j
        self.power = 0.5 * (float(shares @ np.asarray(posterior.degrees)) - posterior.columns + 1)
        self.others = np.delete(particles.values, j, axis=1)
        own = particles.values[:, j]
        self.traces = []  # (b, linear, quadratic): linear · l^{b/2} + ½ quadratic · l^b
        for layer in np.flatnonzero(shares):
            share = float(shares[layer])
            row = precisions[layer][:, j]
            if layer == posterior.layers:
                diagonal, off = row[:, j] * own, np.zeros(len(own))
            else:
                below = particles.inner[layer][:, j]
                diagonal = row[:, j] * below[:, j]
                off = (row * below).sum(axis=1) - diagonal
            self.traces.append((share, off * own ** (-0.5 * share), diagonal * own**-share))

    def log_prior(self, x: Array) -> Array:
        """Up to a constant, at x = log l_j, (1 or N, any) → (N, any)."""
        value = np.exp(x)
        total = np.broadcast_to(self.power * x, (len(self.others), x.shape[1])).copy()
        for share, linear, quadratic in self.traces:
            root = np.exp(0.5 * share * x)
            total -= linear[:, None] * root + 0.5 * quadratic[:, None] * root**2
        if self.others.shape[1]:
            distance = np.abs(value - self.others[:, :1])
            for other in self.others.T[1:]:
                distance = distance * np.abs(value - other[:, None])
            total += np.log(distance + _TINY)
        return total

    def scale(self, factor: Array) -> None:
        """Multiply l_j, and take the inner matrices along, with their inverses."""
        j = self.j
        self.particles.values[:, j] *= factor
        powers = np.cumsum(self.shares)[:-1]
        for matrices, precisions, power in zip(
            self.particles.inner, self.precisions[1:], powers, strict=True
        ):
            if power > 0:
                root = factor[:, None] ** (0.5 * power)
                for array, scale in ((matrices, root), (precisions, 1 / root)):
                    array[:, j, :] *= scale
                    array[:, :, j] *= scale


def _signal_terms(posterior: NarrowPosterior, x: Array, noise: float) -> tuple[Array, Array]:
    """−½ Σ_i log(1 + g_i l/τ), and the weights ½ g_i l/(τ (τ + g_i l)) of z_i² in log p(Y | L); l = e^x."""
    ratio = 1 + np.exp(x)[..., None] * (posterior.eigenvalues / noise)
    return -0.5 * np.log(ratio).sum(axis=-1), 0.5 * (1 - 1 / ratio) / noise


def move_values(
    posterior: NarrowPosterior, particles: Particles, noise: float, shares: Array, rng: np.random.Generator
) -> None:
    """Draw every log l_j: a table of its law proposes, the law itself accepts."""
    nodes = posterior.nodes
    logs, weights = _signal_terms(posterior, nodes, noise)
    precisions = [precision_above(posterior, particles, layer) for layer in range(posterior.layers + 1)]
    for j in range(posterior.columns):
        law = _ColumnLaw(posterior, particles, precisions, shares, j)
        squares, current = particles.projections[:, :, j] ** 2, np.log(particles.values[:, j])
        table = squares @ weights.T + logs + law.log_prior(nodes[None])
        proposed, log_ratio, inside = _draw_from_table(nodes, table, current, rng)
        both = np.stack([proposed, current], axis=1)
        exact, fits = _signal_terms(posterior, both, noise)
        exact += law.log_prior(both) + (fits @ squares[:, :, None])[:, :, 0]
        accepted = inside & (np.log(rng.random(len(table))) < exact[:, 0] - exact[:, 1] - log_ratio)
        law.scale(np.where(accepted, np.exp(proposed - current), 1.0))


def move_column(
    posterior: NarrowPosterior, particles: Particles, noise: float, shares: Array, rng: np.random.Generator
) -> None:
    """Draw log l_j of a random column and the angle φ between u_j and one of the first axes of the data.

    Between a collapsed column, with any direction, and one that is fitted to the axis, size and direction
    have to change at once. With e the part of the axis orthogonal to the other columns, u_j = cos φ e +
    sin φ b; φ has the prior density sin^{D−2} φ on the sphere of D = n_d − m + 1 dimensions that the other
    columns leave. A table over log l_j and ζ = log tan(φ/2) proposes a cell, a uniform draw in it a point,
    and the density accepts.
    """
    dimension = posterior.outputs - posterior.columns + 1
    if dimension < 2:
        return
    j = int(rng.integers(posterior.columns))
    axis = int(rng.integers(min(posterior.columns + 1, posterior.outputs)))
    precisions = [precision_above(posterior, particles, layer) for layer in range(posterior.layers + 1)]
    law = _ColumnLaw(posterior, particles, precisions, shares, j)
    rest = np.delete(np.arange(posterior.columns), j)
    others = particles.directions[:, :, rest]
    along = others[:, axis, :, None]  # of the axis on the other columns
    centre = -(others @ along)[:, :, 0]
    centre[:, axis] += 1.0
    length = np.sqrt((centre**2).sum(axis=1))
    usable = length > _SMALLEST_SINE  # the axis is not in the span of the other columns
    length = np.where(usable, length, 1.0)[:, None]
    centre /= length
    seen = (posterior.targets[:, axis] - (particles.projections[:, :, rest] @ along)[:, :, 0]) / length
    direction, projection = particles.directions[:, :, j], particles.projections[:, :, j]
    cosine = (direction * centre).sum(axis=1)
    tangent = direction - cosine[:, None] * centre
    sine = np.sqrt((tangent**2).sum(axis=1))
    usable &= sine > _SMALLEST_SINE
    sine, cosine = np.where(usable, sine, 1.0), np.where(usable, cosine, 0.0)
    tangent /= sine[:, None]
    seen_tangent = (projection - cosine[:, None] * seen) / sine[:, None]

    nodes, angles = posterior.nodes[::_COARSER], np.linspace(-_WIDEST, _WIDEST, _ANGLES)
    steps = nodes[1] - nodes[0], angles[1] - angles[0]
    logs, weights = _signal_terms(posterior, nodes, noise)
    cos, sin = -np.tanh(angles), 1 / np.cosh(angles)
    table = (seen**2 @ weights.T)[:, :, None] * cos**2
    table += (2 * seen * seen_tangent @ weights.T)[:, :, None] * (cos * sin)
    table += (seen_tangent**2 @ weights.T)[:, :, None] * sin**2
    table += (dimension - 1) * np.log(sin) + (logs + law.log_prior(nodes[None]))[:, :, None]
    table = np.maximum(table - table.max(axis=(1, 2), keepdims=True), _DEEPEST).reshape(len(table), -1)
    cumulative, rows = np.cumsum(np.exp(table), axis=1), np.arange(len(table))
    places = rng.random(len(table)) * cumulative[:, -1]
    cell = np.minimum((cumulative < places[:, None]).sum(axis=1), table.shape[1] - 1)
    proposed = nodes[cell // _ANGLES] + steps[0] * (rng.random(len(table)) - 0.5)
    proposed_angle = angles[cell % _ANGLES] + steps[1] * (rng.random(len(table)) - 0.5)
    current = np.log(particles.values[:, j])
    current_angle = np.log(sine) - np.log1p(cosine)
    first = np.rint((current - nodes[0]) / steps[0])
    second = np.rint((current_angle - angles[0]) / steps[1])
    inside = usable & (first >= 0) & (first < len(nodes)) & (second >= 0) & (second < _ANGLES)
    own_cell = np.where(inside, first * _ANGLES + second, 0).astype(int)

    both, zeta = np.stack([proposed, current], axis=1), np.stack([proposed_angle, current_angle], axis=1)
    exact, fits = _signal_terms(posterior, both, noise)
    projected = (
        seen_tangent[:, None, :] / np.cosh(zeta)[..., None] - seen[:, None, :] * np.tanh(zeta)[..., None]
    )
    exact += law.log_prior(both) + (fits * projected**2).sum(axis=2)
    exact -= (dimension - 1) * np.log(np.cosh(zeta))
    log_acceptance = exact[:, 0] - exact[:, 1] + table[rows, own_cell] - table[rows, cell]
    accepted = inside & (np.log(rng.random(len(table))) < log_acceptance)
    law.scale(np.where(accepted, np.exp(proposed - current), 1.0))
    turned = centre * -np.tanh(proposed_angle)[:, None] + tangent / np.cosh(proposed_angle)[:, None]
    particles.directions[:, :, j] = np.where(accepted[:, None], turned, direction)
    particles.projections[:, :, j] = np.where(accepted[:, None], projected[:, 0], projection)


def _draw_from_table(
    nodes: Array, table: Array, current: Array, rng: np.random.Generator
) -> tuple[Array, Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Draw from densities that are linear between nodes.

    Returns the draws, log q(draw) − log q(current), and whether the current point is within the table.
    """
    step, last, rows = nodes[1] - nodes[0], len(nodes) - 2, np.arange(len(table))
    heights = np.exp(np.maximum(table - table.max(axis=1, keepdims=True), _DEEPEST))
    cumulative = np.cumsum(heights[:, :-1] + heights[:, 1:], axis=1)
    places = rng.random(len(table)) * cumulative[:, -1]
    cell = np.minimum((cumulative < places[:, None]).sum(axis=1), last)
    left, right = heights[rows, cell], heights[rows, cell + 1]
    uniform = rng.random(len(table))
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
    ratio = 1 + (posterior.eigenvalues / noise)[:, None] * particles.values[:, None, :]
    fit = (1 - 1 / ratio) / noise
    projections, directions = particles.projections, particles.directions
    for i, j in zip(*np.triu_indices(posterior.columns, 1), strict=True):
        difference = fit[:, :, i] - fit[:, :, j]
        one, two = projections[:, :, i], projections[:, :, j]
        cosine = 0.5 * (difference * (one**2 - two**2)).sum(axis=1)
        sine = (difference * one * two).sum(axis=1)
        angle = 0.5 * rng.vonmises(np.arctan2(sine, cosine), 0.5 * np.hypot(cosine, sine))
        angle += np.pi * (rng.random(len(angle)) < 0.5)
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        for array in (projections, directions):
            one, two = array[:, :, i], array[:, :, j]
            array[:, :, i], array[:, :, j] = c * one + s * two, c * two - s * one


def move_root(
    posterior: NarrowPosterior, particles: Particles, noise: float, rng: np.random.Generator
) -> Particles:
    """Draw the hidden activities h given F, then F: rows with precision S_K⁻¹ + Σ_i g_i h_i h_iᵀ/τ."""
    values, root = particles.values[:, None, :], np.sqrt(posterior.eigenvalues)[:, None]
    variance = noise + posterior.eigenvalues[:, None] * values
    hidden = root * np.sqrt(values) * particles.projections / variance
    hidden += np.sqrt(noise / variance) * rng.standard_normal(variance.shape)
    design = (root * hidden).swapaxes(1, 2)  # (N, m, r)
    precision = (
        precision_above(posterior, particles, posterior.layers) + design @ design.swapaxes(1, 2) / noise
    )
    factor = np.linalg.cholesky(precision)
    mean = np.linalg.solve(factor, design @ posterior.targets / noise)
    normal = rng.standard_normal(mean.shape)
    roots = np.linalg.solve(factor.swapaxes(1, 2), mean + normal).swapaxes(1, 2)
    return particles_of(posterior, roots, particles.inner, rng)


def move_inner(posterior: NarrowPosterior, particles: Particles, rng: np.random.Generator) -> None:
    """Draw every S_k given its neighbours, row by row.

    The density is |S|^{(ν_k − ν_{k+1} − m − 1)/2} exp(−½ tr(P S) − ½ tr(S⁻¹ M)), P = S_{k−1}⁻¹ and M =
    S_{k+1} (FᵀF for the last).
    With b = S_11⁻¹ S_1j and s = S_jj − bᵀ S_11 b for one index j and the others "1", b given s is Gaussian
    with precision P_jj S_11 + M_11/s, and s given b is generalised inverse Gaussian.
    """
    columns = posterior.columns
    for k, matrices in enumerate(particles.inner):
        above = precision_above(posterior, particles, k)
        last = k + 1 == posterior.layers
        after = np.eye(columns) * particles.values[:, None, :] if last else particles.inner[k + 1]
        power = 0.5 * (posterior.degrees[k] - posterior.degrees[k + 1] - columns + 1)
        for j in rng.permutation(columns):
            rest = np.delete(np.arange(columns), j)
            block = matrices[:, rest[:, None], rest]
            after_block, after_row = after[:, rest[:, None], rest], after[:, rest, j, None]
            cross = matrices[:, rest, j, None]
            slope = np.linalg.solve(block, cross)
            schur = matrices[:, j, j] - (slope * cross).sum(axis=(1, 2))
            schur = schur[:, None, None]
            factor = np.linalg.cholesky(above[:, j, j, None, None] * block + after_block / schur)
            mean = np.linalg.solve(factor, after_row / schur - block @ above[:, rest, j, None])
            slope = np.linalg.solve(factor.swapaxes(1, 2), mean + rng.standard_normal(mean.shape))
            square = ((after_block @ slope - 2 * after_row) * slope).sum(axis=(1, 2)) + after[:, j, j]
            cross = block @ slope
            matrices[:, rest, j] = matrices[:, j, rest] = cross[:, :, 0]
            log_schur = draw_log_gig(power, above[:, j, j], np.maximum(square, _TINY), rng)
            matrices[:, j, j] = np.exp(log_schur) + (slope * cross).sum(axis=(1, 2))


def draw_log_gig(power: float, rate: Array, inverse_rate: Array, rng: np.random.Generator) -> Array:
    """Draw logs of generalised inverse Gaussians.

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
        return -2 * concentration * np.sinh(0.5 * t) ** 2 - power * (np.sinh(t) - t)

    def fall(sign: float) -> Array:
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
