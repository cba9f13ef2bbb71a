"""How data weigh a scale: log p(Y | L) at every temperature.

`root` computes log p(Y | L) and its gradient as functions of a root of L, `gaussian` has the rows of the
data of which these are made, `hidden_kernel` the same rows with examples for outputs (more outputs than
data); `existence` says where the zero-temperature posterior exists. `missing` and `observed` are for tables
with missing cells, `plain` is the formula with which every answer is compared, `signal_and_noise` has a
covariance for each, `views` for observations through several views. Imports `_base`, `scale` and `data`;
nothing of engines.
"""
