"""Noise with a covariance of its own, learned beside that of the signal: `noise="free"`.

`target` is the posterior to be integrated, from a network, its noise and data; `posterior` what is returned.
Imports `predict`, `cross_validation`, `engines` and what stands before.
"""
