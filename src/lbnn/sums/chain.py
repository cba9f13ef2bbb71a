"""Networks cut at their narrowest layer, and the states of a sum of them.

The law of a network's function does not depend on the order of its hidden widths, so that the narrowest, k,
is taken last: F = H Tᵀ with the entries of T (n_d, k) independent and normal and

    H | S ~ MN(0, G, S),   S = S_1 for two hidden layers, S_l | S_{l−1} ~ Wishart(S_{l−1}, n_l), S_0 = I,

one Wishart matrix (k, k) for every other hidden layer. All variances stand in G, so that T has unit variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array, IndexArray


@dataclass(frozen=True)
class Block:
    """One network on its kernel G = L Lᵀ, all prior variances included.

    Attributes
    ----------
    root : (p, r) or None
        L, with orthogonal columns; None where G is `unit`² times the identity.
    scale : float
        Root of all prior variances together: G is scale² times the kernel that was given.
    unit : float
        One where there is a root.
    columns : int
        k.
    degrees : tuple of int
        Widths of the other hidden layers.
    examples : int
        p.
    """

    root: Array | None
    scale: float
    unit: float
    columns: int
    degrees: tuple[int, ...]
    examples: int

    @classmethod
    def of(
        cls, widths: Sequence[int], variance: float, eigenvalues: Array, vectors: Array | None, examples: int
    ) -> Block:
        """From hidden widths, the product of all prior variances, and G = U diag(g) Uᵀ; None for U = I."""
        *others, k = sorted(widths, reverse=True)
        scale = math.sqrt(variance / k / math.prod(others))
        if vectors is None:
            return cls(None, scale, scale * math.sqrt(float(eigenvalues[0])), k, tuple(others), examples)
        root = np.ascontiguousarray(vectors * (scale * np.sqrt(eigenvalues)))
        return cls(root, scale, 1.0, k, tuple(others), examples)

    @property
    def rank(self) -> int:
        """r."""
        return self.examples if self.root is None else self.root.shape[1]

    def spread(self, latent: Array) -> Array:
        """L Z, (p, m, k), of Z (r, m, k)."""
        return self.unit * latent if self.root is None else _times(self.root, latent)

    def collect(self, rows: Array) -> Array:
        """Lᵀ X, (r, m, k), of X (p, m, k)."""
        return self.unit * rows if self.root is None else _times(self.root.T, rows)

    def draw(self, m: int, rng: np.random.Generator) -> tuple[Array, tuple[Array, ...]]:
        """Z (r, m, k) and S_1, S_2, ... (m, k, k) of the prior."""
        k = self.columns
        root, layers = np.broadcast_to(np.eye(k), (m, k, k)), []
        for degree in self.degrees:
            root = root @ _bartlett(degree, k, m, rng)
            layers.append(root @ root.swapaxes(1, 2))
        return coloured(rng.standard_normal((self.rank, m, k)), root), tuple(layers)


@dataclass(frozen=True)
class State:
    """Particles: for every block Z (r, m, k) and its Wishart matrices (m, k, k)."""

    latent: tuple[Array, ...]
    layers: tuple[tuple[Array, ...], ...]

    def take(self, index: IndexArray) -> State:
        """Some particles."""
        return State(
            tuple(each[:, index] for each in self.latent),
            tuple(tuple(matrix[index] for matrix in each) for each in self.layers),
        )


def join(states: Sequence[State]) -> State:
    """All particles of several states, one after the other."""
    return State(
        tuple(np.concatenate(each, axis=1) for each in zip(*(one.latent for one in states), strict=True)),
        tuple(
            tuple(np.concatenate(each) for each in zip(*block, strict=True))
            for block in zip(*(one.layers for one in states), strict=True)
        ),
    )


def draw_prior(blocks: Sequence[Block], m: int, rng: np.random.Generator) -> State:
    """Particles of the prior."""
    drawn = [block.draw(m, rng) for block in blocks]
    return State(tuple(each for each, _ in drawn), tuple(each for _, each in drawn))


def features(blocks: Sequence[Block], state: State) -> Array:
    """C = [H_1, H_2, ...], (p, m, K)."""
    return np.concatenate([b.spread(z) for b, z in zip(blocks, state.latent, strict=True)], axis=2)


def coloured(rows: Array, root: Array) -> Array:
    """X Rᵀ for every particle: rows (any, m, k), R (m, k, k)."""
    if root.shape[1] == 1:
        return rows * root[:, 0]
    return np.ascontiguousarray((rows.swapaxes(0, 1) @ root.swapaxes(1, 2)).swapaxes(0, 1))


def particle_gram(rows: Array, weights: Array | None = None) -> Array:
    """Σ_i w_i x_i x_iᵀ, (m, k, k), of rows (i, m, k)."""
    turned = rows.transpose(1, 2, 0)
    return turned @ (rows if weights is None else rows * weights[:, None, None]).transpose(1, 0, 2)


def _bartlett(degree: int, k: int, m: int, rng: np.random.Generator) -> Array:
    """Lower roots (m, k, k) of Wishart(I, degree)."""
    root = np.tril(rng.standard_normal((m, k, k)), -1)
    root[:, range(k), range(k)] = np.sqrt(rng.chisquare(degree - np.arange(k), (m, k)))
    return root


def _times(matrix: Array, rows: Array) -> Array:
    """matrix (a, i) @ rows (i, m, k), as one product."""
    return (matrix @ rows.reshape(len(rows), -1)).reshape(len(matrix), *rows.shape[1:])
