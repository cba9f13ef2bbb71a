"""Known answers: exact for one output, with errors for several; the stored tasks.

Imports `network`, `engines`, `scale` and the densities of `benchmark`.
"""
