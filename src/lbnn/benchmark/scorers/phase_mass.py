"""Mass of every phase against its exact value.

The draws count as ESS independent ones, ESS that the chains claim for log tr L. Null distribution: binomial
with the exact mass (moved towards the draws' by two of its standard errors: the error budget of grade B),
corrected for the number of phases.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from lbnn.benchmark.scorers.chains import Chains
from lbnn.benchmark.scorers.score import Score, not_judged


def score_phase_mass(chains: Chains, level: float) -> Score:
    """Smallest p-value of a phase."""
    phases, index = chains.task.phases, chains.task.expectations.names.index("log tr L")
    crossings = int((np.diff(chains.phases, axis=1) != 0).sum())
    own = np.array([(chains.phases == number).mean() for number in range(len(phases))])
    details = {
        "mass": own.tolist(),
        "exact mass": phases.mass.tolist(),
        "error": phases.error.tolist(),
        "fitted directions": phases.fitted_directions.tolist(),
        "crossings": crossings,
    }
    if len(phases) == 1:
        return not_judged("phase mass", level, "one phase", **details)
    claimed = chains.claimed[index]
    effective = max(1, round(min(chains.count, claimed if claimed == claimed else chains.count)))
    values = []
    for mass, exact, error in zip(own, phases.mass, phases.error, strict=True):
        shifted = exact + math.copysign(min(2 * error, abs(mass - exact)), mass - exact)
        values.append(stats.binomtest(round(mass * effective), effective, min(max(shifted, 0.0), 1.0)).pvalue)
    tests = len(phases) - 1 if len(phases) == 2 else len(phases)
    worst = int(np.argmin(values))
    words = (
        f"mass of the phase with {phases.fitted_directions[worst]} fitted directions {own[worst]:.3g}, exact "
        f"{phases.mass[worst]:.3g}; {crossings} crossings between phases in {chains.count} draws"
    )
    return Score("phase mass", min(1.0, tests * float(values[worst])), level, words, details)
