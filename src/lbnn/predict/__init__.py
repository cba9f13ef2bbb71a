"""What follows from any measure of the scale: predictions, feature kernels, weights.

`conditional` is the Gaussian process given L; `density`, `quantile` and `generating_function` are statistics
given L; `mixture` averages them over a measure, `affine` puts the result into the user's units and averages
over models; `feature_kernel` and `weights` are the hidden layers. Knows `data`, `scale` and `likelihood`;
nothing of engines.
"""
