"""The matrix generalised inverse Gaussian, a distribution of its own (zero temperature, depth two).

`distribution` is the public class, `canonical` draws from a law in canonical form. Imports `engines`, for the
judgement of weights.
"""
