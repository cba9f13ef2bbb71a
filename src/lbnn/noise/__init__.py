"""Kinds of noise and what they do to the likelihood.

`coupled` is noise that passes through the network: the zero-temperature problem of private inputs. Knows
`data` and `likelihood`; nothing of engines.
"""
