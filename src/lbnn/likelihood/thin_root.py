"""Likelihood of scales of low rank, from a root with few columns: a layer is narrower than the outputs.

Behind a layer of width k the scale is L = F Fᵀ with F of k columns. With F = V diag(√l) Uᵀ (reduced singular
value decomposition) and the noise τ > 0, directions outside of V have the variance τ and nothing else:

    log p(Y | L) = −½ Σ_ij [log(1 + g_i l_j/τ) − s_ij z_ij/τ] + constant,   z = ỹV,   s = z gl/(τ + gl),

sums over k directions only, without any matrix of n_d rows and columns. The same for the hidden kernel, with
the data instead of the outputs. The part of the targets outside of V is a difference, so that the
digits of very large targets are lost: `thin_likelihood` answers None for those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.types import Array
from lbnn.likelihood.gaussian import GaussianLikelihood, LikelihoodRatio
from lbnn.likelihood.hidden_kernel import HiddenKernelLikelihood

_LARGEST_RATIO = 1e9  # of squared targets to noise: the log likelihood is then right to 1e-6


class ThinLikelihood(Protocol):
    """A log likelihood as a function of a root F (m, n, k) of the scale."""

    def log_value(self, root: Array) -> Array:
        """log p(Y | F Fᵀ) for roots F (m, n_d, k), (m,)."""
        ...

    def value_and_gradient(self, root: Array) -> tuple[Array, Array]:
        """The value (m,) and its gradient in F (m, n_d, k)."""
        ...


def thin_likelihood(likelihood: object) -> ThinLikelihood | None:
    """The likelihood as a function of a root with few columns; None where it has no noise, or hardly any."""
    if isinstance(likelihood, LikelihoodRatio):  # factor by factor, if all have such a form
        signed = [(sign, thin_likelihood(factor)) for sign, factor in likelihood.signed]
        parts = tuple((sign, thin) for sign, thin in signed if thin is not None)
        return ThinRatio(parts) if len(parts) == len(signed) else None
    dual = isinstance(likelihood, HiddenKernelLikelihood)
    own = likelihood.primal if isinstance(likelihood, HiddenKernelLikelihood) else likelihood
    if not isinstance(own, GaussianLikelihood) or own.flat:
        return None
    if float((own.targets**2).sum()) >= _LARGEST_RATIO * own.noise_variance:
        return None
    if dual and own.units is not None:
        raise ValueError("the hidden kernel has one noise variance for all outputs, got units of the outputs")
    return ThinHiddenKernel(own) if dual else ThinScale(own)


@dataclass(frozen=True)
class ThinRatio:
    """A product of likelihoods over others as `LikelihoodRatio` has it."""

    parts: tuple[tuple[float, ThinLikelihood], ...]

    def log_value(self, root: Array) -> Array:
        """(m,)."""
        return np.sum([sign * part.log_value(root) for sign, part in self.parts], axis=0)

    def value_and_gradient(self, root: Array) -> tuple[Array, Array]:
        """The value (m,) and its gradient in F (m, n_d, k)."""
        both = [(sign, *part.value_and_gradient(root)) for sign, part in self.parts]
        value = np.sum([sign * value for sign, value, _ in both], axis=0)
        return value, np.sum([sign * slope for sign, _, slope in both], axis=0)


@dataclass(frozen=True)
class ThinScale:
    """log p(Y | L = F Fᵀ) as `GaussianLikelihood.log_value` has it, F (m, n_d, k)."""

    likelihood: GaussianLikelihood

    def log_value(self, root: Array) -> Array:
        """(m,)."""
        return self._differentiated(root, slopes=False)[0]

    def value_and_gradient(self, root: Array) -> tuple[Array, Array]:
        """The value (m,) and its gradient in F (m, n_d, k)."""
        return self._differentiated(root, slopes=True)

    def _differentiated(self, root: Array, slopes: bool) -> tuple[Array, Array]:
        """Value (m,) and gradient (m, n_d, k) at roots F (m, n_d, k).

        ∂/∂F = 2 (∂/∂L) F = [ỹᵀ w/τ − V (sᵀw/τ + diag_j Σ_i g_i/D_ij)] Vᵀ F with w_ij = g_i z_ij/D_ij.

        Targets in units D have the root D F, and the gradient in F is D times that in D F.
        """
        rows, noise, units = self.likelihood._rows, self.likelihood.noise_variance, self.likelihood.units
        root = root if units is None else units[:, None] * root
        axes, sizes, turns = np.linalg.svd(root, full_matrices=False)
        value, gradient = np.empty(len(root)), np.empty_like(root)
        for block in blocks(len(root), rows.targets.size):
            scale, vectors = sizes[block, None, :] ** 2, axes[block]
            variance = noise + rows.eigenvalues[:, None] * scale
            rotated = rows.targets @ vectors  # z, (m, q, k)
            seen = rows.eigenvalues[:, None] * scale * rotated / variance  # s
            logs = rows.counts @ np.log1p(rows.nodes[:, None] * scale / noise)
            value[block] = -0.5 * (logs.sum(axis=1) - (seen * rotated).sum(axis=(1, 2)) / noise)
            if slopes:
                weighted = rows.eigenvalues[:, None] * rotated / variance / noise  # w/τ
                inner = seen.swapaxes(1, 2) @ weighted
                spread = (rows.counts * rows.nodes) @ (1 / (noise + rows.nodes[:, None] * scale))
                inner += spread[:, None, :] * np.eye(inner.shape[1])
                outer = rows.targets.T @ weighted - vectors @ inner
                gradient[block] = (outer * sizes[block, None, :]) @ turns[block]
        outputs = self.likelihood.targets.shape[1]
        unseen = outputs * rows.counts.sum() * np.log(noise) + (rows.targets**2).sum() / noise
        return value - 0.5 * unseen, gradient if units is None else units[:, None] * gradient


@dataclass(frozen=True)
class ThinHiddenKernel:
    """log p(Y | Λ = F Fᵀ) as `HiddenKernelLikelihood.log_value` has it, F (m, r, k)."""

    likelihood: GaussianLikelihood

    def log_value(self, root: Array) -> Array:
        """(m,)."""
        return self.value_and_gradient(root)[0]

    def value_and_gradient(self, root: Array) -> tuple[Array, Array]:
        """The value (m,) and its gradient in F.

        With A = diag(√g) F and M = (AAᵀ + τ)⁻¹ the gradient is diag(√g) [M ỹỹᵀ M − n_d M] A.
        With A = V diag(a) Uᵀ: M A = V diag(a/(τ + a²)) Uᵀ, and M = [1 − V diag(a²/(τ + a²)) Vᵀ]/τ.
        """
        own = self.likelihood
        noise, outputs, strength = own.noise_variance, own.targets.shape[1], np.sqrt(own.eigenvalues)[:, None]
        axes, sizes, turns = np.linalg.svd(strength * root, full_matrices=False)
        share = sizes**2 / (noise + sizes**2)
        rotated = axes.swapaxes(1, 2) @ own.targets  # Vᵀỹ, (m, k, n_d)
        fit = (own.targets @ rotated.swapaxes(1, 2)) - axes @ (
            share[:, :, None] * (rotated @ rotated.swapaxes(1, 2))
        )  # τ M ỹỹᵀ V, (m, r, k)
        unseen = outputs * len(strength) * np.log(noise) + (own.targets**2).sum() / noise
        logs = outputs * np.log1p(sizes**2 / noise).sum(axis=1)
        value = -0.5 * (unseen + logs - (share * (rotated**2).sum(axis=2)).sum(axis=1) / noise)
        along = (sizes / (noise + sizes**2))[:, None, :]
        gradient = strength * ((fit / noise - outputs * axes) * along @ turns)
        return value, gradient
