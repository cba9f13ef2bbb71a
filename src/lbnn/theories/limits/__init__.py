"""The paper's limit theories. `lbnn.asymptotics` is their public name.

`regimes` holds the public functions, `setting` a network with its data, `single_scale` theories with one L,
`saddle` and `kernel_saddle` saddle points over L and over hidden kernels, `wide_prior` the prior's rate,
`theory` what all of them return.
"""
