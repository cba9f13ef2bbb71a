"""Several kernels, each with a random scale of its own, for many targets: y = Σ_k f_k + noise.

`model` is the user's entry. `data` and `prior` are kernels, targets and the prior of the scales along a
direction; `quadrature` integrates total scale and noise along one, `simplex` holds rules of directions,
`search` and `inference` rounds of them, `direction_sums` answers as weighted sums with their errors,
`interpolated` answers between directions. `block_posterior`, `assembly` and `distributions` are the
posterior of a block of targets, `predictive` its predictions.

Imports the one-output law of the scale (`scale`), arrays of any library and networks; not the engines of
`condition`, which have one scale matrix.
"""

from lbnn.bands.model import Bands, BandsFit
from lbnn.bands.predictive import BandsPredictive

__all__ = ["Bands", "BandsFit", "BandsPredictive"]
