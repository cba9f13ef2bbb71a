"""Enough draws to judge: fewer than forty effective ones, by the chains' own count, are not an answer.

No null distribution: exact draws, of which there are at least forty, always pass.
"""

from __future__ import annotations

import numpy as np

from lbnn.benchmark.scorers.chains import Chains
from lbnn.benchmark.scorers.ranks import FEWEST
from lbnn.benchmark.scorers.score import Score


def score_enough(chains: Chains, level: float) -> Score:
    """Fail where the worst function has too few effective draws; where nothing varies there are none."""
    varying = chains.claimed[~np.isnan(chains.claimed)]
    fewest = float(varying.min()) if len(varying) else 0.0
    words = f"{fewest:.0f} effective draws of the worst function, by the chains' own count"
    enough = len(chains.independent) >= FEWEST and fewest > 0
    if not enough:
        words += f": fewer than {FEWEST} cannot be judged"
    return Score("effective draws", 1.0 if enough else 0.0, level, words, {"claimed": fewest})
