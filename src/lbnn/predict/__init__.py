"""What follows from draws of the scale: predictions, feature kernels, weights.

`process` holds the Gaussian processes given draws of signal and noise, for one data set; `part` is one
posterior at test points, `dense_part` the same where draws share no axes (`missing` from tables with
missing cells, `view_process` for views); `outputs` is what parts have in common, `tilted` averages of
exponentials. `predictive` answers from one part or from several, `given` with some outputs known; `mixture`
is what both do. `gaussian` and `quantile` are Gaussians and their mixtures, `left_over` what data with
little noise leave of a variance. `feature_kernel` and `weights` are the hidden layers, given the scale by
`conditional`. Imports `data`, `scale` and `likelihood`; nothing of engines.
"""
