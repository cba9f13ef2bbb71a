"""Predictions where signal and noise each have a covariance of their own.

Given a draw Σ = M Mᵀ, L = M diag(l) Mᵀ the outputs Y M⁻ᵀ are independent, each a Gaussian process of scale
l_j with noise of variance one: with z = ỹ M⁻ᵀ and test points Φ, R (see `data.projection`)

    mean Φ [√g_i l_j z_ij/(1 + g_i l_j)] Mᵀ,      covariance Σ_j m_j m_jᵀ ⊗ (R l_j + Φ diag_i(s_ij) Φᵀ),

s_ij = l_j/(1 + g_i l_j). A level of flat prior adds Σ/p, shared by all points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.arrays import to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.types import Array
from lbnn.data.projection import Projection
from lbnn.predict.atoms import AtomPredictive, warn_of_few
from lbnn.predict.predictive import log_average
from lbnn.scale.signal_noise import SignalNoiseDraws

LOG_TWO_PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class SignalNoiseProcess:
    """Gaussian processes given draws of signal and noise, at p̂ test points.

    Attributes
    ----------
    draws : SignalNoiseDraws
    eigenvalues, targets : (r,) and (r, n_d)
        g and ỹ.
    projection : Projection
    level_share : float
        1/p where a level is fitted, else 0.
    """

    draws: SignalNoiseDraws
    eigenvalues: Array
    targets: Array
    projection: Projection
    level_share: float

    @cached_property
    def explained(self) -> Array:
        """Φ (p̂, r), as NumPy."""
        return np.asarray(to_numpy(self.projection.explained), float)

    @cached_property
    def _spread(self) -> Array:
        """1 + g_i l_j, (m, r, n_d)."""
        return 1 + self.eigenvalues[:, None] * self.draws.ratios[:, None, :]

    @cached_property
    def coefficients(self) -> Array:
        """√g_i l_j z_ij/(1 + g_i l_j), (m, r, n_d)."""
        white = self.targets @ self.draws.inverse.swapaxes(1, 2)
        return np.sqrt(self.eigenvalues)[:, None] * self.draws.ratios[:, None, :] * white / self._spread

    @cached_property
    def means(self) -> Array:
        """Given each draw, (m, p̂, n_d)."""
        return (self.explained @ self.coefficients) @ self.draws.basis.swapaxes(1, 2)

    def variances(self, rows: slice, noisy: bool) -> Array:
        """Of the independent outputs Y M⁻ᵀ at some points, (m, rows, n_d)."""
        ratios = self.draws.ratios[:, None, :]
        left = self.explained[rows] ** 2 @ (ratios / self._spread)
        own = self.projection.unexplained_diagonal[rows][:, None] * ratios
        return np.asarray(own + left + self.level_share + float(noisy))

    def covariances(self, rows: slice, noisy: bool) -> Array:
        """Across outputs at some points, (m, rows, n_d, n_d)."""
        basis = self.draws.basis[:, None]
        return (basis * self.variances(rows, noisy)[:, :, None, :]) @ basis.swapaxes(2, 3)

    def white_covariance(self, number: int, noisy: bool) -> Array:
        """Of each independent output over points given one draw, (n_d, p̂, p̂)."""
        ratios = self.draws.ratios[number]
        left = (ratios / self._spread[number]).T  # (n_d, r)
        rest = to_numpy(self.projection.unexplained_gram)
        among = (self.explained * left[:, None, :]) @ self.explained.T + ratios[:, None, None] * rest
        return np.asarray(among + self.level_share + float(noisy) * np.eye(len(self.explained)))

    def joint(self, number: int, noisy: bool) -> Array:
        """Over points and outputs given one draw, (k, k), k = p̂ n_d."""
        basis, white = self.draws.basis[number], self.white_covariance(number, noisy)
        points, outputs = len(self.explained), len(basis)
        full = np.einsum("aj,bj,jmn->manb", basis, basis, white, optimize=True)
        return full.reshape(points * outputs, points * outputs)


@dataclass(frozen=True, repr=False)
class SignalNoisePredictive(AtomPredictive):
    """Outputs at p̂ test points as a mixture over draws of signal and noise.

    Returned by `Network.condition(..., noise="free").predict`.
    """

    process: SignalNoiseProcess | None = None
    leverage: Array | None = None

    @classmethod
    def of(
        cls, process: SignalNoiseProcess, single_output: bool, noisy: bool = False
    ) -> SignalNoisePredictive:
        """The function, or observations."""
        draws = process.draws
        return cls(
            draws.weights,
            process.means,
            lambda rows: process.covariances(rows, noisy),
            lambda number: process.joint(number, noisy),
            draws.signal,
            0.0,
            single_output=single_output,
            noisy=noisy,
            process=process,
        )

    def with_noise(self) -> SignalNoisePredictive:
        """The predictive of observations rather than of the function."""
        assert self.process is not None
        observed = SignalNoisePredictive.of(self.process, self.single_output, noisy=True)
        return replace(observed, leverage=self.leverage)

    def log_density_with_level(self, values: Array, level_variance: float) -> float:
        """Joint log density of values (p̂, n_d): output by output in the basis of each draw."""
        assert self.process is not None
        if level_variance:
            return super().log_density_with_level(values, level_variance)
        draws, points = self.process.draws, len(values)
        terms = np.empty(len(self.weights))
        for number in range(len(terms)):
            white = (values - self.means[number]) @ draws.inverse[number].T
            try:
                root = np.linalg.cholesky(self.process.white_covariance(number, self.noisy))
            except np.linalg.LinAlgError as error:
                raise ValueError(
                    "outputs have a density only where neither the data nor other points determine them, got "
                    "a covariance that is singular: use with_noise()"
                ) from error
            fit = np.linalg.solve(root, white.T[:, :, None])[:, :, 0]
            logs = (
                2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum() + points * 2 * draws.log_volumes[number]
            )
            terms[number] = -0.5 * (logs + (fit**2).sum() + values.size * LOG_TWO_PI)
        warn_of_few(self.rest_on_few(terms[:, None]))
        return float(log_average(self.weights, terms))

    def point_log_densities(
        self, values: Array, level_variance: float = 0.0, rows: slice = slice(None)
    ) -> Array:
        """Log density of values (rows, n_d) at some points given each draw, (m, rows)."""
        assert self.process is not None
        if level_variance:
            return super().point_log_densities(values, level_variance, rows)
        draws = self.process.draws
        variances = self.process.variances(rows, self.noisy)
        if not variances.all():
            raise ValueError(
                "outputs have a density only where noise or inputs leave them free, got a variance of zero: "
                "use with_noise()"
            )
        white = (values - self.means[:, rows]) @ draws.inverse.swapaxes(1, 2)
        logs = np.log(variances) + white**2 / variances + LOG_TWO_PI
        return np.asarray(-0.5 * logs.sum(axis=2) - draws.log_volumes[:, None])

    def _sample(self, size: int, rng: np.random.Generator) -> Array:
        """Every draw of the function from a draw of signal and noise of its own."""
        assert self.process is not None
        process, draws = self.process, self.process.draws
        chosen = rng.choice(len(self.weights), size=size, p=self.weights)
        root = np.asarray(to_numpy(process.projection.unexplained_root), float)
        result = np.empty((size, *self.shape))
        for block in blocks(size, 4 * self.means[0].size + process.coefficients[0].size):
            index = chosen[block]
            ratios = draws.ratios[index][:, None, :]
            left = np.sqrt(ratios / process._spread[index])
            white = process.explained @ (left * rng.standard_normal(left.shape))
            white += (root @ rng.standard_normal((len(index), root.shape[1], ratios.shape[2]))) * np.sqrt(
                ratios
            )
            white += math.sqrt(process.level_share) * rng.standard_normal(ratios.shape)
            if self.noisy:
                white += rng.standard_normal(white.shape)
            result[block] = self.means[index] + white @ draws.basis[index].swapaxes(1, 2)
        return result
