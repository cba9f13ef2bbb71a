"""Data: what the posterior of the scale needs of them, and test points projected on the training points.

`spectrum` holds the sufficient statistics (eigenvalues of the Gram matrix, targets in its eigenbasis),
`decomposition` eigenvectors, `moments` checks of what is handed over, `stream` data in blocks of rows,
`bases` how they were reached (inputs, Gram matrix, private inputs), `projection` the test points,
`centring` the intercept. `examples` are the training rows in the eigenbasis, `missing` tables with missing
cells, `view_data` observations through several views, `network_kernels` kernels of infinitely wide
networks; `private_inputs` are those of coupled noise. Imports `_base`; nothing of networks and
temperatures.
"""
