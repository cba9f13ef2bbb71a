"""Known answers: exact for one output, with errors for several; the stored tasks.

Knows `network`, `engines`, `scale` and the densities of `benchmark`.
"""
