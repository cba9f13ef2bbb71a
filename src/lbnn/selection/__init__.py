"""Hyperparameters by evidence: noise, prior scale, width and depth from one eigendecomposition.

The Gaussian process (infinite width) has a closed form and is searched first, over a wide grid. Then widths
are tried from the widest down; every network starts from the hyperparameters of its wider neighbour and
maximises its evidence by quasi-Newton steps with gradients from Fisher's identity. Networks with coupled
noise, which need n_d rows of the data only, go first. `data` and `coupled` are the likelihood as a function
of the hyperparameters, `parameters` which of these are free, `gaussian_process` and `finite_width` the
evidence, `optimise` its maximum, `width_search` one kind of noise, `evidence_search` all of them,
`free_noise` noise with a covariance of its own, `no_signal` the comparison with no signal, `grid` the
evidence over a grid. Imports `network` and what stands before it.
"""

from __future__ import annotations

from lbnn.selection.coupled import CoupledData, coupled
from lbnn.selection.data import EvidenceData
from lbnn.selection.evidence_search import Shapes, search
from lbnn.selection.finite_width import condition
from lbnn.selection.gaussian_process import log_evidence, prefers_own_units
from lbnn.selection.no_signal import no_signal
from lbnn.selection.parameters import NOISE_RANGE, RATIO_RANGE, NoiseSpec, free_parameters
from lbnn.selection.width_search import Trial, infinite_width, without_noise, without_signal

__all__ = [
    "NOISE_RANGE",
    "RATIO_RANGE",
    "CoupledData",
    "EvidenceData",
    "NoiseSpec",
    "Shapes",
    "Trial",
    "condition",
    "coupled",
    "free_parameters",
    "infinite_width",
    "log_evidence",
    "no_signal",
    "prefers_own_units",
    "search",
    "without_noise",
    "without_signal",
]
