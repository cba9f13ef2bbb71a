"""Densities at each point by itself: from the atoms where enough of them count, else by an integral.

An outlier makes other scales probable than the data do. Where only a few atoms of the measure count for a
point, or quadrature nodes do not resolve its integrand, the density there is a tilted integral of its own, as
the joint density is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lbnn._base.arrays import like
from lbnn._base.types import Array, Mask
from lbnn._base.warn import collected, warn
from lbnn.data.projection import GramProjection, Projection
from lbnn.predict.conditional import ConditionalProcess
from lbnn.predict.density import conditional_log_density
from lbnn.scale.measure import ScaleMeasure, effective_atoms, unresolved

#: Points with draws of the scale behind them that are integrated anew in one call: each takes a run of the
#: engines, of seconds (24 outputs, 58 rows, width 5: 3 s).
_MOST_ANEW = 20
_FEWEST_ATOMS = 50.0  # effective draws: a count of 10 or 20 was seen to miss a nat


def doubtful_points(measure: ScaleMeasure, log_densities: Array) -> Mask:
    """Points whose average over the atoms is not to be trusted: log densities (atoms, p̂) -> (p̂,)."""
    with np.errstate(divide="ignore"):  # weights may have underflowed to zero
        log_terms = np.log(measure.weights)[:, None] + log_densities
    if measure.law is None:
        few = not measure.deterministic
        return effective_atoms(log_terms) < _FEWEST_ATOMS if few else np.zeros(log_terms.shape[1], bool)
    return unresolved(log_terms) if measure.deterministic else effective_atoms(log_terms) < _FEWEST_ATOMS


def integrated_anew(
    projection: Projection,
    process: ConditionalProcess,
    measure: ScaleMeasure,
    noise_variance: float,
    values: Array,
    averages: Array,
    doubtful: Mask,
) -> Iterator[tuple[int, float]]:
    """Number and log density of the points marked, for values (p̂, n_d) with noise of this variance.

    Behind draws these are the `_MOST_ANEW` of the smallest densities by `averages` (p̂,); the others of the
    points keep their averages, and one warning says so.

    The likelihood has one noise variance τ for training and test points: a point with another one, v, is
    counted in units of √(v/τ). Points whose integrals are not accurate have one warning together.
    """
    doubts: list[str] = []
    same = not noise_variance or noise_variance == process.noise_variance
    unit = 1.0 if same else math.sqrt(process.noise_variance / noise_variance)
    for number in _chosen(measure, averages, doubtful):
        explained = unit * projection.explained[number : number + 1, :]
        own = np.reshape(projection.unexplained_diagonal[number], (1, 1))
        unexplained = like(unit**2 * own, explained)
        factor = conditional_log_density(
            GramProjection(explained, unexplained),
            process,
            noise_variance,
            unit * values[number : number + 1],
            measure.typical,
        )
        if not factor.bounded_average(measure.tails.narrowest):
            yield number, math.inf
        else:
            with collected() as messages:
                density = measure.log_expect_exp(factor).real + values.shape[1] * math.log(unit)
            doubts.extend(messages)
            yield number, density
    if doubts:
        others = (
            f" (and {len(doubts) - 1} more points, with errors of other sizes)" if len(doubts) > 1 else ""
        )
        warn(doubts[0] + others)


def _chosen(measure: ScaleMeasure, averages: Array, doubtful: Mask) -> list[int]:
    """Numbers of the points that are integrated anew; a warning if these are not all of them."""
    numbers = np.flatnonzero(doubtful)
    if measure.deterministic or len(numbers) <= _MOST_ANEW:
        return numbers.tolist()
    warn(
        f"{len(numbers)} of {len(doubtful)} points are outliers, whose densities rest on fewer than "
        f"{_FEWEST_ATOMS:g} effective draws of the scale; the {_MOST_ANEW} with the smallest densities were "
        "integrated anew: do not rely on those of the others, or evaluate them in several calls"
    )
    return numbers[np.argsort(averages[numbers], kind="stable")[:_MOST_ANEW]].tolist()


def warn_without_law(measure: ScaleMeasure, doubtful: Mask) -> None:
    """Warn of points (p̂,) that rest on a few draws behind which there is no law that could be integrated."""
    if doubtful.any() and measure.law is None:
        warn(
            f"the densities of {np.count_nonzero(doubtful)} of {len(doubtful)} points rest on fewer than "
            f"{_FEWEST_ATOMS:g} effective draws of the scale, and nothing is known of it beside the draws: "
            "do not rely on them, or on averages that include them"
        )
