"""The matrix generalised inverse Gaussian, a distribution of its own (zero temperature, depth two).

`distribution` is the public class, `canonical` solves one problem in canonical form, `target` is its density
in Bartlett coordinates. Imports `scale` and `engines`.
"""
