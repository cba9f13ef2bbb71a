"""Gibbs moves of a sum of networks given the observed cells: regressions, MGIG, and the gauge.

One sweep leaves the law of (H, S) invariant whose likelihood, to the power t, has T and the noise integrated
out: T and noise given H exactly; H of every block given these; the Wishart matrices given H; and the gauge
H → H A, T → T A⁻ᵀ, which leaves the fit as it is and would otherwise move slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from lbnn._base.types import Array
from lbnn.engines.spectral_moves import draw_log_gig, move_mgig
from lbnn.sums.chain import Block, State, coloured, features, particle_gram
from lbnn.sums.table import Regressions, Table

#: Distance of a solution of conjugate gradients from the exact one, in posterior standard deviations of a
#: coordinate (root mean square, by the preconditioned residual) at which they stop.
TOLERANCE = 1e-3
_MOST_STEPS = 500
_TINY = 1e-300  # keeps rates of a generalised inverse Gaussian positive


def sweep(
    table: Table, blocks: Sequence[Block], state: State, fits: Regressions, t: float, rng: np.random.Generator
) -> tuple[State, Regressions]:
    """One sweep of particles whose regressions are `fits`; their new states and regressions."""
    loadings, deviations = table.draw(fits, t, rng)
    latent, layers = draw_latent(table, blocks, state, loadings, deviations, t, rng), []
    places = np.cumsum([0, *(block.columns for block in blocks)])
    for b, block in enumerate(blocks):
        own = loadings[..., places[b] : places[b + 1]]
        latent[b], moved = _move_covariances(table, block, latent[b], state.layers[b], own, rng)
        layers.append(moved)
    new = State(tuple(latent), tuple(layers))
    return new, table.regressions(features(blocks, new))


def draw_latent(
    table: Table,
    blocks: Sequence[Block],
    state: State,
    loadings: Array,
    deviations: Array,
    t: float,
    rng: np.random.Generator,
) -> list[Array]:
    """Z (r, m, k) of every block given loadings T̃ (n_d, m, K) and noise deviations (n_d, m).

    In coordinates x with H = x Rᵀ, R Rᵀ = S, whose loadings are T̃ R. Blocks on the identity are independent
    across rows given the others: they are integrated out row by row where another block is drawn.
    """
    roots = [_root(own[-1]) if own else None for own in state.layers]
    places = np.cumsum([0, *(block.columns for block in blocks)])
    parts = [slice(first, last) for first, last in pairwise(places)]
    scaled = loadings.copy()
    for block, root, part in zip(blocks, roots, parts, strict=True):
        if root is not None:
            scaled[..., part] = coloured(loadings[..., part], root.swapaxes(1, 2))
        scaled[..., part] *= block.unit
    p, (_, m, K) = len(table.targets), scaled.shape
    weights = t * table.grams(table.observed, scaled)  # W, (p, m, K, K)
    linear = (table.targets @ (scaled * (t / deviations)[..., None]).reshape(len(scaled), -1)).reshape(
        p, m, K
    )
    own = np.array([b.root is None for b in blocks]).repeat([b.columns for b in blocks])
    inner = _OwnRows(weights[..., own, :][..., own], rng) if own.any() else None
    rows = np.zeros((p, m, K))  # L x of every block, zero where not drawn yet or of its own
    white = [np.zeros(0)] * len(blocks)
    for b, (block, part, root) in enumerate(zip(blocks, parts, roots, strict=True)):
        if block.root is not None:
            rows[..., part] = block.spread(_whitened(state.latent[b], root))
    for b, (block, part) in enumerate(zip(blocks, parts, strict=True)):
        if block.root is None:
            continue
        rows[..., part] = 0.0
        rest = linear - _applied(weights, rows)
        gram, right = weights[..., part, part], rest[..., part]
        if inner is not None:
            gram, right = inner.eliminated(gram, right, weights[..., own, part], rest[..., own])
        white[b], rows[..., part] = _draw_dense(block, gram, right, rng)
    if inner is not None:
        drawn = inner.draw((linear - _applied(weights, rows))[..., own])
        count = 0
        for b, block in enumerate(blocks):
            if block.root is None:
                white[b] = drawn[..., count : count + block.columns]
                count += block.columns
    return [z if root is None else coloured(z, root) for z, root in zip(white, roots, strict=True)]


class _OwnRows:
    """Blocks on the identity, row by row: precision I + W (p, m, q, q)."""

    def __init__(self, weights: Array, rng: np.random.Generator) -> None:
        self.precision = weights + np.eye(weights.shape[-1])
        self.rng = rng

    def eliminated(self, gram: Array, right: Array, cross: Array, own: Array) -> tuple[Array, Array]:
        """Precision and linear term of a block (p, m, k) with these rows integrated out."""
        solved = _solved(self.precision, np.concatenate([cross, own[..., None]], axis=-1))
        change = cross.swapaxes(-1, -2) @ solved
        gram = gram - change[..., :-1]
        return 0.5 * (gram + gram.swapaxes(-1, -2)), right - change[..., -1]

    def draw(self, linear: Array) -> Array:
        """Rows given everything else, (p, m, q)."""
        noise = _root(self.precision) @ self.rng.standard_normal((*linear.shape, 1))
        return _solved(self.precision, linear[..., None] + noise)[..., 0]


def _draw_dense(block: Block, gram: Array, right: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """x (r, m, k) with precision I + Lᵀ W L and linear term Lᵀ e, and L x.

    W is `gram` (p, m, k, k), e `right`. The solution for a right-hand side with noise of the precision's
    covariance is a draw. Preconditioned as if all rows had the average W.
    """
    root = block.root
    assert root is not None
    size = np.trace(gram, axis1=-2, axis2=-1)[..., None, None]
    factor = _root(gram + (1e-11 * size + 1e-14) * np.eye(block.columns))  # W may be singular
    noise = (factor @ rng.standard_normal((*right.shape, 1)))[..., 0]
    values, axes = map(np.asarray, np.linalg.eigh(gram.mean(axis=0)))
    gram = axes.swapaxes(1, 2) @ gram @ axes
    target = block.collect(coloured(right + noise, axes.swapaxes(1, 2)))
    target += rng.standard_normal(target.shape)
    scale = 1 / (1 + (root**2).sum(axis=0)[:, None, None] * np.maximum(values, 0.0))

    def apply(x: Array) -> Array:
        return x + block.collect(_applied(gram, block.spread(x)))

    solution = coloured(conjugate_gradients(apply, target, scale), axes)
    return solution, block.spread(solution)


def conjugate_gradients(apply: Callable[[Array], Array], right: Array, scale: Array) -> Array:
    """Solutions (r, m, k) of one system for every particle, preconditioned by a diagonal `scale`."""

    def dot(one: Array, two: Array) -> Array:
        return np.einsum("rmk,rmk->m", one, two)[:, None]

    solution = scale * right
    residual = right - apply(solution)
    limit = TOLERANCE**2 * right.shape[0] * right.shape[2]
    direction = scaled = scale * residual
    product = dot(residual, scaled)
    for _ in range(_MOST_STEPS):
        if (product <= limit).all():
            return solution
        image = apply(direction)
        step = product / np.maximum(dot(direction, image), _TINY)
        solution = solution + step * direction
        residual = residual - step * image
        scaled = scale * residual
        before, product = product, dot(residual, scaled)
        direction = scaled + product / np.maximum(before, _TINY) * direction
    raise RuntimeError("conjugate gradients did not converge; please report this with your data")


def _move_covariances(
    table: Table,
    block: Block,
    latent: Array,
    layers: tuple[Array, ...],
    loadings: Array,
    rng: np.random.Generator,
) -> tuple[Array, tuple[Array, ...]]:
    """Wishart matrices given Z (r, m, k), and the gauge against loadings T̃ (n_d, m, k)."""
    gram, count = particle_gram(latent), block.rank
    moved = [each.copy() for each in layers]
    degrees = (*block.degrees, count)
    for i in reversed(range(len(moved))):
        before = _inverse(moved[i - 1]) if i else np.broadcast_to(np.eye(block.columns), gram.shape)
        after = moved[i + 1] if i + 1 < len(moved) else gram
        move_mgig(moved[i], 0.5 * (degrees[i] - degrees[i + 1]), before, after, rng)
    first, degree = (moved[0], degrees[0]) if moved else (gram, count)
    against = particle_gram(loadings, table.precision[:, 0])
    order = 0.5 * (degree - len(loadings))
    change = gauge(order, first, against, rng)
    turned = coloured(latent, change.swapaxes(1, 2))
    return turned, tuple(change.swapaxes(1, 2) @ each @ change for each in moved)


def gauge(order: float, first: Array, second: Array, rng: np.random.Generator) -> Array:
    """A (m, k, k), a move for the density |A|^{2 order} exp(−½ tr(AᵀφA) − ½ tr(A⁻¹ψA⁻ᵀ)) from A = I.

    φ = `first`, ψ = `second`. Over the subgroups of scales of a column and of shears into the others each is
    an exact draw, by the density times the subgroup's own invariant measure (Liu & Sabatti 2000).
    """
    m, k, _ = first.shape
    phi, psi = first.copy(), second.copy()
    result = np.broadcast_to(np.eye(k), (m, k, k)).copy()
    for j in range(k):
        log_square = draw_log_gig(
            order, np.maximum(phi[:, j, j], _TINY), np.maximum(psi[:, j, j], _TINY), rng
        )
        size = np.exp(0.5 * log_square)[:, None]
        result[:, :, j] *= size
        phi[:, j], psi[:, j] = phi[:, j] * size, psi[:, j] / size
        phi[:, :, j], psi[:, :, j] = phi[:, :, j] * size, psi[:, :, j] / size
        if k == 1:
            break
        rest = np.delete(np.arange(k), j)
        precision = psi[:, rest[:, None], rest] + phi[:, j, j, None, None] * np.eye(k - 1)
        factor = _root(precision)
        shift = np.linalg.solve(precision, (psi[:, rest, j] - phi[:, rest, j])[..., None])
        shift += np.linalg.solve(factor.swapaxes(1, 2), rng.standard_normal((m, k - 1, 1)))
        shear = np.broadcast_to(np.eye(k), (m, k, k)).copy()
        shear[:, j, rest] = shift[..., 0]
        inverse = np.broadcast_to(np.eye(k), (m, k, k)).copy()
        inverse[:, j, rest] = -shift[..., 0]
        result = result @ shear
        phi = shear.swapaxes(1, 2) @ phi @ shear
        psi = inverse @ psi @ inverse.swapaxes(1, 2)
    return result


def _root(matrices: Array) -> Array:
    """Lower Cholesky factors."""
    if matrices.shape[-1] == 1:
        return np.sqrt(matrices)
    return np.asarray(np.linalg.cholesky(matrices), float)


def _solved(matrices: Array, right: Array) -> Array:
    """Solutions of small systems; those of one row are divisions, which LAPACK takes ten times longer for."""
    if matrices.shape[-1] == 1:
        return right / matrices
    return np.asarray(np.linalg.solve(matrices, right), float)


def _inverse(matrices: Array) -> Array:
    """Inverses."""
    return np.asarray(np.linalg.inv(matrices), float)


def _applied(matrices: Array, rows: Array) -> Array:
    """Products of matrices (p, m, k, k) with rows (p, m, k)."""
    return np.einsum("pmab,pmb->pma", matrices, rows)


def _whitened(latent: Array, root: Array | None) -> Array:
    """x (r, m, k) with Z = x Rᵀ."""
    return latent if root is None else coloured(latent, _inverse(root))
