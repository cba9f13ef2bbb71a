"""Other theories: limits, a random variance put in by hand, and how far they are from the exact answer.

`limits` holds the limit theories, `scale_mixing` the random last-layer variance, `comparison` sets theories
beside the exact posterior, `convergence` follows their errors along growing sizes. `views` is the limit for
observations through views. Imports every folder before it.
"""
