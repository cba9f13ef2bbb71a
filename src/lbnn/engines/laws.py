"""The laws behind weighted draws: tilted averages, Bartlett factors, phases."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import special

from lbnn._base.types import Array, IndexArray
from lbnn._base.warn import warn, warn_of
from lbnn.engines.adaptation import laplace_mixture_of
from lbnn.engines.draws import Draws, Effort
from lbnn.engines.modes import Mode, find_modes, scan_axes
from lbnn.engines.sampled import LARGEST_FITTED, draw_posterior
from lbnn.engines.shifted_draws import log_tilted_average
from lbnn.engines.target import ScaleTarget
from lbnn.engines.total_target import TotalTarget
from lbnn.likelihood.gaussian import GaussianLikelihood, LikelihoodRatio
from lbnn.scale.bartlett import product
from lbnn.scale.measure import Atoms, Exponent, ScaleMeasure, effective_atoms
from lbnn.scale.phases import Phases, phases_of_labels

_FEWEST_FOR_TILT = 100  # effective atoms under which a tilted average is not taken from the own atoms


class AtomLaw:
    """The law behind weighted draws, each known with its Bartlett factors."""

    def __init__(self, weights: Array, scales: Array) -> None:
        self.weights, self.atoms = weights, Atoms(scales)

    def log_expect_exp(self, exponent: Exponent) -> complex:
        """From the atoms where enough of them count, else for a density ratio from a run of its own."""
        with np.errstate(divide="ignore"):  # weights may have underflowed to zero
            log_weights = np.log(self.weights)
        log_terms = log_weights + exponent(*self.atoms.eigen)
        effective = float(effective_atoms(log_terms.real))
        if effective < _FEWEST_FOR_TILT:
            rescued = self.rescue(exponent)
            if rescued is not None:
                return complex(rescued)
            warn(_too_few(effective))
        return complex(special.logsumexp(log_terms.astype(complex)))

    def rescue(self, exponent: Exponent) -> float | None:
        """log E exp(exponent) by other means than the atoms, if there are any."""
        return None

    def factors(self, index: IndexArray) -> list[Array]:
        """T_d, ..., T_2 of the given atoms."""
        raise NotImplementedError

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Resample the atoms."""
        total = product(self.sample_factors(size, rng))
        assert total is not None
        return total @ total.swapaxes(1, 2)

    def sample_factors(self, size: int, rng: np.random.Generator) -> list[Array]:
        """Bartlett factors of resampled atoms."""
        return self.factors(rng.choice(len(self.weights), size=size, p=self.weights))

    def partial_products(self, layer: int) -> Array:
        """T_ℓ ⋯ T_2 of every atom."""
        factors = self.factors(np.arange(len(self.weights)))
        width = factors[-1].shape[2]
        lower = product(factors[len(factors) - (layer - 1) :])
        return np.broadcast_to(np.eye(width), (len(self.weights), width, width)) if lower is None else lower


class SampledLaw(AtomLaw):
    """The posterior behind draws in Bartlett coordinates."""

    def __init__(self, target: ScaleTarget, draws: Draws, scales: Array, effort: Effort) -> None:
        super().__init__(draws.weights, scales)
        self.target, self.draws, self.effort = target, draws, effort

    def factors(self, index: IndexArray) -> list[Array]:
        return self.target.factors(self.draws.points[index])

    def phases(self, measure: ScaleMeasure) -> Phases:
        """Modes of the posterior of T: a draw belongs to the one most likely to have given it."""
        target, own = self.target, self.target.likelihood
        space = TotalTarget(target)
        labels, fitted = np.zeros(len(self.weights), int), [0]
        if isinstance(own, GaussianLikelihood) and not own.flat:
            searched = target.any_frame and space.dimension <= LARGEST_FITTED
            modes = find_modes(space, scan_axes(space, space.axes)) if searched else []
            scales = [_scale_of(space, mode) for mode in modes] or [np.asarray(measure.mean)]
            units, largest = own.output_units, float(own.eigenvalues.max())
            sizes = [np.linalg.eigvalsh(units[:, None] * scale * units) for scale in scales]
            fitted = [int((largest * each > own.noise).sum()) for each in sizes]
            if len(modes) > 1:
                labels = laplace_mixture_of(space, modes).labels(space.roots_of(self.draws.points))
        return phases_of_labels(*measure.weighted, labels, fitted, False)

    def rescue(self, exponent: Exponent) -> float | None:
        """log of ∫ dϖ p(Y|L) ratio(L) over ∫ dϖ p(Y|L), for a density ratio.

        From the own draws, moved to where the ratio has its mass; where that fails, by a new run.
        """
        own = self.target.likelihood
        if not (isinstance(exponent, LikelihoodRatio) and isinstance(own, GaussianLikelihood)):
            return None
        joint = exponent.times(own)
        tilted = replace(self.target, likelihood=joint)
        log_average = log_tilted_average(
            self.draws.points,
            self.draws.log_weights - special.logsumexp(self.draws.log_weights),
            self._log_own,
            tilted.log_density,
            max(_FEWEST_FOR_TILT, self.effort.target_error**-2),  # 100 leave an error of 0.1
        )
        if log_average is not None:
            return log_average + exponent.log_constant
        draws = draw_posterior(tilted, self.effort)
        warn_of(draws.diagnostics.messages)
        return draws.log_total - self.draws.log_total + exponent.log_constant

    @cached_property
    def _log_own(self) -> Array:
        """Log density of the posterior at the draws, up to a constant, (m,)."""
        return self.target.log_density(self.draws.points)


def _scale_of(space: TotalTarget, mode: Mode) -> Array:
    """L at a mode, (n_d, n_d)."""
    root = space.roots(mode.theta[None], mode.frame)[0]
    return root @ root.T


def _too_few(effective: float) -> str:
    return (
        f"only {effective:.0f} atoms of the scale's law count for this average, {_FEWEST_FOR_TILT} must "
        "for it: ask nearer to the mean, or condition with a smaller target_error"
    )
