"""The evidence of one network as a smooth function of the hyperparameters, with its gradient.

One output: quadrature, exact. Several: importance sampling from the Laplace approximation at each h, with
the same Sobol points at every h and the proposal carried along, so that the estimate is a smooth function of
h, and its Monte Carlo error moves a maximum little.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from scipy import special
from scipy.stats import qmc

from lbnn._base.small_matrices import gram_eigen, one_sign
from lbnn._base.types import Array
from lbnn._base.warn import collected
from lbnn.engines import InferenceOptions
from lbnn.engines.importance import GaussianProposal, laplace_proposal
from lbnn.engines.policy import GROUPS, POLICY
from lbnn.engines.rowwise import proposals
from lbnn.engines.run import principal_axes
from lbnn.engines.target import Likelihood, ScaleTarget
from lbnn.likelihood.hidden_kernel import HiddenKernelLikelihood, dual_prior
from lbnn.network import Network, condition_with, posterior_with
from lbnn.posterior import Posterior
from lbnn.scale.bartlett import BartlettCoordinates
from lbnn.scale.total_factor import TotalFactorLaw
from lbnn.selection.data import EvidenceData

POINTS = 128
_DIFFERENCE = 1e-4
_MODE_SEARCHES = 3  # at most, ...
_MODE_GRADIENT = 0.1  # ... until the gradient is below this, per standard deviation of the proposal


class NetworkEvidence(Protocol):
    """Log evidence of one network at h and its gradient; `error` is that of the highest value so far."""

    error: float

    def __call__(self, h: Array) -> tuple[float, Array]:
        """Log evidence at h (n_d + 1,) and its gradient, shaped like h."""
        ...


def network_evidence(
    data: EvidenceData,
    widths: tuple[int, ...],
    start: Array,
    seed: int,
    points: int = POINTS,
    directions: Array | None = None,
) -> NetworkEvidence:
    """The evidence of a network with these hidden widths; `start` is a typical h, `points` a power of two.

    With `directions` (n_d + 1, k) of h the gradient is computed along these, and is less accurate along
    others.
    """
    if data.outputs == 1:
        return QuadratureEvidence(data, widths)
    more_outputs = data.noise_variance > 0 and len(widths) > 0 and data.outputs > data.spectrum.rank > 0
    kind = DualEvidence if more_outputs else SampledEvidence
    evidence = kind(data, widths, start, seed, points, directions)
    many = TotalFactorLaw(evidence.coordinates.shapes).dimension > POLICY.most_for_mixture
    return RowEvidence(evidence, seed, points // 2) if many and evidence.coordinates.square else evidence


def evidence_by_rows(
    data: EvidenceData, widths: tuple[int, ...], start: Array, seed: int, points: int
) -> RowEvidence | None:
    """The evidence of a network with many outputs and a narrow layer, near h = start (n_d + 1,).

    None where rows do not apply.
    """
    evidence = SampledEvidence(data, widths, start, seed, 1)
    many = TotalFactorLaw(evidence.coordinates.shapes).dimension > POLICY.most_for_mixture
    return RowEvidence(evidence, seed, points) if many and data.noise_variance else None


class QuadratureEvidence:
    """One output: exact, and so is Fisher's identity on the nodes."""

    def __init__(self, data: EvidenceData, widths: tuple[int, ...]) -> None:
        self.data, self.widths, self.error = data, widths, 0.0

    def __call__(self, h: Array) -> tuple[float, Array]:
        """Log evidence at h (n_d + 1,) and its gradient, shaped like h."""
        with collected():  # the final answer has messages of its own
            posterior = condition(self.data, self.widths, h)
        slopes = self.data.slopes(h, *posterior.scale.eigen)
        return posterior.log_evidence + self.data.log_jacobian(h), posterior.scale.average(slopes)


