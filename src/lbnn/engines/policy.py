"""The thresholds by which an estimate is tried, accepted, checked and given up: every decision, in one place.

Tolerances of numerical methods (nodes, step sizes, rounds of fitting) stay with their methods. A threshold
here decides what a user gets: which estimate is the answer, and whether it is ok. Each has its reason beside
it. `tests/engines/test_policy.py` moves each by a factor of three in its harmful direction and fails, or says
why it does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy import special

#: Independent groups of draws: their spread is the stated error. With eight, two means of heavy-tailed laws
#: were off by more than five of their errors.
GROUPS = 16


def joint_errors(probability: float) -> float:
    """What the difference of two right estimates exceeds with so small a probability, in joint errors.

    Two-sided, for errors from the spread of `GROUPS` groups: Student's law.
    """
    return -float(special.stdtrit(GROUPS - 1, 0.5 * probability))


@dataclass(frozen=True)
class Policy:
    """Decision thresholds of the engines for several outputs."""

    # -- what an estimate must have to be an answer ---------------------------------------------------------
    #: Tail index from which importance weights are not trusted: averages then converge too slowly for any
    #: number of draws to help (Vehtari, Simpson, Gelman, Yao & Gabry, 2024).
    largest_k: float = 0.7
    #: The same for w L_jj of a mixture, whose mean is E L: from one half on their variance is infinite; the
    #: spread of groups says little of the error. In the tail of a power law E L was off by seven errors at
    #: 0.57. (With nine outputs and more, the largest of so many estimated indices exceeds it by chance.) It
    #: does not fall with more draws (four outputs, 0.34 to 0.58 from 2,048 to 262,144), so that a mixture
    #: beyond it gives way to the next step after 8,192.
    largest_mean_k: float = 0.5
    #: The same for draws by rows: at 0.65 to 0.76 an order of the axes was low by 0.15.
    largest_row_k: float = 0.6
    #: Effective draws of importance sampling under which its error and tail index are too uncertain.
    fewest_effective: float = 400.0
    #: Effective draws of E L_jj along every axis of the data: the mean can live where the weights are few.
    fewest_for_means: float = 200.0

    # -- what confirms it -----------------------------------------------------------------------------------
    #: Probability that two right estimates are called different, over the evidence and all means together.
    false_alarm: float = 0.01
    #: Effective draws under which an estimate cannot check another one.
    fewest_to_check: float = 100.0
    #: Error of a check, in target errors, above which it says nothing of the answer.
    largest_check_error: float = 3.0
    #: Effective draws per draw from which a Gaussian needs no check where rows do not apply: it has seen the
    #: posterior from all sides (no such answer of the many-outputs benchmark was wrong).
    gaussian_alone: float = 0.1

    # -- which estimate is tried ----------------------------------------------------------------------------
    #: Coordinates of T up to which all modes are sought and a mixture is made: beyond, Hessians at every
    #: start cost more than the draws, and combinations of phases are too many to be listed.
    most_for_mixture: int = 36
    #: Coordinates up to which a thousand draws tell more of a mixture than the curvature at its modes.
    most_fitted: int = 21
    #: The same where spectral moves serve: with 15 to 21 coordinates and 6 to 11 outputs, mixtures took 4 to
    #: 6 s and fell short in 7 of 7 problems. (The truth problems, up to 5 outputs, have at most 14.)
    most_fitted_narrow: int = 14
    #: Dimensions above which a dense Hessian costs more than it brings (a minute on one core at 1500).
    most_for_curvature: int = 1500
    #: Outputs, or rank of the data, times the narrowest width up to which spectral moves are made: 512
    #: particles hold so many numbers each. (Before moves were made twice as fast, one of up to six rounds
    #: took 4 s at 200 to 300, 16 to 35 s at 1000.)
    most_for_spectral: int = 500
    #: The same where they are the last resort, after Hamiltonian moves. With 24 to 50 outputs behind 5 to 15
    #: units and a target error of 0.1 those took 1 to 15 s with their check and were ok wherever the Gaussian
    #: at the mode has more than a few effective draws. Where it has none they are low (by 3.4 at 600, by 27
    #: at 783, not ok); spectral moves take 8 s at 600, 38 s at 783, 42 s at 1170.
    most_for_last_spectral: int = 1000
    #: Log condition number of their matrices (`Problem.spectral`) up to which they are made. Their arithmetic
    #: holds to about 70 (e^35 between singular values), but the path gets long: seven layers of ten units
    #: (43) took more than 400 s, where rows take 36 s.
    most_log_condition: float = 40.0
    #: Outputs up to which L is drawn where the hidden kernel is smaller: moments of up to 32 groups of
    #: targets fill their number squared (64 MB at 500; 2,500 outputs died of memory).
    most_outputs_by_rows: int = 500
    #: Effective draws behind a narrow layer under which other estimates are preferred to rows.
    fewest_narrow_rows: float = 200.0

    # -- how much work --------------------------------------------------------------------------------------
    #: Rough floating-point operations of one call: about a minute and a half on one core. Every estimate
    #: that is tried takes its share from what is left.
    work: float = 3.2e11
    #: ... of draws by rows, ...
    row_work: float = 2e11
    #: ... behind a narrow layer for a target error of 0.1 (times 0.01 over its square): where weights have a
    #: tail, more draws do not help (9 outputs, 3 units, a signal of rank one: 10 s at 3e9 and not enough,
    #: where spectral moves take 1 s).
    narrow_row_work: float = 1e9
    #: ... of the last round of a mixture (ten seconds), ...
    mixture_work: float = 1e10
    #: ... and of sequential Monte Carlo: no further round is started beyond it (20 s) ...
    smc_work: float = 1e11
    #: ... and moves are cut short beyond this, which makes the answer not ok.
    smc_work_cut: float = 1.2e11


POLICY = Policy()
#: Of one of eight or more models whose average is taken: a few dozen draws are enough, nothing is checked,
#: and a mixture gives way to the next step after a second.
ROUGH = replace(
    POLICY, fewest_effective=64.0, fewest_for_means=1.0, largest_mean_k=math.inf, mixture_work=1e9
)
