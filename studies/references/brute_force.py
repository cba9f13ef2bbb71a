"""Log evidence and E L of a problem with several outputs by each route, and whether the routes agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.references import annealed
from studies.references.several_outputs import Target
from studies.references.student_mixture import Proposal, adapt, effective_size, find_modes, first_proposal

Array = NDArray[np.float64]

#: Units of T_ij, and whether the outputs' axes are turned at random against the data's.
ROUTES = {"data": ("data", False), "prior": ("prior", False), "turned": ("data", True)}
CHUNK = 20_000


@dataclass(frozen=True)
class Estimate:
    """What one route says; `largest` is the share of the heaviest draw."""

    route: str
    log_evidence: float
    error: float
    effective: float
    draws: int
    largest: float
    scale_mean: Array
    scale_error: Array


def by_importance(
    problem: Any, route: str, seed: int, *, aim: float = 0.004, most: int = 400_000, effort: int = 1
) -> Estimate:
    """Importance sampling with a fitted mixture, which is then frozen; draws until the error is the aim.

    `problem` has `widths`, `variances`, `beta`, `X` and `Y`.
    """
    rng = np.random.default_rng([seed, list(ROUTES).index(route)])
    units, turned = ROUTES[route]
    n = problem.Y.shape[1]
    turn = np.linalg.qr(rng.standard_normal((n, n)))[0] if turned else None
    target = Target(problem.widths, problem.variances, problem.beta, problem.X, problem.Y, units, turn)
    proposal = first_proposal(find_modes(target, 12 * effort, rng))
    proposal, share = adapt(target, proposal, 6, 4000 * effort, 40, rng)
    if share < 0.35:
        proposal, share = adapt(target, proposal, 8, 12_000 * effort, 40, rng)
    return _final(target, proposal, route, aim, most, rng)


def _final(
    target: Target, proposal: Proposal, route: str, aim: float, most: int, rng: np.random.Generator
) -> Estimate:
    logs, scales = np.empty(0), np.empty((0, target.outputs, target.outputs))
    while len(logs) < most and (len(logs) == 0 or _error(logs) > aim):
        draws = proposal.draw(target, CHUNK, rng)
        logs = np.r_[logs, proposal.log_weights(draws)]
        scales = np.concatenate([scales, draws.factors @ np.swapaxes(draws.factors, 1, 2)])
    weights = np.exp(logs - logs.max())
    value = logs.max() + math.log(weights.mean())
    shares = weights / weights.sum()
    scales = target.likelihood.axes @ scales @ target.likelihood.axes.T
    mean = np.tensordot(shares, scales, 1)
    spread = np.sqrt(np.tensordot(shares**2, (scales - mean) ** 2, 1))
    size = effective_size(logs)
    return Estimate(route, value, _error(logs), size, len(logs), float(shares.max()), mean, spread)


def _error(logs: Array) -> float:
    weights = np.exp(logs - logs.max())
    return float(weights.std() / weights.mean() / math.sqrt(len(weights)))


def by_annealing(
    problem: Any, fitted: int, particles: int, seed: int, *, moves: int = 2, xp: Any = np
) -> Estimate:
    """Annealing from the prior, widened towards so many fitted directions."""
    arrays = problem.beta, problem.X, problem.Y
    model = annealed.WeightModel(problem.widths, problem.variances, *arrays, fitted=fitted, xp=xp)
    result = annealed.Annealer(model, particles, seed, moves).run()
    total = annealed.ISLANDS * particles
    return Estimate(
        f"annealed {fitted}",
        result.log_evidence,
        result.error,
        min(1 / result.error**2, float(total)) if result.error else float(total),
        total,
        1 / total,
        result.scale_mean,
        result.scale_error,
    )


def best(estimates: list[Estimate], largest_error: float = 0.02) -> Estimate:
    """The most precise estimate by importance that no other precise one exceeds."""
    imports = [one for one in estimates if not one.route.startswith("annealed")]
    precise = [one for one in imports if one.error <= largest_error]
    highest = [one for one in precise if not any(_above(other, one) for other in precise)]
    return min(highest or precise or imports, key=lambda one: one.error)


def agree(one: Estimate, other: Estimate) -> bool:
    """Within three combined standard errors, and a thousandth for the rounding of both."""
    return abs(one.log_evidence - other.log_evidence) < 3 * math.hypot(one.error, other.error) + 1e-3


def settled(estimates: list[Estimate], largest_error: float = 0.02) -> tuple[Estimate, list[str]]:
    """The combined estimate and the routes that agree with the best one; none if nothing is settled.

    No estimate may lie above it: those that miss a phase are low, but none is high beyond its error.
    """
    chosen = best(estimates, largest_error)
    witnesses = [one for one in estimates if one is not chosen and agree(one, chosen)]
    precise = [one for one in witnesses if one.error <= largest_error]
    above = [one for one in estimates if _above(one, chosen)]
    if chosen.error > largest_error or not precise or above:
        return chosen, []
    imports = [chosen, *(one for one in precise if not one.route.startswith("annealed"))]
    return _combined(imports), [chosen.route, *(one.route for one in witnesses)]


def _above(one: Estimate, chosen: Estimate) -> bool:
    gap = one.log_evidence - chosen.log_evidence
    return one.error < 1 and gap > 4 * math.hypot(one.error, chosen.error) + 1e-3


def _combined(estimates: list[Estimate]) -> Estimate:
    """Means weighted by precision; the error is stretched where they scatter more than theirs allow."""
    values, errors = (np.array([getattr(one, key) for one in estimates]) for key in ("log_evidence", "error"))
    shares = errors**-2 / np.sum(errors**-2)
    value = float(shares @ values)
    scatter = np.sum((values - value) ** 2 / errors**2) / max(len(values) - 1, 1)
    error = math.sqrt(max(scatter, 1.0) / np.sum(errors**-2))
    mean = np.tensordot(shares, [one.scale_mean for one in estimates], 1)
    spread = np.sqrt(np.tensordot(shares**2, [one.scale_error**2 for one in estimates], 1))
    effective, draws = sum(one.effective for one in estimates), sum(one.draws for one in estimates)
    return Estimate("combined", value, error, effective, draws, estimates[0].largest, mean, spread)


def is_widened(problem: Any, fitted: int) -> bool:
    """Whether the prior must be widened at all to reach so many directions."""
    arrays = problem.beta, problem.X, problem.Y
    model = annealed.WeightModel(problem.widths, problem.variances, *arrays, fitted=fitted)
    return bool(model.excess[0].max() > 0.1)
