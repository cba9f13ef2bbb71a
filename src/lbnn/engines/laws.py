"""The laws behind weighted draws: tilted averages, Bartlett factors, phases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import optimize, special

from lbnn._base.types import Array, IndexArray
from lbnn._base.warn import warn, warn_of
from lbnn.engines.estimate import Answer, Call
from lbnn.engines.inference import InferenceOptions
from lbnn.engines.mixture import laplace_mixture_of
from lbnn.engines.modes import Mode, find_modes, scan_axes
from lbnn.engines.pareto import pareto_k
from lbnn.engines.policy import POLICY, Policy
from lbnn.engines.target import ScaleLikelihood, Target
from lbnn.engines.total_target import TotalTarget
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.scale.bartlett import product
from lbnn.scale.layer_factors import layer_factors
from lbnn.scale.measure import Atoms, Exponent, ScaleMeasure, effective_atoms
from lbnn.scale.phases import Phases, phases_of_labels
from lbnn.scale.prior import ScalePrior

_TILT_SHARE = 0.3  # of the effective draws that must count for the mean to which draws are moved
_MOST_SHIFTS = 30
_PROGRESS, _MOST_IDLE = (
    1.1,
    4,
)  # given up when so many shifts in a row did not bring this many times the draws
LogDensity = Callable[[Array], Array]
_MOST_MOVED = 1024  # draws that are moved where each takes a factorisation; of as many 100 or more must count
_LAYERS = 2301  # seed of what factors of the layers have beside L, which is independent of all data
#: Of a run for one density: a tenth of the work of a posterior, since a call may ask for twenty of them.
_SHARE_ANEW = 0.1
_FEWEST_FOR_TILT = 100  # effective atoms under which a tilted average is not taken from the own atoms


class AtomLaw:
    """The law behind weighted draws, each known with its Bartlett factors."""

    def __init__(self, weights: Array, matrices: Array) -> None:
        """With weights (m,) and scales (m, n_d, n_d) or roots of them (m, n_d, k)."""
        self.weights, self.atoms = weights, Atoms(matrices)

    def log_expect_exp(self, exponent: Exponent) -> complex:
        """From the atoms; a warning where few of them count."""
        with np.errstate(divide="ignore"):  # weights may have underflowed to zero
            log_weights = np.log(self.weights)
        log_terms = log_weights + exponent(*self.atoms.eigen)
        effective = float(effective_atoms(log_terms.real))
        if effective < _FEWEST_FOR_TILT:
            warn(_too_few(effective))
        return complex(special.logsumexp(log_terms.astype(complex)))

    def factors(self, index: IndexArray) -> list[Array]:
        """T_d, ..., T_2, (k, rows, columns) each, of the atoms with index (k,)."""
        raise NotImplementedError

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Resample the atoms, (size, n_d, n_d)."""
        total = product(self.sample_factors(size, rng))
        assert total is not None
        return total @ total.swapaxes(1, 2)

    def sample_factors(self, size: int, rng: np.random.Generator) -> list[Array]:
        """Bartlett factors of resampled atoms, (size, rows, columns) each."""
        return self.factors(rng.choice(len(self.weights), size=size, p=self.weights))

    def partial_products(self, layer: int) -> Array:
        """T_ℓ ⋯ T_2 of every atom, (m, rows, columns)."""
        factors = self.factors(np.arange(len(self.weights)))
        width = factors[-1].shape[2]
        lower = product(factors[len(factors) - (layer - 1) :])
        return np.broadcast_to(np.eye(width), (len(self.weights), width, width)) if lower is None else lower


