"""What follows from any measure of the scale: predictions, feature kernels, weights.

`conditional` is the Gaussian process given L; `density`, `quantile` and `generating_function` are statistics
given L; `predictive` is what every predictive answers; `network` averages over a measure, `affine` puts the
result into the user's units, `model_average` averages over models; `feature_kernel` and `weights` are the
hidden layers. `atoms` are predictives over draws without common eigenvectors, `missing` from tables with
missing cells, `view_process` for views. Imports `data`, `scale` and
`likelihood`; nothing of engines.
"""
