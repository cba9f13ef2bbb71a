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

_TABLE_STEP = 0.22  # largest distance of nodes in log l: more than 95% of proposals are accepted up to 40 rows of data
_STEP_IN_DEVIATIONS = 0.75  # the same for many rows, where log l has the deviation √(2/r)
_BELOW, _BELOW_PER_LAYER = 12.0, 6.0  # e-folds of the table below τ/g: the prior of log l falls at least like e^{x/2} there
_ABOVE = 3.0  # e-folds above the largest value that prior or data suggest
_DEEPEST = -60.0  # floor of the table relative to its maximum; proposals below it have a chance of 1e-26
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
    """Every move once, at a noise variance; particles are changed in place where that is possible."""
    for layer in range(posterior.layers + 1):
        move_values(posterior, particles, noise, layer, rng)
    rotate_columns(posterior, particles, noise, rng)
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
        if layer == posterior.layers:
            linear, quadratic = np.zeros(len(own)), precision[:, j, j]
        else:
            below = particles.inner[layer]
            product = precision[:, j, j] * below[:, j, j]
            linear = ((precision[:, j] * below[:, j]).sum(axis=1) - product) / np.sqrt(own)
            quadratic = product / own
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
        factor = np.where(accepted, proposed / own, 1.0)
        particles.values[:, j] *= factor
        for below in particles.inner[layer:]:
            below[:, j, :] *= np.sqrt(factor)[:, None]
            below[:, :, j] *= np.sqrt(factor)[:, None]


def _draw_from_table(
    nodes: Array, table: Array, current: Array, rng: np.random.Generator
) -> tuple[Array, Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Draw from densities that are exponential between nodes.

    Returns the draws, log q(draw) − log q(current), and whether the current point is within the table.
    """
    step, last, rows = nodes[1] - nodes[0], len(nodes) - 2, np.arange(len(table))
    logs = np.maximum(table - table.max(axis=1, keepdims=True), _DEEPEST)
    heights, slopes = np.exp(logs), np.diff(logs, axis=1)
    level = np.abs(slopes) < 1e-6
    masses = np.where(level, heights[:, :-1], np.diff(heights, axis=1) / np.where(level, 1.0, slopes))
    cumulative = np.cumsum(masses, axis=1)
    cell = np.minimum((cumulative < (rng.random(len(table)) * cumulative[:, -1])[:, None]).sum(axis=1), last)
    slope, uniform = slopes[rows, cell], rng.random(len(table))
    flat = np.abs(slope) < 1e-6
    within = np.where(flat, uniform, np.log1p(uniform * np.expm1(slope)) / np.where(flat, 1.0, slope))
    place = (current - nodes[0]) / step
    inside = (place >= 0) & (place < last + 1)
    own = np.clip(place.astype(int), 0, last)
    log_own = logs[rows, own] + slopes[rows, own] * (place - own)
    return nodes[cell] + step * within, logs[rows, cell] + slope * within - log_own, inside


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
        for _ in range(10):
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
