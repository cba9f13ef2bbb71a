"""The density of all weights of a task in NumPy, JAX, PyTorch and Stan, and functions of the weights.

Imports `_base`. JAX and PyTorch are imported where they are used.
"""
