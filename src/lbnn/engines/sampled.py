"""Posterior draws in Bartlett coordinates: importance sampling, or sequential Monte Carlo where it fails."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lbnn._base.errors import AccuracyWarning
from lbnn._base.progress import Progress
from lbnn._base.types import Array, IndexArray
from lbnn.engines.importance import LARGEST_K, ImportanceSample, importance_sample
from lbnn.engines.inference import Diagnostics
from lbnn.engines.smc import SmcSample, smc_sample
from lbnn.engines.target import ScaleTarget, Target
from lbnn.likelihood.gaussian import FactorRatio, LikelihoodFactor
from lbnn.scale.bartlett import product
from lbnn.scale.measure import LogFactor, effective_atoms

_FEWEST_FOR_TILT = 100  # effective atoms under which a tilted average is not taken from the own atoms
LARGEST_SAMPLE = 1 << 25  # floats that atoms or their coordinates may fill
_MOST_ATOMS = 8192
_HURRIED = "the work allotted ran out and moves were cut short, so that even these figures may be too good"


@dataclass(frozen=True)
class Effort:
    """How hard to try: the standard error aimed at, of log evidence and of means in posterior deviations."""

    target_error: float
    seed: int
    engine: str = "auto"  # "auto", "importance" or "smc"


@dataclass(frozen=True)
class Draws:
    """Weighted posterior draws of one target, by whichever engine served."""

    points: Array  # u, (m, D)
    log_weights: Array
    groups: IndexArray
    log_total: float  # log E_prior exp(log_value)
    log_total_error: float
    diagnostics: Diagnostics

    @property
    def weights(self) -> Array:
        """Normalised weights."""
        weights = np.exp(self.log_weights - special.logsumexp(self.log_weights))
        return weights / weights.sum()


def draw_posterior(target: Target, effort: Effort) -> Draws:
    """Importance sampling; sequential Monte Carlo if its diagnostics say no."""
    progress = Progress()
    try:
        sample, proposal = importance_sample(target, effort.target_error, effort.seed, progress)
        if effort.engine == "importance" or (effort.engine == "auto" and sample.reaches(effort.target_error)):
            return _from_importance(sample, effort)
        return _from_smc(
            smc_sample(target, proposal, effort.target_error, effort.seed, progress), target, effort
        )
    finally:
        progress.close()


def _from_importance(sample: ImportanceSample, effort: Effort) -> Draws:
    ok = sample.reaches(effort.target_error)
    advice = (
        f"importance sampling reached {sample.effective_sample_size:.0f} effective draws (Pareto k "
        f"{sample.pareto_k:.2f}, should be below {LARGEST_K}; error of log evidence "
        f"{sample.log_evidence_error:.2g}) for a target error of {effort.target_error:g}: try engine='smc'"
    )
    diagnostics = Diagnostics(
        "importance", sample.effective_sample_size, sample.pareto_k, ok, () if ok else (advice,)
    )
    return Draws(
        sample.points,
        sample.log_weights,
        sample.groups,
        sample.log_evidence,
        sample.log_evidence_error,
        diagnostics,
    )


def _from_smc(sample: SmcSample, target: Target, effort: Effort) -> Draws:
    ok = sample.reaches(effort.target_error)
    advice = (
        f"sequential Monte Carlo reached {sample.effective_sample_size:.0f} effective draws and an error of "
        f"log evidence of {sample.log_evidence_error:.2g} for a target error of {effort.target_error:g}: "
        + (_HURRIED if sample.hurried else "take the stated errors as they are, or raise target_error")
    )
    diagnostics = Diagnostics(
        "smc", sample.effective_sample_size, None, ok, () if ok else (advice,), sample.stages
    )
    keep = slice(None, None, _thinning(len(sample.points), target))
    return Draws(
        sample.points[keep],
        sample.log_weights[keep],
        sample.groups[keep],
        sample.log_evidence,
        sample.log_evidence_error,
        diagnostics,
    )


def _thinning(count: int, target: Target) -> int:
    """Stride that keeps the atoms within memory; odd, so that no island is favoured."""
    each = max(target.dimension, target.rows**2)
    stride = math.ceil(count / min(_MOST_ATOMS, max(LARGEST_SAMPLE // each, 1)))
    return stride + 1 - stride % 2


class AtomLaw:
    """The law behind weighted draws, each known with its Bartlett factors."""

    def __init__(self, weights: Array, eigen: tuple[Array, Array]) -> None:
        self.weights, self.eigen = weights, eigen

    def log_expect_exp(self, log_factor: LogFactor) -> complex:
        """From the atoms where enough of them count, else for a density ratio from a run of its own."""
        with np.errstate(divide="ignore"):  # weights may have underflowed to zero
            log_weights = np.log(self.weights)
        log_terms = log_weights + log_factor(*self.eigen)
        effective = float(effective_atoms(log_terms.real))
        if effective < _FEWEST_FOR_TILT:
            rescued = self.rescue(log_factor)
            if rescued is not None:
                return complex(rescued)
            warnings.warn(_too_few(effective), AccuracyWarning, stacklevel=4)
        return complex(special.logsumexp(log_terms.astype(complex)))

    def rescue(self, log_factor: LogFactor) -> float | None:
        """log E exp(log_factor) by other means than the atoms, if there are any."""
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

    def __init__(self, target: ScaleTarget, draws: Draws, eigen: tuple[Array, Array], effort: Effort) -> None:
        super().__init__(draws.weights, eigen)
        self.target, self.draws, self.effort = target, draws, effort

    def factors(self, index: IndexArray) -> list[Array]:
        return self.target.factors(self.draws.points[index])

    def rescue(self, log_factor: LogFactor) -> float | None:
        """log of ∫ dϖ p(Y|L) ratio(L) over ∫ dϖ p(Y|L), for a density ratio, by a new run for the former."""
        own = self.target.factor
        if not (isinstance(log_factor, FactorRatio) and isinstance(own, LikelihoodFactor)):
            return None
        joint = FactorRatio((own, *log_factor.numerators), log_factor.denominators)
        draws = draw_posterior(replace(self.target, factor=joint), self.effort)
        for message in draws.diagnostics.messages:
            warnings.warn(message, AccuracyWarning, stacklevel=5)
        return draws.log_total - self.draws.log_total + log_factor.log_constant


def _too_few(effective: float) -> str:
    return (
        f"only {effective:.0f} atoms of the scale's law count for this average, {_FEWEST_FOR_TILT} must "
        "for it: ask nearer to the mean, or condition with a smaller target_error"
    )
