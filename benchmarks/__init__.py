"""Benchmarks: `python -m benchmarks [name ...]`.

One file each. A benchmark is a module of this package with a docstring that says what is compared with
what, and a function `run(repeats)` that prints a table; `timing` holds what they share.
"""
