"""Gibbs moves for the posterior of a scale matrix of low rank, in spectral coordinates.

A hidden layer of m units, no wider than the outputs (m ≤ n_d), makes L = F Fᵀ with F of shape (n_d, m). Its prior is a chain of
Wishart matrices of size m: with the narrowest layer as number j and c = ∏_ℓ σ_ℓ² / ∏_ℓ n_ℓ,

    S_0 = c I,   S_k | S_{k−1} ~ Wishart_m(ν_k, S_{k−1}),   rows of F | S_K ~ N(0, S_K),   K = d − 2,

with the degrees of freedom ν = (n_{j−1}, …, n_1, n_{j+1}, …, n_{d−1}): layers below the narrowest one enter through their
Gram matrices on its side, layers above through theirs. (`factors_of` reads the Bartlett factors off such a chain.)

A particle keeps F = U diag(√l) with orthonormal columns U; an orthogonal matrix from the right changes the law of nothing if the
S_k are conjugated by it. The likelihood separates over the columns, z_ij = ỹ_i · u_j ~ N(0, τ + g_i l_j), and every move below leaves
the posterior at noise variance τ invariant:

- `move_values`: log l_j given everything else has a one-dimensional density; a table of it proposes, the density accepts.
  The column can take the same direction of S_k, …, S_K with it, which keeps the traces between them: a direction of the
  outputs changes between fitted and collapsed in all layers at once.
- `move_column`: the same together with the angle between a column and an axis of the data.
- `rotate_columns`: a rotation in the plane of two columns has a von Mises law.
- `move_root`: with the hidden activities h drawn, ỹ_i = √g_i F h_i + noise is a regression, and F given h is Gaussian.
- `move_inner`: S_k given its neighbours is matrix generalised inverse Gaussian; a row given the rest is Gaussian, its
  Schur complement generalised inverse Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lbnn._base.types import Array, IndexArray

_TABLE_STEP = 0.3  # largest distance of nodes in log l: more than 90% of proposals are accepted
_STEP_IN_DEVIATIONS = 0.9  # the same for many rows, where log l has the deviation √(2/r)
_BELOW, _BELOW_PER_LAYER = 12.0, 6.0  # e-folds of the table below τ/g: the prior of log l falls at least like e^{x/2} there
_ABOVE = 3.0  # e-folds above the largest value that prior or data suggest
_DEEPEST = -60.0  # floor of the table relative to its maximum; proposals below it have a chance of 1e-26
_COARSER, _ANGLES, _WIDEST = 3, 27, 5.2  # tables over size and angle: every third node, ζ in steps of 0.4 up to φ = 0.011
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
            f"the narrowest hidden layer must have at most as many units as there are outputs, got {columns} units and "
            f"{outputs} outputs: sample the Bartlett factors of the scale instead"
        )
    if not (0 < noise < math.inf and rows):
        raise ValueError(f"needs data and a noise variance that is positive and finite, got {rows} rows and {noise}")
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

    An order by size would make "column one" a choice that depends on the state, and moving it no Gibbs move.
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
    constant = -0.5 * posterior.examples * posterior.outputs * math.log(2 * math.pi * noise) - 0.5 * total / noise
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


def sweep(posterior: NarrowPosterior, particles: Particles, noise: float, rng: np.random.Generator) -> Particles:
    """Every move once (of the inner layers from which a value is moved, a random one); particles are changed in place where that is possible."""
    if posterior.layers:
        move_values(posterior, particles, noise, int(rng.integers(posterior.layers)), rng)
    move_values(posterior, particles, noise, posterior.layers, rng)
    rotate_columns(posterior, particles, noise, rng)
    if posterior.layers:  # with one hidden layer a direction is fitted gradually, without it
        column, axis = int(rng.integers(posterior.columns)), int(rng.integers(min(posterior.columns + 1, posterior.outputs)))
        move_column(posterior, particles, noise, int(rng.integers(posterior.layers + 1)), column, axis, rng)
    move_inner(posterior, particles, rng)
    return move_root(posterior, particles, noise, rng)


def move_values(
    posterior: NarrowPosterior, particles: Particles, noise: float, layer: int, rng: np.random.Generator
) -> None:
    """Draw every l_j, and with it the same direction of S_{layer+1}, …, S_K; layer = K moves l_j alone.

    With D = I + (e^δ − 1) e_j e_jᵀ: l_j → e^{2δ} l_j and S → D S D from S_{layer+1} on. Of the prior changes
    (ν − m + 1) δ + Σ_i log|e^{2δ} l_j − l_i| − ½ tr(P D S D), ν the degrees of freedom of S_{layer+1} and P = S_layer⁻¹.
    """
    grid = np.exp(posterior.nodes)
    ratio = 1 + (posterior.eigenvalues / noise) * grid[:, None]  # (nodes, r)
    fit, logs = (1 - 1 / ratio) / noise, np.log(ratio).sum(axis=1)
    power = 0.5 * (posterior.degrees[layer] - posterior.columns + 1)
    precision = precision_above(posterior, particles, layer)
    for j in range(posterior.columns):
        own, others = particles.values[:, j].copy(), np.delete(particles.values, j, axis=1)
        squares = particles.projections[:, :, j] ** 2
        linear, quadratic = _trace_terms(posterior, particles, precision, layer, j)
        table = 0.5 * squares @ fit.T + (power * posterior.nodes - 0.5 * logs)
        table -= 0.5 * quadratic[:, None] * grid + linear[:, None] * np.sqrt(grid)
        if posterior.columns > 1:
            distance = np.abs(grid - others[:, :1])
            for other in others.T[1:]:
                distance *= np.abs(grid - other[:, None])
            table += np.log(distance + _TINY)

        def log_density(
            value: Array,
            squares: Array = squares,
            others: Array = others,
            linear: Array = linear,
            quadratic: Array = quadratic,
        ) -> Array:
            seen = 1 + (posterior.eigenvalues / noise) * value[:, None]
            result: Array = (
                0.5 / noise * (squares * (1 - 1 / seen)).sum(axis=1)
                - 0.5 * np.log(seen).sum(axis=1)
                + power * np.log(value)
                - 0.5 * quadratic * value
                - linear * np.sqrt(value)
                + np.log(np.abs(value[:, None] - others) + _TINY).sum(axis=1)
            )
            return result

        proposed, log_ratio, inside = _draw_from_table(posterior.nodes, table, np.log(own), rng)
        proposed = np.exp(proposed)
        log_acceptance = log_density(proposed) - log_density(own) - log_ratio
        accepted = inside & (np.log(rng.random(len(own))) < log_acceptance)
        _scale_column(particles, layer, j, np.where(accepted, proposed / own, 1.0))


def _trace_terms(
    posterior: NarrowPosterior, particles: Particles, precision: Array, layer: int, j: int
) -> tuple[Array, Array]:
    """½ tr(P D S D) as a function of the new l_j: linear · √l_j + ½ quadratic · l_j, up to a constant."""
    if layer == posterior.layers:
        return np.zeros(len(particles)), precision[:, j, j]
    own, below = particles.values[:, j], particles.inner[layer]
    product = precision[:, j, j] * below[:, j, j]
    return ((precision[:, j] * below[:, j]).sum(axis=1) - product) / np.sqrt(own), product / own


def _scale_column(particles: Particles, layer: int, j: int, factor: Array) -> None:
    """Multiply l_j, and with it the same direction of S_{layer+1}, …, S_K."""
    particles.values[:, j] *= factor
    for below in particles.inner[layer:]:
        below[:, j, :] *= np.sqrt(factor)[:, None]
        below[:, :, j] *= np.sqrt(factor)[:, None]


def move_column(
    posterior: NarrowPosterior, particles: Particles, noise: float, layer: int, j: int, axis: int, rng: np.random.Generator
) -> None:
    """Draw l_j together with the angle φ between u_j and an axis of the data.

    Between a collapsed column, with any direction, and one that is fitted to the axis, size and direction have to change at once.
    With e the part of the axis orthogonal to the other columns, u_j = cos φ e + sin φ b; φ has the prior density
    sin^{D−2} φ on the sphere of D = n_d − m + 1 dimensions that the other columns leave. A table over log l_j and
    ζ = log tan(φ/2) proposes a cell, a uniform draw in it a point, and the density accepts.
    """
    dimension = posterior.outputs - posterior.columns + 1
    if dimension < 2:
        return
    rest = np.delete(np.arange(posterior.columns), j)
    others = particles.directions[:, :, rest]
    along = others[:, axis, :]  # of the axis on the other columns
    centre = -(others @ along[:, :, None])[:, :, 0]
    centre[:, axis] += 1.0
    length = np.sqrt((centre**2).sum(axis=1))
    usable = length > 1e-6  # the axis is not in the span of the other columns
    length = np.where(usable, length, 1.0)[:, None]
    centre /= length
    seen = (posterior.targets[:, axis] - (particles.projections[:, :, rest] @ along[:, :, None])[:, :, 0]) / length
    own_direction = particles.directions[:, :, j]
    cosine = np.clip((own_direction * centre).sum(axis=1), -1.0, 1.0)
    tangent = own_direction - cosine[:, None] * centre
    sine = np.sqrt((tangent**2).sum(axis=1))
    usable &= sine > 1e-9
    sine = np.where(usable, sine, 1.0)
    tangent /= sine[:, None]
    seen_tangent = (particles.projections[:, :, j] - cosine[:, None] * seen) / sine[:, None]
    place = np.log(sine) - np.log1p(np.where(usable, cosine, 0.0))

    nodes = posterior.nodes[:: _COARSER]
    angles = np.linspace(-_WIDEST, _WIDEST, _ANGLES)
    widths = nodes[1] - nodes[0], angles[1] - angles[0]
    precision = precision_above(posterior, particles, layer)
    linear, quadratic = _trace_terms(posterior, particles, precision, layer, j)
    power = 0.5 * (posterior.degrees[layer] - posterior.columns + 1)
    rest_values = particles.values[:, rest]

    def log_base(x: Array) -> Array:
        """Terms of log l alone, for x (N, any) or (any,)."""
        value = np.exp(x)
        ratio = 1 + value[..., None] * (posterior.eigenvalues / noise)
        total = power * x - 0.5 * np.log(ratio).sum(axis=-1) - 0.5 * quadratic[:, None] * value
        total = total - linear[:, None] * np.sqrt(value)
        for other in rest_values.T:
            total += np.log(np.abs(value - other[:, None]) + _TINY)
        return total

    def fit(x: Array) -> Array:
        ratio = 1 + np.exp(x)[..., None] * (posterior.eigenvalues / noise)
        result: Array = 0.5 * (1 - 1 / ratio) / noise
        return result

    weights = fit(nodes).T  # (r, nodes)
    terms = [product @ weights for product in (seen**2, 2 * seen * seen_tangent, seen_tangent**2)]
    cos, sin = -np.tanh(angles), 1 / np.cosh(angles)
    table = sum(
        term[:, :, None] * shape for term, shape in zip(terms, (cos**2, cos * sin, sin**2), strict=True)
    )
    table = table + (dimension - 1) * np.log(sin) + log_base(nodes[None])[:, :, None]
    table = np.maximum(table - table.max(axis=(1, 2), keepdims=True), _DEEPEST).reshape(len(table), -1)
    cumulative = np.cumsum(np.exp(table), axis=1)
    draws = rng.random(len(table)) * cumulative[:, -1]
    cell = np.minimum((cumulative < draws[:, None]).sum(axis=1), table.shape[1] - 1)
    new_x = nodes[cell // _ANGLES] + widths[0] * (rng.random(len(table)) - 0.5)
    new_place = angles[cell % _ANGLES] + widths[1] * (rng.random(len(table)) - 0.5)
    old_x = np.log(particles.values[:, j])
    old_cell = np.rint((old_x - nodes[0]) / widths[0]), np.rint((place - angles[0]) / widths[1])
    inside = (old_cell[0] >= 0) & (old_cell[0] < len(nodes)) & (old_cell[1] >= 0) & (old_cell[1] < _ANGLES)
    flat_cell = np.where(inside, old_cell[0] * _ANGLES + old_cell[1], 0).astype(int)
    rows = np.arange(len(table))

    def log_density(x: Array, zeta: Array) -> Array:
        projection = seen_tangent / np.cosh(zeta)[:, None] - seen * np.tanh(zeta)[:, None]
        total = (fit(x) * projection**2).sum(axis=1) + log_base(x[:, None])[:, 0]
        result: Array = total - (dimension - 1) * np.log(np.cosh(zeta))
        return result

    log_acceptance = log_density(new_x, new_place) - log_density(old_x, place) + table[rows, flat_cell] - table[rows, cell]
    accepted = inside & usable & (np.log(rng.random(len(table))) < log_acceptance)
    _scale_column(particles, layer, j, np.where(accepted, np.exp(new_x - old_x), 1.0))
    cos, sin = -np.tanh(new_place)[:, None], 1 / np.cosh(new_place)[:, None]
    chosen = accepted[:, None]
    particles.directions[:, :, j] = np.where(chosen, cos * centre + sin * tangent, own_direction)
    particles.projections[:, :, j] = np.where(
        chosen, cos * seen + sin * seen_tangent, particles.projections[:, :, j]
    )


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
    """Rotate every pair of columns of U: the exponent is ½ κ cos(2θ − 2θ_0) up to a constant, von Mises in 2θ."""
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
    """Draw the hidden activities given F, then F given them: rows with precision S_K⁻¹ + Σ_i g_i h_i h_iᵀ/τ."""
    values, root = particles.values[:, None, :], np.sqrt(posterior.eigenvalues)[:, None]
    variance = noise + posterior.eigenvalues[:, None] * values
    hidden = root * np.sqrt(values) * particles.projections / variance
    hidden += np.sqrt(noise / variance) * rng.standard_normal(variance.shape)
    design = (root * hidden).swapaxes(1, 2)  # (N, m, r)
    precision = precision_above(posterior, particles, posterior.layers) + design @ design.swapaxes(1, 2) / noise
    factor = np.linalg.cholesky(precision)
    mean = np.linalg.solve(factor, design @ posterior.targets / noise)
    normal = rng.standard_normal(mean.shape)
    roots = np.linalg.solve(factor.swapaxes(1, 2), mean + normal).swapaxes(1, 2)
    return particles_of(posterior, roots, particles.inner, rng)


def move_inner(posterior: NarrowPosterior, particles: Particles, rng: np.random.Generator) -> None:
    """Draw every S_k given its neighbours, row by row.

    The density is |S|^{(ν_k − ν_{k+1} − m − 1)/2} exp(−½ tr(P S) − ½ tr(S⁻¹ M)), P = S_{k−1}⁻¹ and M = S_{k+1} (FᵀF for the last).
    With b = S_11⁻¹ S_1j and s = S_jj − bᵀ S_11 b for one index j and the others "1", b given s is Gaussian with precision
    P_jj S_11 + M_11/s, and s given b is generalised inverse Gaussian.
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
    """Draw x with log density power · x − ½ (rate e^x + inverse_rate e^{−x}): logs of generalised inverse Gaussians.

    Rejection with a hat that is flat around the mode and exponential beyond the points where the log density has fallen by about
    one (Devroye 2014, Statistics and Computing 24, 239): log-concave, so that few proposals are rejected.
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
