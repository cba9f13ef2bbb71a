"""The one loop: more draws until enough."""

from __future__ import annotations

import math
from collections.abc import Callable

from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.policy import GROUPS

_RESERVE = 1.4  # draws beyond what the effective share so far says are needed
_LEAST = 1.5  # factor from one number of draws to the next
_TRUSTED = 64  # draws per group from which the share of effective draws is taken for what it is ...
_AT_MOST = 4.0  # ... and the largest factor before
_HOPELESS = 2.0  # times the draws allowed beyond which none are made


def grow(
    draw: Callable[[int], Estimate],
    found: Estimate,
    most: float,
    missing: Callable[[Estimate], float],
    enough: Callable[[Estimate], bool],
    hopeless: float = _HOPELESS,
) -> Estimate:
    """More draws until enough, or until no more are allowed.

    Parameters
    ----------
    draw : function of a number of draws per group -> Estimate
        Of so many draws in all: new ones, or those there are and more.
    found : Estimate
        What there is.
    most : float
        Draws per group that memory and work allow.
    missing : function of an estimate -> float
        How many times its effective draws are needed.
    enough : function of an estimate -> bool
    hopeless : float
        None are drawn where more than so many times those that are allowed would be needed.
    """
    while not enough(found):
        have = len(found.log_weights) // GROUPS
        wanted = max(_RESERVE * missing(found), _LEAST) * have
        trusted = have >= _TRUSTED
        if have >= most or (trusted and wanted > hopeless * most):
            break
        found = draw(math.ceil(min(wanted, most, math.inf if trusted else _AT_MOST * have)))
    return found


def missing_for(call: Call) -> Callable[[Estimate], float]:
    """How many times the effective draws of an estimate the target error needs, for evidence and means."""

    def times(found: Estimate) -> float:
        """The largest of three ratios."""
        of_means = call.policy.fewest_for_means / float(found.mean_sizes.min())
        error = (found.log_evidence_error / call.target_error) ** 2
        return max(call.effective / found.effective_sample_size, error, of_means)

    return times


def power_of_two(size: int) -> int:
    """The next one, for points that fill a cube evenly."""
    return 1 << (size - 1).bit_length()