class SampledLaw(AtomLaw):
    """The posterior behind draws in Bartlett coordinates."""

    def __init__(
        self,
        target: Target,
        answer: Answer,
        matrices: Array,
        prior: ScalePrior,
        options: InferenceOptions,
        again: Callable[[Target, InferenceOptions, Call], Answer],
        policy: Policy = POLICY,
    ) -> None:
        """With the scales (m, n_d, n_d) of an answer, or roots of them (m, n_d, k)."""
        super().__init__(answer.weights, matrices)
        self.target, self.answer, self.prior, self.policy = target, answer, prior, policy
        self.options, self.again = options, again

    def factors(self, index: IndexArray) -> list[Array]:
        return [each[index] for each in self._layer_factors]

    @cached_property
    def _layer_factors(self) -> list[Array]:
        """Of all draws: products of some of their layers have to belong to the same factors."""
        return layer_factors(
            self.target.factors(self.answer.points), self.prior, np.random.default_rng(_LAYERS)
        )

    def phases(self, measure: ScaleMeasure) -> Phases:
        """Modes of the posterior of T: a draw belongs to the one most likely to have given it."""
        target, own = self.target, self.target.likelihood
        space = TotalTarget(target)
        labels, fitted = np.zeros(len(self.weights), int), [0]
        if isinstance(own, ScaleLikelihood) and not own.flat:
            searched = target.any_frame and space.dimension <= self.policy.most_for_mixture
            modes = find_modes(space, scan_axes(space, space.axes)) if searched else []
            scales = [_scale_of(space, mode) for mode in modes] or [np.asarray(measure.mean)]
            units, largest = own.output_units, float(own.eigenvalues.max())
            sizes = [np.linalg.eigvalsh(units[:, None] * scale * units) for scale in scales]
            fitted = [int((largest * each > own.noise_variance).sum()) for each in sizes]
            if len(modes) > 1:
                labels = laplace_mixture_of(space, modes).labels(space.roots_of(self.answer.points))
        return phases_of_labels(measure.matrices, measure.weights, measure.groups, labels, fitted, False)

    def log_ratio(self, likelihood: ScaleLikelihood) -> float:
        """log p(data, more data) − log p(data), the likelihood that of all of them.

        From the own draws, moved to where that has its mass; where that fails, by a new run.
        """
        own = self.target.likelihood
        assert isinstance(own, ScaleLikelihood)
        points, log_weights, log_own = self.answer.points, self._log_weights, self._log_own
        if len(points) > _MOST_MOVED and not isinstance(likelihood, GaussianLikelihood):
            places = (np.arange(_MOST_MOVED) + 0.5) / _MOST_MOVED
            chosen = np.searchsorted(np.cumsum(self.weights) / self.weights.sum(), places)
            chosen = np.minimum(chosen, len(points) - 1)
            points, log_own = points[chosen], log_own[chosen]
            log_weights = np.full(_MOST_MOVED, -np.log(_MOST_MOVED))
        tilted = replace(self.target, likelihood=likelihood)
        ratio = self._log_tilted(tilted, points, log_weights, log_own)
        constant = own.log_constant if np.isfinite(own.log_constant) else 0.0  # at β = 0 there are no data
        return ratio + likelihood.log_constant - constant

    def _log_tilted(self, tilted: Target, points: Array, log_weights: Array, log_own: Array) -> float:
        """Log of ∫ of another target over ∫ of the own one, from own draws (m, D) or by a new run."""
        fewest = max(_FEWEST_FOR_TILT, self.options.target_error**-2)  # 100 leave an error of 0.1
        draws = points, log_weights, log_own
        log_average = log_tilted_average(*draws, tilted.log_density, fewest, self.policy)
        if log_average is not None:
            return log_average
        policy = replace(self.policy, work=_SHARE_ANEW * self.policy.work)
        new = self.again(tilted, self.options, Call(self.options, policy))
        told, k = new.diagnostics, new.diagnostics.pareto_k
        enough = told.effective_sample_size >= _FEWEST_FOR_TILT and (k is None or k < self.policy.largest_k)
        if not (told.ok or (self.options.rough and enough)):  # one of many models needs no second estimate
            error = max(new.log_evidence_error, told.effective_sample_size**-0.5)
            doubt = ", which no second estimate confirms" if enough else ""
            message = (
                "the log density of values far from the posterior has a standard error of "
                f"{error:.2g}{doubt}: condition with a smaller target_error, or do not rely on it"
            )
            warn_of([message])
        return new.log_evidence - self.answer.log_evidence

    @property
    def _log_weights(self) -> Array:
        """Normalised log weights of the draws, (m,)."""
        own = self.answer.estimate.log_weights
        return own - special.logsumexp(own)

    @cached_property
    def _log_own(self) -> Array:
        """Log density of the posterior at the draws, up to a constant, (m,)."""
        return self.target.log_density(self.answer.points)