class SampledEvidence:
    """Several outputs: importance sampling with common random numbers."""

    def __init__(
        self,
        data: EvidenceData,
        widths: tuple[int, ...],
        start: Array,
        seed: int,
        points: int,
        directions: Array | None = None,
    ) -> None:
        """Near h = start (n_d + 1,), with gradients along directions (n_d + 1, k)."""
        self.directions = np.eye(len(start)) if directions is None else directions
        self.data, self.prior, self.error = data, Network(widths).scale_prior(data.outputs), math.inf
        likelihood = data.likelihood(start)
        self.coordinates, rows = self._setting(likelihood.gradient_rows)
        self.axes = one_sign(principal_axes(rows, widths))
        dimension = self.coordinates.dimension
        self.mode, self.white = np.zeros(dimension), _normal_points(points, dimension, seed)
        self.best = -math.inf

    def __call__(self, h: Array) -> tuple[float, Array]:
        """Log evidence at h (n_d + 1,) and its gradient, shaped like h."""
        target, likelihood = self.target(h), self.data.likelihood(h)
        proposal = self._proposal(target)
        points = proposal.place(self.white)
        log_target, gradient = target.value_and_gradient(points)
        log_weights = log_target + 0.5 * (self.white**2).sum(axis=1) + proposal.log_determinant
        log_total = float(special.logsumexp(log_weights))
        weights = np.exp(log_weights - log_total)
        value = log_total - math.log(len(weights)) + likelihood.log_constant + self.data.log_jacobian(h)
        if value > self.best:
            self.best, self.mode = value, proposal.mean
            self.error = error_of(weights)
        return value, self._slope(h, proposal, points, weights, gradient)

    def _slope(
        self, h: Array, proposal: GaussianProposal, points: Array, weights: Array, gradient: Array
    ) -> Array:
        """Gradient of the log evidence, (n_d + 1,).

        Fisher's identity, E ∂f/∂h, plus E ∇_u log π · ∂mode/∂h, which is zero for the posterior itself.

        The second term (Stein's identity) makes this the derivative of log π along draws that move with the
        mode: the part of ∂f/∂h that is linear in u, nearly all of its variance, cancels.
        """
        slopes = self.slopes_given(h, self.target(h).scales(points))
        return weights @ (slopes + gradient @ self._mode_slopes(h, proposal))

    def _mode_slopes(self, h: Array, proposal: GaussianProposal) -> Array:
        """∂mode/∂h ≈ (−∇²log π)⁻¹ ∂_h ∇ log π, (D, n_d + 1); the proposal's covariance is the inverse.

        Along `directions` only: with correlated outputs the evidence is steep in the unit of a single output,
        where differences are inaccurate.
        """
        here = self.target(h).value_and_gradient(proposal.mean[None])[1][0]
        ahead = [
            self.target(h + step).value_and_gradient(proposal.mean[None])[1][0]
            for step in _DIFFERENCE * self.directions.T
        ]
        if not ahead:
            return np.zeros((len(here), len(h)))
        mixed = (np.stack(ahead, axis=1) - here[:, None]) / _DIFFERENCE @ np.linalg.pinv(self.directions)
        return mixed if proposal.root is None else proposal.root @ (proposal.root.T @ mixed)

    def _proposal(self, target: ScaleTarget) -> GaussianProposal:
        """Laplace approximation, its mode sought from that of the best h so far; again if it was missed."""
        origin = self.mode
        for _ in range(_MODE_SEARCHES):
            proposal = laplace_proposal(target, origin)
            slope = target.value_and_gradient(proposal.mean[None])[1]
            if np.linalg.norm(proposal.pull_back(slope)) < _MODE_GRADIENT:
                break
            origin = proposal.mean
        return proposal

    def target(self, h: Array) -> ScaleTarget:
        """The posterior of the draws at h (n_d + 1,)."""
        return ScaleTarget(self.coordinates, self._likelihood(h), self.axes)

    def _setting(self, weighted_targets: Array) -> tuple[BartlettCoordinates, Array]:
        """The coordinates that are sampled, and rows (any, n) whose principal axes are their axes."""
        return self.prior.coordinates, weighted_targets

    def _likelihood(self, h: Array) -> Likelihood:
        """The likelihood of the scale at h (n_d + 1,)."""
        return self.data.likelihood(h)

    def slopes_given(self, h: Array, scales: Array) -> Array:
        """∂f/∂h (m, n_d + 1) given each of the scales (m, n_d, n_d)."""
        return self.data.slopes(h, *gram_eigen(scales))


