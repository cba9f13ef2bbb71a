"""Hyperparameters by evidence: noise, prior scale, width and depth from one eigendecomposition.

The Gaussian process (infinite width) has a closed form and is searched first, over a wide grid. Then the
width goes down a ladder; every network starts from the hyperparameters of its wider neighbour and climbs its
own evidence by quasi-Newton steps with gradients from Fisher's identity. Networks with coupled noise, which
need n_d rows of the data only, go first.
"""

from __future__ import annotations

from lbnn.evidence_search.coupled import CoupledData, coupled
from lbnn.evidence_search.data import EvidenceData
from lbnn.evidence_search.finite_width import condition
from lbnn.evidence_search.gaussian_process import prefers_own_units
from lbnn.evidence_search.ladder import Shapes, search
from lbnn.evidence_search.parameters import NOISE_RANGE, RATIO_RANGE, Choice, free_parameters
from lbnn.evidence_search.walk import Candidate

__all__ = [
    "NOISE_RANGE",
    "RATIO_RANGE",
    "Candidate",
    "Choice",
    "CoupledData",
    "EvidenceData",
    "Shapes",
    "condition",
    "coupled",
    "free_parameters",
    "prefers_own_units",
    "search",
]
