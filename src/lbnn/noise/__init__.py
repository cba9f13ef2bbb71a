"""Kinds of noise: what each does to the data, the likelihood, an observation and a file is asked of it.

`kind` says what every kind answers; `independent` is one variance for all outputs, `per_output` one for each,
`covariance` any that is given, `coupled` passes through the network, so that its covariance across outputs is
learned with the scale; `make` turns a name and beta into one of them. `missing` is independent noise on a
table with missing cells. Imports `data`, `scale` and `likelihood`; nothing of engines.
"""
