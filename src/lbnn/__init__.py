"""Exact Bayesian inference for finite-width deep linear networks."""

from lbnn.engines import Diagnostics, EngineChoice
from lbnn.errors import AccuracyWarning
from lbnn.mgig import MatrixGIG
from lbnn.network import Network
from lbnn.posterior import Posterior
from lbnn.predictive import Predictive
from lbnn.scale_measure import ScaleMeasure
from lbnn.scale_prior import ScalePrior
from lbnn.spectrum import Spectrum

__version__ = "0.1.0"

__all__ = [
    "AccuracyWarning",
    "Diagnostics",
    "EngineChoice",
    "MatrixGIG",
    "Network",
    "Posterior",
    "Predictive",
    "ScaleMeasure",
    "ScalePrior",
    "Spectrum",
]
