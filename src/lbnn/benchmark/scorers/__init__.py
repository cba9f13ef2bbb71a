"""Scorers: each compares draws with the known answer, with a null distribution and an error budget.

`chains` prepares draws and counts effective ones; `moments`, `ranks`, `energy`, `phase_mass`, `evidence` and
`predictive` judge a set of draws; `invariance` judges a kernel. Imports `benchmark.task`.
"""
