"""Means of all functions: z = (mean of the draws − exact mean) / √(s²/ESS + error²), corrected by Bonferroni.

s and ESS are the draws' own: z is how many of the standard errors that a user would report the answer is
off. Null distribution: normal, once Hall's monotone cubic has taken the skewness of the function out of z.
A function is judged where a mean of so many exact draws is nearly normal, that is |skewness|/√ESS ≤ 0.1 and
kurtosis/ESS ≤ 0.2; others are shown, and judged by their ranks. Error budget: the error of the exact mean
(zero for grade A) is in the denominator. How strong a pass is follows from the same normal law: a shift of
δ = (z_{level/2m} + z_{0.9}) √(1/ESS + error²) posterior standard deviations fails with a chance of 90%.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from lbnn.benchmark.scorers.chains import FEWEST, Chains
from lbnn.benchmark.scorers.score import Score, not_judged

#: Chance with which the shift of a mean that is stated as `shift seen` would have failed.
POWER = 0.9
LARGEST_SKEWNESS = 0.1
LARGEST_KURTOSIS = 0.2


def score_moments(chains: Chains, level: float) -> Score:
    """Largest |z| over the functions."""
    known, size = chains.task.expectations, chains.claimed
    flat = chains.values.reshape(-1, chains.values.shape[2])
    mean, deviation = flat.mean(axis=0), flat.std(axis=0, ddof=1)
    effective = np.where(np.isnan(size), chains.count, size)
    difference = mean - known.mean
    # A chain that never moves has the deviation zero, or what rounding makes of it: no less than that.
    rounding = np.finfo(float).eps * known.standard_deviation
    z = difference / np.sqrt(deviation**2 / effective + known.error**2 + rounding**2)
    bias = difference / known.standard_deviation
    nearly_normal = (np.abs(known.skewness) <= LARGEST_SKEWNESS * np.sqrt(effective)) & (
        known.kurtosis <= LARGEST_KURTOSIS * effective
    )
    tests = max(1, int(nearly_normal.sum()))
    reach = stats.norm.isf(level / (2 * tests)) + stats.norm.ppf(POWER)
    seen = reach * np.sqrt(1 / effective + (known.error / known.standard_deviation) ** 2)
    details = {
        "shift seen": np.where(nearly_normal, seen, np.nan).tolist(),
        "function": list(known.names),
        "mean": mean.tolist(),
        "exact mean": known.mean.tolist(),
        "bias": bias.tolist(),
        "z": z.tolist(),
        "ESS claimed": effective.tolist(),
        "ESS true": chains.true.tolist(),
        "judged": nearly_normal.tolist(),
    }
    if not nearly_normal.any():
        return not_judged("means", level, "too few effective draws for a mean to be nearly normal", **details)
    judged = np.flatnonzero(nearly_normal)
    skew = known.skewness / np.sqrt(effective)
    symmetric = z + skew * z**2 / 3 + skew**2 * z**3 / 27 + skew / 6  # Hall's transformation, monotone in z
    p_values = np.minimum(1.0, 2 * len(judged) * stats.norm.sf(np.abs(symmetric[judged])))
    p_value = float(p_values.min())
    off = judged[p_values < level]  # of those that are off, name the one that is off by most
    worst = off[np.abs(bias[off]).argmax()] if len(off) else judged[p_values.argmin()]
    words = (
        f"largest error of a mean: {known.names[worst]}, {z[worst]:+.1f} standard errors "
        f"({bias[worst]:+.2g} posterior standard deviations), {len(judged)} of {len(z)} functions judged"
    )
    return Score("means", p_value, level, words, details)


def score_enough(chains: Chains, level: float) -> Score:
    """Fail where there are too few effective draws to judge; exact draws, of which there are more, pass."""
    varying = chains.claimed[~np.isnan(chains.claimed)]
    fewest = float(varying.min()) if len(varying) else 0.0
    words = f"{fewest:.0f} effective draws of the worst function, by the chains' own count"
    enough = len(chains.independent) >= FEWEST and fewest > 0
    if not enough:
        words += f": fewer than {FEWEST} cannot be judged"
    return Score("effective draws", 1.0 if enough else 0.0, level, words, {"claimed": fewest})