class FactorLaw(AtomLaw):
    """The posterior behind draws that are stored with their Bartlett factors (up to a rotation)."""

    def __init__(self, weights: Array, matrices: Array, factors: list[Array]) -> None:
        """With weights (m,), scales or roots of them, and factors (m, rows, columns)."""
        super().__init__(weights, matrices)
        self.all_factors = factors

    def factors(self, index: IndexArray) -> list[Array]:
        return [each[index] for each in self.all_factors]


def _scale_of(space: TotalTarget, mode: Mode) -> Array:
    """L at a mode, (n_d, n_d)."""
    root = space.roots(mode.theta[None], mode.frame)[0]
    return root @ root.T


def _too_few(effective: float) -> str:
    return (
        f"only {effective:.0f} draws of the scale are effective for this average, which needs "
        f"{_FEWEST_FOR_TILT}: evaluate it nearer to the mean, or condition with a smaller target_error"
    )


# ---------------------------------------------------------------- draws that are moved
#
# With draws v of the posterior π, weights w and any shift u = v + δ,
#
#     E_π h = ∫ π(u) h(u) du = Σ_s w_s  π(v_s + δ) h(v_s + δ) / π(v_s),
#
# so that δ may be chosen for few terms to dominate no longer: the mean of π h less that of π. It is
# approached in steps: while only few draws count, h is tempered until enough of them do. (Moment matching by
# shifts, as for leave-one-out densities: Paananen, Piironen, Bürkner and Vehtari, 2021.)


def log_tilted_average(
    points: Array,
    log_weights: Array,
    log_own: Array,
    log_tilted: LogDensity,
    fewest: float,
    policy: Policy,
) -> float | None:
    """log E_π h, or None where too few draws count wherever they are moved.

    Parameters
    ----------
    points : (m, D)
        Draws v of π.
    log_weights : (m,)
        Their normalised log weights.
    log_own : (m,)
        log π at the draws, up to a constant ...
    log_tilted : function of (m, D) -> (m,)
        ... and log π h up to the same.
    fewest : float
        Effective draws that an answer must rest on.
    policy : Policy
        Whose `largest_k` their weights must have at most.
    """
    mean = np.exp(log_weights) @ points
    shift, most, idle = np.zeros_like(mean), 1.0, 0
    for _ in range(_MOST_SHIFTS):
        log_terms = log_weights + log_tilted(points + shift) - log_own
        log_terms[np.isnan(log_terms)] = -np.inf
        effective = float(effective_atoms(log_terms))
        if effective >= fewest and pareto_k(log_terms) < policy.largest_k:
            return float(special.logsumexp(log_terms))
        idle = 0 if effective > _PROGRESS * most else idle + 1
        if idle == _MOST_IDLE:
            return None
        most = max(most, effective)
        shift = shift + _tempered(log_weights, log_terms) @ points - mean
    return None


def _tempered(log_weights: Array, log_terms: Array) -> Array:
    """Normalised weights between those of the draws and those of the terms, of which enough count, (m,)."""
    change = np.where(np.isfinite(log_terms), log_terms - log_weights, -np.inf)
    change = np.maximum(change, change.max() - 1e6)  # draws that do not count at any temperature
    goal = _TILT_SHARE * float(effective_atoms(log_weights))

    def excess(power: float) -> float:
        return float(effective_atoms(log_weights + power * change)) - goal

    power = 1.0 if excess(1.0) >= 0 else float(optimize.brentq(excess, 0.0, 1.0, xtol=1e-6))
    log_tempered = log_weights + power * change
    return np.exp(log_tempered - special.logsumexp(log_tempered))
