"""Learning curves: averages over Gaussian data of what a network predicts, at any size.

`gaussian_data` holds the law of the data in bidiagonal form, `bidiagonal` likelihood and variances of such
data, `scale_law` the posterior of λ for many data sets, `sampled` averages over draws of them,
`interpolation` averages at zero temperature by quadrature, `limits` the formulas for infinite size, `curve`
the public function. Imports `network`, `theories` and what stands before them.
"""
