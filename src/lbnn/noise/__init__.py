"""Noise: what it does to the data, the likelihood, an observation and a file is asked of it.

`noise` is noise of every kind, and what it does; `through_network` is what coupled noise does to data: its
covariance across outputs is learned with the scale. `linear_image` takes the law of a scale to other outputs;
`make` turns a name and beta, or a covariance, into noise. `missing` is a table with missing cells. Imports
`data`, `scale` and `likelihood`; nothing of engines.
"""
