"""LBNNRegressor: the scikit-learn estimators. Needs the extra `sklearn` and is not imported with the package.

`regressor` is the estimator, `settings` reads its parameters. `training`, `rows` and `targets` look at the
data, `columns`, `kernels`, `input_transform` and `input_search` at the inputs; `fitting` and `design` say
what is searched and averaged, `model` holds what was fitted in the user's units, `saving` puts it into
files. `relevance` finds scales of columns, `row_noise` outliers, `extent` rows outside of the training
data; `summary` says what was found, `scoring` serves pipelines and cross-validation. `banded` is the
estimator of bands. `streamed` fits data in blocks of rows, `missing` tables with missing targets,
`target_transform` advice on targets that are not Gaussian, `free_noise` noise with a covariance of its
own, `shares` the signal in each output; `left_out` compares left-out predictions with the evidence.
`nonlinear` looks for what a linear fit leaves. Imports every folder before it.
"""

from lbnn.estimator.banded import BandedRegressor
from lbnn.estimator.regressor import LBNNRegressor
from lbnn.estimator.scoring import density_score, predictive

__all__ = ["BandedRegressor", "LBNNRegressor", "density_score", "predictive"]
