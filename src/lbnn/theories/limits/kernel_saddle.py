"""Many outputs: the saddle point over hidden kernels rather than over L (the dual problem).

Integrating the last layer out leaves Y given the last hidden kernel Λ a matrix Gaussian over examples, and
the prior of Λ is that of L with the rank of the data instead of n_d: the same rate, the same equation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from lbnn._base.types import Array
from lbnn.data.projection import Projection
from lbnn.likelihood.hidden_kernel import dual
from lbnn.predict.predictive import Predictive
from lbnn.predict.process import Process
from lbnn.scale.draws import Draws
from lbnn.scale.measure import ScaleMeasure
from lbnn.theories.limits.saddle import find_saddle
from lbnn.theories.limits.setting import Setting
from lbnn.theories.limits.theory import Theory


@dataclass(frozen=True)
class KernelSaddle:
    """The hidden kernels at the saddle point, in coordinates where G_xx is the identity."""

    setting: Setting
    hidden: Array  # Λ, (r, r): K_{d−1} = Φ Λ Φᵀ with the last layer's variance

    @cached_property
    def _eigen(self) -> tuple[Array, Array]:
        """Eigenvalues (r,) and eigenvectors (r, r) of the hidden kernel."""
        values, vectors = np.linalg.eigh(self.hidden)
        return values, vectors

    def of_layer(self, layer: int) -> Array:
        """Λ_ℓ, the kernel of hidden layer ℓ without the variances of the layers above, (r, r)."""
        values, vectors = self._eigen
        up_to_layer = self.setting.wide_prior.layer_values(values)[:, :layer].prod(axis=1)
        return self._gain(layer) * (vectors * up_to_layer) @ vectors.T

    def kernel_at(self, projection: Projection, layer: int) -> Array:
        """⟨K_ℓ⟩ (p̂, p̂): training directions carry Λ_ℓ, the rest of the inputs keeps its prior."""
        explained = projection.explained
        rest = self._gain(layer) * projection.unexplained_gram
        return explained @ self.of_layer(layer) @ explained.T + rest

    def _predictive_at(self, projection: Projection) -> Predictive:
        """The Gaussian process with the learned kernel, independent over outputs."""
        data = self.setting.spectrum
        root = np.sqrt(data.eigenvalues)
        values, axes = np.linalg.eigh(root[:, None] * self.hidden * root)
        weights = (root[:, None] * axes) / np.sqrt(values)  # Φ' = Φ Λ diag(√g) axes / √values
        explained = projection.explained @ self.hidden @ weights
        # Φ Λ Φᵀ lies in the span of the training directions: only the prior's part stays unexplained.
        rest = self.setting.variance * projection.unexplained_gram
        measure = ScaleMeasure.atom(np.eye(data.outputs), data.single_output)
        draws = Draws.of(measure, self.setting.noise_variance)
        process = Process.of(draws, values, axes.T @ data.targets)
        return Predictive.of(process, Projection(explained, gram=rest), data.single_output)

    def _gain(self, layer: int) -> float:
        """Product of the prior variances of the layers 2 to ℓ."""
        return float(np.prod(self.setting.variances[: layer - 1]))


def many_output_theory(name: str, setting: Setting) -> Theory:
    """Kernels at the saddle point of n, n_d → ∞ with p fixed."""
    saddle = KernelSaddle(setting, _hidden_kernel(setting))
    return Theory(
        name,
        setting.spectrum,
        None,
        _log_evidence(setting, saddle.hidden),
        len(setting.widths),
        saddle.kernel_at,
        saddle._predictive_at,
    )


def _hidden_kernel(setting: Setting) -> Array:
    """The hidden kernel Λ at the saddle point, (r, r)."""
    prior, targets = setting.wide_prior, setting.spectrum.targets
    if setting.noise_variance == 0:
        root = targets / np.sqrt(setting.spectrum.eigenvalues)[:, None]
        squares, vectors = np.linalg.eigh(root @ root.T)
        return (vectors * prior.stationary(np.maximum(squares, 0.0), targets.shape[1])) @ vectors.T
    likelihood = dual(setting.likelihood).of_root
    axes = np.linalg.svd(setting.standardised_targets)[0]
    return find_saddle(
        prior, likelihood, partial(_change_along_axes, setting), setting.log_scale_range(), axes
    )


def _change_along_axes(setting: Setting, values: Array, vectors: Array, grid: Array) -> Array:
    """The change (k, r) of log p(Y | Λ) where one eigenvalue (r,) of Λ takes each value of a grid (k,).

    K + τ I changes by (l − l_j) a aᵀ with a = diag(√g) v_j: a determinant and an inverse of rank one.
    """
    data = setting.spectrum
    columns = np.sqrt(data.eigenvalues)[:, None] * vectors
    covariance = (columns * values) @ columns.T + setting.noise_variance * np.eye(len(values))
    solved = np.linalg.solve(covariance, columns)
    step = grid[:, None] - values
    growth = step * (columns * solved).sum(axis=0)
    fits = ((data.targets.T @ solved) ** 2).sum(axis=0)
    # Where the noise is at the size of rounding an eigenvalue near zero can leave no variance: no such moves.
    positive = growth > -1
    growth = np.where(positive, growth, 0.0)
    return np.where(positive, 0.5 * (step * fits / (1 + growth) - data.outputs * np.log1p(growth)), -np.inf)


def _log_evidence(setting: Setting, hidden: Array) -> float:
    """log p(Y | Λ) + Σ ψ for Λ (r, r): leading order."""
    values, vectors = np.linalg.eigh(hidden[None])
    log_likelihood = dual(setting.likelihood).log_value(values, vectors)[0]
    return setting.likelihood.log_constant + float(log_likelihood + setting.wide_prior.rate(values[0]).sum())
