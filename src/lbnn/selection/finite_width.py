"""The evidence of one network as a smooth function of the hyperparameters, with its gradient.

One output: quadrature, exact. Several: the draws of the engines (`engines.importance.placed_draws` from the
Laplace approximation at each h, or rows), with the same random numbers at every h and the proposal carried
along, so that the estimate is a smooth function of h, and its error moves a maximum little. A rough
posterior at every h is no substitute: over six problems with 3 to 8 outputs it took 5 to 13 times as long,
its fourth differences in h were 0.01 to 0.2 nats (here below 0.0003), and its gradients were less accurate.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from lbnn._base.log_sums import log_sum_exp
from lbnn._base.quasi_random import scrambled_normal_points
from lbnn._base.small_matrices import one_sign
from lbnn._base.types import Array
from lbnn.engines import InferenceOptions
from lbnn.engines.estimate import independent_error
from lbnn.engines.importance import GaussianProposal, laplace_proposal, placed_draws
from lbnn.engines.policy import GROUPS, POLICY
from lbnn.engines.relative_rows import block_gaussian, relative_rows_apply, relative_target
from lbnn.engines.rowwise import proposals
from lbnn.engines.run import principal_axes
from lbnn.engines.target import Likelihood, Target
from lbnn.likelihood.hidden_kernel import dual, dual_prior
from lbnn.network import Network, posterior_with
from lbnn.posterior import Posterior
from lbnn.scale.bartlett import BartlettCoordinates
from lbnn.scale.total_factor import TotalFactorLaw
from lbnn.selection.data import EvidenceData

POINTS = 128
_PLAIN = InferenceOptions(0.05, 0)
_DIFFERENCE = 1e-4  # standard deviations of the proposal
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
) -> NetworkEvidence:
    """The evidence of a network with these hidden widths; `start` is a typical h, `points` a power of two."""
    if data.outputs == 1:
        return QuadratureEvidence(data, widths)
    rank = data.spectrum.rank
    more_outputs = data.noise_variance > 0 and len(widths) > 0 and data.outputs > rank > 0
    more_outputs = more_outputs and widths[-1] >= rank  # narrow networks: the scale, in relative coordinates
    kind = DualEvidence if more_outputs else SampledEvidence
    evidence = kind(data, widths, start, seed, points)
    many = TotalFactorLaw(evidence.coordinates.shapes).dimension > POLICY.most_for_mixture
    return RowEvidence(evidence, seed, points // 2) if many and evidence.coordinates.square else evidence


class QuadratureEvidence:
    """One output: exact, and so is Fisher's identity on the nodes."""

    def __init__(self, data: EvidenceData, widths: tuple[int, ...]) -> None:
        self.data, self.widths, self.error = data, widths, 0.0

    def __call__(self, h: Array) -> tuple[float, Array]:
        """Log evidence at h (n_d + 1,) and its gradient, shaped like h."""
        posterior = condition(self.data, self.widths, h)
        slopes = self.data.slopes(h, np.sqrt(posterior.scale.scales))
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
    ) -> None:
        """Near h = start (n_d + 1,)."""
        self.data, self.prior, self.error = data, Network(widths).scale_prior(data.outputs), math.inf
        likelihood = data.likelihood(start)
        self.coordinates, rows = self._setting(likelihood.gradient_rows)
        self.axes = one_sign(principal_axes(rows, widths))
        dimension = self.coordinates.dimension
        rng = np.random.default_rng([seed, dimension, points])
        self.mode, self.white = np.zeros(dimension), scrambled_normal_points(points, dimension, rng)
        self.best = -math.inf
        target = self.target(start)
        many = TotalFactorLaw(self.coordinates.shapes).dimension > POLICY.most_for_mixture
        self.relative = many and relative_rows_apply(target)
        if self.relative:  # one frame and one unit for all h: the estimate stays smooth
            target, self.mode = relative_target(target)
            self.coordinates, self.axes = target.coordinates, target.rotation

    def __call__(self, h: Array) -> tuple[float, Array]:
        """Log evidence at h (n_d + 1,) and its gradient, shaped like h."""
        target, likelihood = self.target(h), self.data.likelihood(h)
        proposal = self._proposal(target)
        points, log_weights, gradient = placed_draws(target, proposal, self.white)
        log_total = float(log_sum_exp(log_weights))
        weights = np.exp(log_weights - log_total)
        value = log_total - math.log(len(weights)) + likelihood.log_constant + self.data.log_jacobian(h)
        if value > self.best:
            self.best, self.mode = value, proposal.mean
            self.error = independent_error(log_weights)
        return value, self._slope(h, proposal, points, weights, gradient)

    def _slope(
        self, h: Array, proposal: GaussianProposal, points: Array, weights: Array, gradient: Array
    ) -> Array:
        """Gradient of the log evidence, (n_d + 1,).

        Fisher's identity, E ∂f/∂h, plus E ∇_u log π · ∂mode/∂h, which is zero for the posterior itself.

        The second term (Stein's identity) makes this the derivative of log π along draws that move with the
        mode: the part of ∂f/∂h that is linear in u, nearly all of its variance, cancels.
        """
        some = np.flatnonzero(weights)  # the others may be where factors overflow
        slopes = self.slopes_given(h, self.target(h).roots(points[some]))
        return weights[some] @ slopes + self._moved(h, proposal, weights[some] @ gradient[some])

    def _moved(self, h: Array, proposal: GaussianProposal, gradient: Array) -> Array:
        """E ∇_u log π · ∂mode/∂h, (n_d + 1,), from the mean gradient (D,).

        ∂mode/∂h is C ∂_h ∇_u log π at the mode, C the covariance of the proposal. So this is the derivative
        of ∂f/∂h in u along v = C E ∇_u log π: one difference of slopes, however many hyperparameters.
        """
        along = proposal.times_covariance(gradient[:, None])[:, 0]
        size = float(np.linalg.norm(proposal.pull_back(gradient[None])))  # of v in standard deviations
        if not size:
            return np.zeros(len(h))
        steps = np.array([[1.0], [-1.0]]) * (_DIFFERENCE / size) * along
        ahead, behind = self.slopes_given(h, self.target(h).roots(proposal.mean + steps))
        return (ahead - behind) * size / (2 * _DIFFERENCE)

    def _proposal(self, target: Target) -> GaussianProposal:
        """Laplace approximation, its mode sought from that of the best h so far; again if it was missed."""
        origin = self.mode
        for _ in range(_MODE_SEARCHES):
            proposal = (block_gaussian if self.relative else laplace_proposal)(target, origin)
            slope = target.value_and_gradient(proposal.mean[None])[1]
            if np.linalg.norm(proposal.pull_back(slope)) < _MODE_GRADIENT:
                break
            origin = proposal.mean
        return proposal

    def target(self, h: Array) -> Target:
        """The posterior of the draws at h (n_d + 1,)."""
        return Target(self.coordinates, self._likelihood(h), self.axes)

    def _setting(self, weighted_targets: Array) -> tuple[BartlettCoordinates, Array]:
        """The coordinates that are sampled, and rows (any, n) whose principal axes are their axes."""
        return self.prior.coordinates, weighted_targets

    def _likelihood(self, h: Array) -> Likelihood:
        """The likelihood of the scale at h (n_d + 1,)."""
        return self.data.likelihood(h)

    def slopes_given(self, h: Array, roots: Array) -> Array:
        """∂f/∂h (m, n_d + 1) given roots (m, n_d, k) of the scales."""
        return self.data.slopes(h, roots)


