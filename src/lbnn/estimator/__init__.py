"""LBNNRegressor: the scikit-learn estimators. Needs the extra `sklearn` and is not imported with the package.

`regressor` is the estimator: `fit` checks (`table`, `settings`), prepares (`prepare`: `units`, `kernels`,
`inputs`, `column_scales`), searches and averages (`fitting`, `averaging`; `cells` for missing targets) and
describes (`notices`, `shares`, `left_out`, `leverage`). `fitted` holds what predictions need, `impute` fills
in missing targets, `diagnose` gives advice, `summary` the numbers of a fit, `saving` its file. `scoring`
serves pipelines and cross-validation. `banded` is the estimator of bands. Imports every folder before it.
"""

from lbnn.estimator.banded import BandedRegressor
from lbnn.estimator.regressor import LBNNRegressor
from lbnn.estimator.scoring import density_score, predictive

__all__ = ["BandedRegressor", "LBNNRegressor", "density_score", "predictive"]
