"""Learning curves: averages over Gaussian data of what a network predicts, at any size.

`gaussian_data` holds the law of the data in bidiagonal form, `bidiagonal` what a network needs of one data set
as functions of log λ, `sampled` the averages over draws of it, `interpolation` the averages at zero temperature
by quadrature, `limits` the formulas for infinite size, `curve` the public function. Knows every room before it;
of the engines nothing.
"""
