"""Several kernels, each with a random scale of its own, for many targets: y = Σ_k f_k + noise.

Imports the one-output law of the scale (`scale`), arrays of any library and networks; not the engines of
`condition`, which have one scale matrix.
"""

from lbnn.bands.model import Bands, BandsFit
from lbnn.bands.predictive import BandsPredictive

__all__ = ["Bands", "BandsFit", "BandsPredictive"]
