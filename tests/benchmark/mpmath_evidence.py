"""The log evidence of one output in many digits: a Mellin integral for the prior of log λ, then one more."""

from __future__ import annotations

import mpmath
import numpy as np


def log_evidence(X, y, widths, variances, noise, digits, lowest=-45):
    """log ∫ π(x) N(y; 0, e^x G + noise² I) dx with G = σ_1² XXᵀ/n_0, by two trapezoid rules.

    On the line Re s = 2 the sum repeats e^{2x} π(x) with the period 100, so that a right tail of e^{−200} is
    still good to as many digits as are left of `digits`.
    """
    with mpmath.workdps(digits):
        mp, mpf = mpmath, mpmath.mpf
        inputs = mp.matrix(X.tolist())
        gram = inputs * inputs.T * (mpf(variances[0]) / X.shape[1])
        values, vectors = mp.eigsy(gram)
        rotated = vectors.T * mp.matrix([[mpf(v)] for v in y.tolist()])
        g = [max(mpf(0), values[i]) for i in range(len(values))]
        squares = [rotated[i] ** 2 for i in range(len(values))]
        noise2 = mpf(noise) ** 2
        shift = sum(mp.log(mpf(v)) for v in variances[1:])
        shapes = [mpf(n) / 2 for n in widths]

        # M(s) = E e^{s (x − shift)} on the line Re s = c; π(x) = (1/π) Re ∫_0^∞ e^{−s (x − shift)} M dy
        c, step = mpf(2), mpf(1) / 16
        line = []
        k = 0
        while True:
            s = mp.mpc(c, k * step)
            log_m = sum(mp.loggamma(a + s) - mp.loggamma(a) - s * mp.log(a) for a in shapes)
            term = mp.exp(log_m)
            line.append(term)
            if k > 8 and abs(term) < mpf(10) ** (-digits):
                break
            k += 1
        line[0] /= 2

        def density(x):
            turn = mp.expj(-step * (x - shift))
            total, power = mpf(0), mp.mpc(1)
            for term in line:
                total += (term * power).real
                power *= turn
            return mp.exp(-c * (x - shift)) * total * step / mp.pi

        def log_likelihood(x):
            scale = mp.exp(x)
            v = [noise2 + scale * each for each in g]
            return -sum(mp.log(2 * mp.pi * a) + b / a for a, b in zip(v, squares, strict=True)) / 2

        width = mpf(1) / 8
        xs = np.arange(8 * lowest, 8 * 9)
        logs = [log_likelihood(int(i) * width) for i in xs]
        top = max(logs)
        parts = [
            mp.exp(value - top) * density(int(i) * width)
            for i, value in zip(xs, logs, strict=True)
            if value - top > -300
        ]
        return float(top + mp.log(sum(parts) * width))
