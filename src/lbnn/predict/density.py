"""Joint density of the predictive given a scale, without a factorisation for every scale.

The density of F̂ given Y and L is a ratio of densities of data under L. Each of them is a likelihood
factor with a spectrum of its own, computed once, so that thousands of scales cost next to nothing:

    noisy:      p(Ŷ | Y, L) = p(Y, Ŷ | L) / p(Y | L),
    noise-free: p(F̂ | Y, L) = p(F̂ | L) p(Y | F̂, L) / p(Y | L).
"""

from __future__ import annotations

import numpy as np

from lbnn._base.arrays import eigh, like, namespace, times
from lbnn._base.types import AnyArray, Array
from lbnn.data.projection import Projection, positive_part
from lbnn.likelihood.gaussian import GaussianLikelihood, LikelihoodRatio
from lbnn.predict.conditional import ConditionalProcess


def conditional_log_density(
    projection: Projection, process: ConditionalProcess, observation_noise: float, values: Array
) -> LikelihoodRatio:
    """Log N(v(F); μ_L, Σ_L + noise) as a function of the scale, for F of shape (p̂, n_d)."""
    if process.noise == 0:
        return LikelihoodRatio((_interpolating_likelihood(projection, process, values),))
    own = GaussianLikelihood(
        process.eigenvalues, process.targets, 0.0, len(process.eigenvalues), process.noise
    )
    if observation_noise > 0:
        return LikelihoodRatio((_joint_likelihood(projection, process, values),), (own,))
    if np.isinf(process.noise):
        return LikelihoodRatio((_prior_likelihood(projection, values),))
    numerators = _prior_likelihood(projection, values), _data_given_outputs(projection, process, values)
    return LikelihoodRatio(numerators, (own,))


def _interpolating_likelihood(
    projection: Projection, process: ConditionalProcess, values: Array
) -> GaussianLikelihood:
    """Zero temperature: F̂ − G_x̂x G⁻¹ Y ~ MN(0, R, L)."""
    mean = times(projection.explained, process.targets / np.sqrt(process.eigenvalues)[:, None])
    return _definite_likelihood(projection.unexplained_gram, values - mean)


def _prior_likelihood(projection: Projection, values: Array) -> GaussianLikelihood:
    """F̂ ~ MN(0, G_x̂x̂, L)."""
    return _definite_likelihood(_test_gram(projection), values)


def _data_given_outputs(
    projection: Projection, process: ConditionalProcess, values: Array
) -> GaussianLikelihood:
    """Targets given F̂: ỹ ~ N(B F̂, S ⊗ L + τ), S the Schur complement of G_x̂x̂ in the joint Gram matrix."""
    explained = projection.explained
    cross = like(np.sqrt(process.eigenvalues), explained) * explained  # (p̂, r)
    slope = namespace(explained).linalg.solve(_test_gram(projection), cross).T
    complement = like(np.diag(process.eigenvalues), explained) - slope @ cross
    largest = float(process.eigenvalues.max(initial=0.0))
    return _noisy_likelihood(complement, process.targets - times(slope, values), process.noise, largest)


def _joint_likelihood(
    projection: Projection, process: ConditionalProcess, values: Array
) -> GaussianLikelihood:
    """Likelihood of training and test observations together."""
    explained = projection.explained
    xp, own = namespace(explained), like(np.diag(process.eigenvalues), explained)
    cross = like(np.sqrt(process.eigenvalues), explained) * explained  # (p̂, r)
    above, below = xp.concat([own, cross.T], axis=1), xp.concat([cross, _test_gram(projection)], axis=1)
    joint = xp.concat([above, below], axis=0)
    return _noisy_likelihood(joint, np.concatenate([process.targets, values]), process.noise, 0.0)


def _test_gram(projection: Projection) -> AnyArray:
    return projection.unexplained_gram + projection.explained @ projection.explained.T


def _definite_likelihood(gram: AnyArray, values: Array) -> GaussianLikelihood:
    """Likelihood of noise-free values, which have a density only if the Gram matrix is invertible."""
    eigenvalues, rotated = _rotated(gram, values)
    count = len(eigenvalues)
    rank = int(positive_part(eigenvalues, count).sum())
    if rank < count:
        raise ValueError(
            "outputs have a joint density only at points that neither the others nor, at zero temperature, "
            f"the training data determine, got {count} points of rank {rank}: use with_noise()"
        )
    return GaussianLikelihood(eigenvalues, rotated, 0.0, count, 0.0)


def _noisy_likelihood(gram: AnyArray, values: Array, noise: float, largest: float) -> GaussianLikelihood:
    """Likelihood of noisy values; `largest` is the scale of the matrices that `gram` is a difference of."""
    eigenvalues, rotated = _rotated(gram, values)
    keep = positive_part(eigenvalues, len(eigenvalues), largest)
    residual = float((rotated[~keep] ** 2).sum())
    return GaussianLikelihood(eigenvalues[keep], rotated[keep], residual, len(eigenvalues), noise)


def _rotated(gram: AnyArray, values: Array) -> tuple[Array, Array]:
    """Eigenvalues of a Gram matrix (n,) and values (n, n_d) along its eigenvectors, as NumPy."""
    eigenvalues, vectors = eigh(gram)
    return eigenvalues, times(vectors.T, values)