class DualEvidence(SampledEvidence):
    """More outputs than data: the last hidden kernel is sampled instead of the scale."""

    def _setting(self, weighted_targets: Array) -> tuple[BartlettCoordinates, Array]:
        return dual_prior(self.prior, len(weighted_targets)).coordinates, weighted_targets.T

    def _likelihood(self, h: Array) -> Likelihood:
        """The likelihood of the hidden kernel at h (n_d + 1,)."""
        return dual(self.data.likelihood(h))

    def slopes_given(self, h: Array, roots: Array) -> Array:
        """∂f/∂h (m, n_d + 1) given roots (m, r, k) of the hidden kernels."""
        return self.data.dual_slopes(h, roots)


class RowEvidence:
    """Many outputs: draws of T row by row, with the same random numbers at every h."""

    def __init__(self, setting: SampledEvidence, seed: int, points: int) -> None:
        self.setting, self.seed, self.size = setting, seed, max(points // GROUPS, 1)
        self.error, self.best = math.inf, -math.inf

    def __call__(self, h: Array) -> tuple[float, Array]:
        """Log evidence at h (n_d + 1,) and its gradient, shaped like h."""
        target, data = self.setting.target(h), self.setting.data
        sample = next(proposals(target))[0].sample(self.size, np.random.default_rng([self.seed, 22]))
        estimate = sample.estimate
        value = estimate.log_evidence + data.likelihood(h).log_constant + data.log_jacobian(h)
        if value > self.best:
            self.best, self.error = value, independent_error(sample.log_weights)
        root = sample.candidate.frame @ sample.total
        return value, estimate.weights @ self.setting.slopes_given(h, root)


def condition(
    data: EvidenceData,
    widths: tuple[int, ...],
    h: Array,
    options: InferenceOptions = _PLAIN,
) -> Posterior:
    """The posterior of one network at h (n_d + 1,), in whitened units, without warnings."""
    network = Network(widths, (math.exp(h[-1]), *(1.0,) * len(widths)))
    return posterior_with(network, data.whitened(h), data.noise_at(h), options)


def confirmed_evidence(
    data: EvidenceData, widths: tuple[int, ...], h: Array, target_error: float, seed: int
) -> tuple[float, float]:
    """Log evidence of one network at h (n_d + 1,) by the engines, with an error that holds.

    An answer that is not ok has an error of at least one nat, so that it is not chosen by chance.
    """
    posterior = condition(data, widths, h, InferenceOptions(target_error, seed))
    error = posterior.log_evidence_error
    value = posterior.log_evidence + data.log_jacobian(h)
    return value, error if posterior.diagnostics.ok else max(error, 1.0)
