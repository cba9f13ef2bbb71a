"""The density of all weights of a task in NumPy, JAX, PyTorch and Stan, and functions of the weights.

Knows `_base`. JAX and PyTorch are imported where they are used.
"""
