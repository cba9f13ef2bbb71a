"""Joint density of the predictive given a scale, without a factorisation for every scale.

The density of F̂ given Y and L is a ratio of densities of data under L. Each of them is a likelihood
factor with a spectrum of its own, computed once, so that thousands of scales cost next to nothing:

    noisy:      p(Ŷ | Y, L) = p(Y, Ŷ | L) / p(Y | L),
    noise-free: p(F̂ | Y, L) = p(F̂ | L) p(Y | F̂, L) / p(Y | L).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from lbnn._base.arrays import eigh, like, namespace, times, to_numpy
from lbnn._base.types import AnyArray, Array
from lbnn.data.projection import RANK_TOLERANCE, Projection, positive_part
from lbnn.likelihood.gaussian import GaussianLikelihood, LikelihoodRatio
from lbnn.predict.conditional import ConditionalProcess

_EPS = float(np.finfo(float).eps)
_GRAM_ROUNDING = 1e-11  # error of a Gram matrix relative to the noise, above which its root is decomposed


class RootedPoints:
    """Test points with a root of the joint Gram matrix instead of the matrix itself.

    Rows (√g, 0) for the training directions and (Φ, E) for the test points, E Eᵀ = R, have the joint Gram
    matrix as their products. Rounding errors are ε relative to the largest singular value of the root, and so
    ε√(gl/τ) relative to the noise, as the rounding of the inputs themselves; the matrix would have ε gl/τ.
    """

    def __init__(self, projection: Projection) -> None:
        self.inner = projection

    @property
    def explained(self) -> AnyArray:
        """Φ, (p̂, r)."""
        return self.inner.explained

    @property
    def unexplained_gram(self) -> AnyArray:
        """R, (p̂, p̂)."""
        return self.inner.unexplained_gram

    @cached_property
    def _test_root(self) -> Array:
        """(Φ, E), E with at most p̂ columns."""
        rest = np.asarray(np.linalg.qr(to_numpy(self.inner.unexplained_root).T, mode="r")).T
        return np.concatenate([to_numpy(self.explained), rest], axis=1)

    def joint_root(self, process: ConditionalProcess) -> Array:
        """(r + p̂, any)."""
        rank, test = len(process.eigenvalues), self._test_root
        root = np.zeros((rank + len(test), test.shape[1]))
        root[np.arange(rank), np.arange(rank)] = np.sqrt(process.eigenvalues)
        root[rank:] = test
        return root

    def given_outputs(self, process: ConditionalProcess) -> tuple[Array, Array]:
        """Slope B (r, p̂) and a root of S (r, any): columns rotated such that those of (Φ, E) come first."""
        rank, points = len(process.eigenvalues), len(self._test_root)
        turn, triangle = np.linalg.qr(self._test_root.T, mode="complete")
        training = np.sqrt(process.eigenvalues)[:, None] * turn[:rank]
        return np.linalg.solve(triangle[:points], training[:, :points].T).T, training[:, points:]


Points = Projection | RootedPoints


def conditional_log_density(
    projection: Projection,
    process: ConditionalProcess,
    observation_noise: float,
    values: Array,
    typical_scale: float,
) -> LikelihoodRatio:
    """Log N(v(F); μ_L, Σ_L + noise) as a function of the scale, for F of shape (p̂, n_d).

    `typical_scale` says how large signal is against noise, and so whether Gram matrices keep the digits.
    """
    if _signal_to_noise(process, typical_scale) * _EPS > _GRAM_ROUNDING:
        points: Points = RootedPoints(projection)
    else:
        points = projection
    if process.noise_variance == 0:
        # F̂ − G_x̂x G⁻¹ Y ~ MN(0, R, L)
        mean = times(points.explained, process.targets / np.sqrt(process.eigenvalues)[:, None])
        return LikelihoodRatio((_definite_likelihood(points.unexplained_gram, values - mean),))
    own = GaussianLikelihood(
        process.eigenvalues, process.targets, 0.0, len(process.eigenvalues), process.noise_variance
    )
    if observation_noise > 0:
        return LikelihoodRatio((_joint_likelihood(points, process, values),), (own,))
    if np.isinf(process.noise_variance):
        return LikelihoodRatio((_prior_likelihood(points, values),))
    numerators = _prior_likelihood(points, values), _data_given_outputs(points, process, values)
    return LikelihoodRatio(numerators, (own,))


def _prior_likelihood(projection: Points, values: Array) -> GaussianLikelihood:
    """F̂ ~ MN(0, G_x̂x̂, L)."""
    return _definite_likelihood(_test_gram(projection), values)


def _data_given_outputs(projection: Points, process: ConditionalProcess, values: Array) -> GaussianLikelihood:
    """Likelihood of the targets given F̂ (p̂, n_d): ỹ ~ N(B F̂, S ⊗ L + τ).

    S is the Schur complement of G_x̂x̂ in the joint Gram matrix.
    """
    if isinstance(projection, RootedPoints):
        slope, root = projection.given_outputs(process)
        return _noisy_root_likelihood(root, process.targets - slope @ values, process.noise_variance)
    explained = projection.explained
    cross = like(np.sqrt(process.eigenvalues), explained) * explained  # (p̂, r)
    slope = namespace(explained).linalg.solve(_test_gram(projection), cross).T
    complement = like(np.diag(process.eigenvalues), explained) - slope @ cross
    largest = float(process.eigenvalues.max(initial=0.0))
    return _noisy_likelihood(
        complement, process.targets - times(slope, values), process.noise_variance, largest
    )


def _joint_likelihood(projection: Points, process: ConditionalProcess, values: Array) -> GaussianLikelihood:
    """Likelihood of training observations and test observations (p̂, n_d) together."""
    both = np.concatenate([process.targets, values])
    if isinstance(projection, RootedPoints):
        return _noisy_root_likelihood(projection.joint_root(process), both, process.noise_variance)
    explained = projection.explained
    xp, own = namespace(explained), like(np.diag(process.eigenvalues), explained)
    cross = like(np.sqrt(process.eigenvalues), explained) * explained  # (p̂, r)
    above, below = xp.concat([own, cross.T], axis=1), xp.concat([cross, _test_gram(projection)], axis=1)
    joint = xp.concat([above, below], axis=0)
    return _noisy_likelihood(joint, both, process.noise_variance, 0.0)


def _test_gram(projection: Points) -> AnyArray:
    """G_x̂x̂ = R + ΦΦᵀ, (p̂, p̂)."""
    return projection.unexplained_gram + projection.explained @ projection.explained.T


def _signal_to_noise(process: ConditionalProcess, typical_scale: float) -> float:
    """The largest g_i l/τ; zero at the ends of the temperatures, where no such ratio enters."""
    if not 0 < process.noise_variance < np.inf:
        return 0.0
    return float(process.eigenvalues.max(initial=0.0)) * typical_scale / process.noise_variance


def _noisy_root_likelihood(root: Array, values: Array, noise_variance: float) -> GaussianLikelihood:
    """Likelihood of noisy values (k, n_d) whose Gram matrix has the root (k, j)."""
    if not root.shape[1]:
        return GaussianLikelihood(
            np.zeros(0), values[:0], float((values**2).sum()), len(values), noise_variance
        )
    left, sizes, _ = np.linalg.svd(root, full_matrices=False)
    rotated = left.T @ values
    keep = sizes > RANK_TOLERANCE * max(root.shape) * sizes[0]
    residual = (
        float(((values - left[:, keep] @ rotated[keep]) ** 2).sum()) if keep.sum() < len(values) else 0.0
    )
    return GaussianLikelihood(sizes[keep] ** 2, rotated[keep], residual, len(values), noise_variance)


def _definite_likelihood(gram: AnyArray, values: Array) -> GaussianLikelihood:
    """Likelihood of noise-free values (k, n_d), which have a density only if gram (k, k) is invertible."""
    eigenvalues, rotated = _rotated(gram, values)
    count = len(eigenvalues)
    rank = int(positive_part(eigenvalues, count).sum())
    if rank < count:
        raise ValueError(
            "outputs have a joint density only at points that neither the others nor, at zero temperature, "
            f"the training data determine, got {count} points of rank {rank}: use with_noise()"
        )
    return GaussianLikelihood(eigenvalues, rotated, 0.0, count, 0.0)


def _noisy_likelihood(
    gram: AnyArray, values: Array, noise_variance: float, largest: float
) -> GaussianLikelihood:
    """Likelihood of noisy values (k, n_d) with gram (k, k).

    `largest` is the size of the matrices that `gram` is a difference of.
    """
    eigenvalues, rotated = _rotated(gram, values)
    keep = positive_part(eigenvalues, len(eigenvalues), largest)
    residual = float((rotated[~keep] ** 2).sum())
    return GaussianLikelihood(eigenvalues[keep], rotated[keep], residual, len(eigenvalues), noise_variance)


def _rotated(gram: AnyArray, values: Array) -> tuple[Array, Array]:
    """Eigenvalues of a Gram matrix (n,) and values (n, n_d) along its eigenvectors, as NumPy."""
    eigenvalues, vectors = eigh(gram)
    return eigenvalues, times(vectors.T, values)
