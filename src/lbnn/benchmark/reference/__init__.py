"""Known answers: exact expectations of one output, estimates with errors of several, phases, the stored tasks.

Knows `network`, `engines`, `scale` and the densities of `benchmark`.
"""
