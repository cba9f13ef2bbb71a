"""A hidden layer narrower than the outputs: the Gaussian at the mode, rows measured by the square block.

In the coordinates of `scale.relative_rows` the rows of T_d below its square block are regressions on the
directions that the layer passes on, nearly Gaussian and nearly independent of each other given those. So the
curvature is computed by blocks, one for each row and one for everything else: differences of the gradient
along all rows at once, each row with a sign of its own, so that what rows have in common averages out. It
costs as many gradients as the layer has units, whatever the number of outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.types import Array, IndexArray
from lbnn.engines.estimate import Estimate
from lbnn.engines.importance import GaussianProposal, bounded_root, find_mode
from lbnn.engines.target import Target, turned_points
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.observed import CellsOfKernel
from lbnn.scale.relative_rows import RelativeCoordinates

_DIFFERENCE = 1e-4
_SIGNS = 4  # sets of signs over which blocks are averaged: what rows share is then halved
_MOST_TOGETHER = 300  # coordinates of C and inner factors that have one block; beyond, a block for each row


@dataclass(frozen=True)
class BlockGaussian(GaussianProposal):
    """N(mean, block-diagonal covariance): sets of coordinates, each with a root of its covariance."""

    sets: tuple[IndexArray, ...] = ()  # coordinates of equally large blocks, (blocks, size) each
    roots: tuple[Array, ...] = ()  # symmetric, (blocks, size, size) each

    def place(self, white: Array) -> Array:
        """From white coordinates ξ to v = mean + root ξ, (m, D)."""
        return self.mean + self._times(self.roots, white)

    def whiten(self, v: Array) -> Array:
        """From v to white coordinates ξ = root⁻¹ (v − mean), (m, D)."""
        return self._times(self._inverse_roots, v - self.mean)

    def pull_back(self, gradient: Array) -> Array:
        """Gradient in ξ from the gradient in v, (m, D)."""
        return self._times(self.roots, gradient)

    def times_covariance(self, vectors: Array) -> Array:
        """The covariance times vectors (D, k)."""
        return self._times(self.roots, self._times(self.roots, vectors.T)).T

    def _times(self, roots: tuple[Array, ...], rows: Array) -> Array:
        """Rows (m, D) times block-diagonal symmetric matrices."""
        result = np.empty_like(rows)
        for index, root in zip(self.sets, roots, strict=True):
            parts = rows[:, index].swapaxes(0, 1) @ root  # (blocks, m, size)
            result[:, index] = parts.swapaxes(0, 1)
        return result

    @cached_property
    def _inverse_roots(self) -> tuple[Array, ...]:
        return tuple(np.asarray(np.linalg.inv(root), float) for root in self.roots)


def relative_rows_apply(target: Target) -> bool:
    """Whether a layer is narrower than the outputs; free frame.

    Not for the hidden kernel: the prior alone determines its rows along weak directions of the data, and
    does so in plain coordinates.
    """
    own = target.likelihood
    kernel = isinstance(own, CellsOfKernel) or (isinstance(own, GaussianLikelihood) and own.of_kernel)
    return target.any_frame and not kernel and not target.coordinates.square


def relative_target(
    target: Target, start: Array | None = None, *, strongest_first: bool = False
) -> tuple[Target, Array]:
    """The posterior in relative coordinates, and the mode (D,) in them next to start (D,), in plain ones.

    The frame is that in which L is diagonal at the mode, where the rows below are zero on average. Of the
    axes that L has there the weakest comes first, or the strongest: T is another matrix then.
    """
    mode = find_mode(target, np.zeros(target.dimension) if start is None else start)
    turned = target.in_frame(_frame(target, mode, strongest_first))
    mode = turned_points(mode[None], target, turned)[0]
    return replace(turned, coordinates=RelativeCoordinates.at(turned.coordinates, mode)), mode


def relative_gaussian(target: Target, *, strongest_first: bool = False) -> tuple[Target, BlockGaussian]:
    """The posterior in relative coordinates and the Gaussian at its mode, as `relative_target` has them."""
    relative, mode = relative_target(target, strongest_first=strongest_first)
    return relative, block_gaussian(relative, mode)


def plain_estimate(estimate: Estimate) -> Estimate:
    """Draws that may have relative coordinates in plain ones, for what comes after."""
    own = estimate.target
    if own is None or not isinstance(own.coordinates, RelativeCoordinates):
        return estimate
    coordinates = own.coordinates
    plain = replace(own, coordinates=coordinates.plain)
    return replace(estimate, locate=lambda: coordinates.to_plain(estimate.points), target=plain)


def _frame(target: Target, mode: Array, strongest_first: bool) -> Array:
    """Axes (n_d, n_d): those of L at the mode, in one of two orders, then those of targets outside."""
    columns = target.coordinates.shapes[0].columns
    vectors = np.linalg.eigh(target.scales(mode[None])[0]).eigenvectors[:, ::-1]
    seen, rest = vectors[:, :columns], vectors[:, columns:]
    within = np.linalg.eigh(rest.T @ target.likelihood.target_moment @ rest).eigenvectors[:, ::-1]
    return np.hstack([seen if strongest_first else seen[:, ::-1], rest @ within])


def block_gaussian(target: Target, start: Array) -> BlockGaussian:
    """The Gaussian at the mode next to start (D,) of a target in relative coordinates."""
    coordinates = target.coordinates
    assert isinstance(coordinates, RelativeCoordinates)
    mode = find_mode(target, start)
    sets, roots, log_determinant = [], [], 0.0
    for blocks in _blocks(coordinates):
        hessians = _curvature(target, mode, blocks)
        for size in dict.fromkeys(map(len, blocks)):  # blocks of one size as one array
            index = np.stack([block for block in blocks if len(block) == size])
            own = np.stack([each for each in hessians if len(each) == size])
            root, logs = bounded_root(own, len(mode))
            sets.append(index)
            roots.append(root)
            log_determinant += float(logs.sum())
    return BlockGaussian(mode, None, log_determinant, tuple(sets), tuple(roots))


def _blocks(coordinates: RelativeCoordinates) -> list[list[IndexArray]]:
    """Coordinates of the blocks: the rows of T_d, those of C together with inner factors where these are few.

    Blocks of one list are differentiated at once, others one list after the other.
    """
    k, rows = coordinates.k, coordinates.rows_below
    below = list(np.arange(rows.start, rows.stop).reshape(-1, k))
    others = np.setdiff1d(np.arange(coordinates.dimension), np.concatenate(below))
    if len(others) <= _MOST_TOGETHER:
        return [[others], below]
    row, _ = np.tril_indices(k, -1)
    square = [np.append(i, k + np.flatnonzero(row == i)) for i in range(k)]
    inner = others[others >= rows.stop]
    return [[*square, *below], *([[inner]] if len(inner) else [])]


def _curvature(target: Target, mode: Array, blocks: list[IndexArray]) -> list[Array]:
    """Blocks of the Hessian of the negative log posterior at the mode (D,), (size, size) each."""
    rng, repeats = np.random.default_rng(0), _SIGNS if len(blocks) > 1 else 1
    largest = max(map(len, blocks))
    totals = [np.zeros((len(block), len(block))) for block in blocks]
    for _ in range(repeats):
        signs = rng.choice([-1.0, 1.0], len(blocks))
        steps = np.zeros((largest, len(mode)))
        for block, sign in zip(blocks, signs, strict=True):
            steps[np.arange(len(block)), block] = _DIFFERENCE * sign
        ahead, behind = (target.value_and_gradient(mode + side * steps)[1] for side in (1, -1))
        change = (behind - ahead) / (2 * _DIFFERENCE * repeats)  # (largest, D)
        for block, sign, total in zip(blocks, signs, totals, strict=True):
            total += sign * change[: len(block), block]
    return [(total + total.T) / 2 for total in totals]