class DualEvidence(SampledEvidence):
    """More outputs than data: the last hidden kernel is sampled instead of the scale."""

    def _setting(self, weighted_targets: Array) -> tuple[BartlettCoordinates, Array]:
        return dual_prior(self.prior, len(weighted_targets)).coordinates, weighted_targets.T

    def _likelihood(self, h: Array) -> Likelihood:
        """The likelihood of the hidden kernel at h (n_d + 1,)."""
        return HiddenKernelLikelihood(self.data.likelihood(h))

    def slopes_given(self, h: Array, scales: Array) -> Array:
        """∂f/∂h (m, n_d + 1) given each of the hidden kernels (m, r, r)."""
        return self.data.dual_slopes(h, scales)


class RowEvidence:
    """Many outputs: draws of T row by row, with the same random numbers at every h."""

    def __init__(self, setting: SampledEvidence, seed: int, points: int) -> None:
        self.setting, self.seed, self.size = setting, seed, max(points // GROUPS, 1)
        self.error, self.best = math.inf, -math.inf

    def __call__(self, h: Array) -> tuple[float, Array]:
        """Log evidence at h (n_d + 1,) and its gradient, shaped like h."""
        target, data = self.setting.target(h), self.setting.data
        sample = next(proposals(target))[0].sample(self.size, np.random.default_rng([self.seed, 22]))
        log_total = float(special.logsumexp(sample.log_weights))
        weights = np.exp(sample.log_weights - log_total)
        value = log_total - math.log(len(weights)) + data.likelihood(h).log_constant + data.log_jacobian(h)
        if value > self.best:
            self.best, self.error = value, error_of(weights)
        root = sample.candidate.frame @ sample.total
        return value, weights @ self.setting.slopes_given(h, root @ root.swapaxes(1, 2))


def error_of(weights: Array) -> float:
    """Relative standard error of the mean of n weights (n,) that are given normalised: √(Σw² − 1/n)."""
    return float(np.sqrt(max((weights**2).sum() - 1 / len(weights), 0.0)))


def condition(
    data: EvidenceData,
    widths: tuple[int, ...],
    h: Array,
    *,
    engine: str = "auto",
    target_error: float = 0.05,
    seed: int = 0,
    rough: bool = False,
) -> Posterior:
    """The posterior of one network at h (n_d + 1,), in whitened units; `rough` as in `InferenceOptions`."""
    network = Network(widths, (math.exp(h[-1]), *(1.0,) * len(widths)))
    return condition_with(
        network, data.whitened(h), data.noise_at(h), InferenceOptions(target_error, seed, engine, rough)
    )


def confirmed_evidence(
    data: EvidenceData, widths: tuple[int, ...], h: Array, target_error: float, seed: int
) -> tuple[float, float]:
    """Log evidence of one network at h (n_d + 1,) by the engines, with an error that holds; no warnings.

    An answer that is not ok has an error of at least one nat, so that it is not chosen by chance.
    """
    network = Network(widths, (math.exp(h[-1]), *(1.0,) * len(widths)))
    posterior = posterior_with(
        network, data.whitened(h), data.noise_at(h), InferenceOptions(target_error, seed)
    )
    error = posterior.log_evidence_error
    value = posterior.log_evidence + data.log_jacobian(h)
    return value, error if posterior.diagnostics.ok else max(error, 1.0)


def _normal_points(count: int, dimension: int, seed: int) -> Array:
    """Scrambled Sobol points through the normal quantile, (m, D); plain normal ones beyond the tables."""
    rng = np.random.default_rng([seed, dimension, count])
    if dimension > qmc.Sobol.MAXDIM:
        return rng.standard_normal((count, dimension))
    return special.ndtri(qmc.Sobol(dimension, rng=rng).random(count))
