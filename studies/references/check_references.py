"""Check the reference values by routes that share no code with the program that made them (mpmath only).

    python -m studies.references.check_references

Direct trapezoid sums over log(lambda) with a linear solve at every node (no diagonalisation, no Mellin line)
for some cases; closed forms for zero targets; line integrals without noise; Meijer G and Bessel K for the
density.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import mpmath
from mpmath import mp, mpf

from tests.reference.cases import CASES, EXACT, Case, case_named

HERE = Path(__file__).resolve().parents[2] / "tests" / "reference"


def digits_of_agreement(one: mpf, other: mpf) -> float:
    """Return -log10 of the relative difference."""
    return float(-mp.log10(abs(one - other) / abs(other))) if one != other else float(mp.dps)


def meijer_log_density(widths: tuple[int, ...], scale: mpf) -> mpf:
    """Return log [prod_l a_l/Gamma(a_l) G^{k,0}_{0,k}(lambda prod a_l | a_1 - 1, ..., a_k - 1)]."""
    shapes = [mpf(width) / 2 for width in widths]
    meijer = mpmath.meijerg([[], []], [[a - 1 for a in shapes], []], mp.fprod(shapes) * scale)
    return mp.log(mp.re(meijer)) + mp.fsum(mp.log(a) - mp.loggamma(a) for a in shapes)


def bessel_log_density(widths: tuple[int, int], scale: mpf) -> mpf:
    """Return the log density of lambda for two hidden layers by the Bessel function K."""
    one, two = (mpf(width) / 2 for width in widths)
    inside = one * two * scale
    bessel = mp.besselk(one - two, 2 * mp.sqrt(inside))
    log_factor = mp.log(2) + (one + two) / 2 * mp.log(inside) - mp.loggamma(one) - mp.loggamma(two)
    return log_factor + mp.log(bessel) - mp.log(scale)


def check_densities() -> None:
    """Compare density.json with mpmath where mpmath can do it (lambda not too far out)."""
    for record in json.loads((HERE / "density.json").read_text()):
        widths = tuple(record["widths"])
        if len(widths) not in (2, 3) or max(widths) > 10**4:
            continue
        formula = bessel_log_density if len(widths) == 2 else meijer_log_density
        compared = []
        for scale, stored in zip(record["scale"], record["log_density"], strict=True):
            if 1e-60 < float(scale) < (1e9 if len(widths) == 2 else 30):
                mp.dps = 60 if len(widths) == 2 else 45
                value = formula(widths, mpf(float(scale)))
                compared.append(digits_of_agreement(value, mpf(stored)))
        print(
            f"density {widths} by {formula.__name__}: {len(compared)} points, {min(compared):.1f} digits",
            flush=True,
        )


def check_zero_targets(case: Case, record: dict) -> None:
    """Zero targets without noise: E[lambda^s] in closed form gives everything.

    evidence = (2 pi)^(-p/2) det(G)^(-1/2) E[lambda^(-p/2)],
    E_rho[lambda^s] = E[lambda^(s - p/2)] / E[lambda^(-p/2)].
    """
    mp.dps = 50
    train, _, _ = case.data()
    rows = mpmath.matrix(train.tolist())
    log_determinant = mp.log(mp.det(rows * rows.T / case.inputs))

    def cumulant(order: mpf) -> mpf:
        shapes = [mpf(width) / 2 for width in case.widths]
        return mp.fsum(mp.loggamma(a + order) - mp.loggamma(a) - order * mp.log(a) for a in shapes)

    half = mpf(case.examples) / 2
    evidence = cumulant(-half) - half * mp.log(2 * mp.pi) - log_determinant / 2
    pairs = [(evidence, record["log_evidence"])]
    pairs += [(mp.exp(cumulant(1 - half) - cumulant(-half)), record["scale_mean"])]
    pairs += [(mp.exp(cumulant(-1 - half) - cumulant(-half)), record["inverse_scale_mean"])]
    worst = min(digits_of_agreement(value, mpf(stored)) for value, stored in pairs)
    print(f"{case.name}: closed form, {worst:.1f} digits", flush=True)


def _height(exponent: Callable, saddle: mpf, distance: mpf, power: int) -> mpf:
    """Return the real part of the integrand on the line, relative to its height at the saddle point."""
    return mp.re(mp.exp(exponent(saddle + 1j * distance, power) - exponent(saddle, power)))


def check_by_line_integral(case: Case, record: dict) -> None:
    """No noise: evidence and E[1/lambda], E[lambda] from one line integral (a Meijer G function).

    With q = y^T G^-1 y,  exp(-q/(2 lambda)) = (1/2 pi i) int Gamma(s) (q/2)^-s lambda^s ds,  hence
    E[lambda^(j - p/2) exp(-q/(2 lambda))] = (1/2 pi i) int Gamma(s) (q/2)^-s E[lambda^(s + j - p/2)] ds.
    """
    mp.dps = 50
    train, targets, _ = (mpmath.matrix(array.tolist()) for array in case.data())
    gram = train * train.T / case.inputs
    log_half_quadratic = mp.log((targets.T * mp.lu_solve(gram, targets))[0] / 2)
    half, shapes = mpf(case.examples) / 2, Counter(case.widths)

    def exponent(s: mpmath.mpc, power: int) -> mpmath.mpc:
        order = s + power - half
        terms = [
            n * (mp.loggamma(order + mpf(w) / 2) - mp.loggamma(mpf(w) / 2) - order * mp.log(mpf(w) / 2))
            for w, n in shapes.items()
        ]
        return mp.loggamma(s) - s * log_half_quadratic + mp.fsum(terms)

    def line_integral(power: int) -> mpf:
        left = max(mpf(0), half - power - mpf(min(shapes)) / 2)  # the last pole
        low, high = mpf(-30), mpf(30)  # minimum of the convex exponent, in log(s - left)
        while high - low > 1e-9:
            one, two = low + (high - low) / 3, high - (high - low) / 3
            rising = exponent(left + mp.exp(one), power) < exponent(left + mp.exp(two), power)
            low, high = (low, two) if rising else (one, high)
        saddle = left + mp.exp(low)
        top = exponent(saddle, power)
        reach = mpf("1e-3")
        while mp.re(exponent(saddle + 1j * reach, power)) - top > -95:
            reach *= mpf("1.2")
        count, total, previous = 300, mpf(1) / 2, mpf(0)
        total += mp.fsum(_height(exponent, saddle, reach * j / count, power) for j in range(1, count + 1))
        while abs(total / count - previous) > 1e-36 * total / count and count < 20000:
            previous = total / count  # halve the step
            total += mp.fsum(
                _height(exponent, saddle, reach * (j + 0.5) / count, power) for j in range(count)
            )
            count *= 2
        return top + mp.log(total * reach / count / mp.pi)

    logs = {power: line_integral(power) for power in (-1, 0, 1)}
    constant = -half * mp.log(2 * mp.pi) - mp.log(mp.det(gram)) / 2
    pairs = [
        (logs[0] + constant, record["log_evidence"]),
        (mp.exp(logs[1] - logs[0]), record["scale_mean"]),
        (mp.exp(logs[-1] - logs[0]), record["inverse_scale_mean"]),
    ]
    agreements = " ".join(f"{digits_of_agreement(value, mpf(stored)):.1f}" for value, stored in pairs)
    print(f"{case.name}: line integral, digits {agreements}", flush=True)


def check_by_direct_sum(case: Case, record: dict, grid: list[float]) -> None:
    """Sum over x = log(lambda) with LU solves at every node; ``grid`` is first x, last x and step.

    Without hidden layers the only node is x = 0.
    """
    mp.dps = 30
    train, targets, test = (mpmath.matrix(array.tolist()) for array in case.data())
    gram, cross = train * train.T / case.inputs, test * train.T / case.inputs
    own = test * test.T / case.inputs
    noise = mpf(0) if mp.isinf(mpf(case.beta)) else 1 / mpf(case.beta)
    size = case.examples

    def terms(x: mpf) -> list[mpf]:
        scale = mp.exp(x)
        covariance = scale * gram + noise * mp.eye(size)
        inverse = mp.inverse(covariance)
        solved = inverse * targets
        mean = scale * cross * solved
        spread = scale * own - scale**2 * cross * inverse * cross.T + mean * mean.T
        fit, shrink = gram * solved, gram * inverse * gram
        quadratic = (targets.T * solved)[0]
        log_weight = -(quadratic + size * mp.log(2 * mp.pi) + mp.log(mp.det(covariance))) / 2
        if len(case.widths) == 1:
            a = mpf(case.widths[0]) / 2
            log_weight += a * mp.log(a) - mp.loggamma(a) + a * x - a * scale
        elif case.widths:
            log_weight += x + bessel_log_density(case.widths, scale)
        kernel = scale * (fit[0] ** 2 - shrink[0, 0])
        values = [mpf(1), scale, *mean, spread[0, 0], spread[2, 2], spread[0, 1], kernel]
        return [mp.exp(log_weight) * value for value in values]

    step = mpf(grid[2])
    count = round((grid[1] - grid[0]) / grid[2])
    sums = [mpf(0)] * 9
    for number in range(count + 1):
        sums = [total + step * term for total, term in zip(sums, terms(grid[0] + number * step), strict=True)]
    scale_mean, *means = (total / sums[0] for total in sums[1:5])
    spread00, spread22, spread01, kernel = (total / sums[0] for total in sums[5:])
    pairs = [
        (mp.log(sums[0]), record["log_evidence"]),
        (scale_mean, record["scale_mean"]),
        *zip(means, record["mean"], strict=True),
        (spread00 - means[0] ** 2, record["variance"][0]),
        (spread22 - means[2] ** 2, record["variance"][2]),
    ]
    if case.widths:
        pairs.append((gram[0, 0] + kernel / case.widths[0], record["kernel"][0][0]))
    if noise > 0:
        pairs.append((spread01 - means[0] * means[1], record["covariance01"]))
    agreements = " ".join(f"{digits_of_agreement(value, mpf(stored)):.1f}" for value, stored in pairs)
    print(f"{case.name}: direct sum, {count} nodes, digits {agreements}", flush=True)


def main() -> None:
    """Print all checks."""
    records = json.loads((HERE / "references.json").read_text())
    for name in ("w50-zero-exact", "w8x2-zero-exact", "w30-40-50-zero-exact"):
        check_zero_targets(case_named(name), records[name])
    for case in CASES:
        if case.beta == EXACT and case.kind != "zero" and case.widths and case.examples < 100:
            check_by_line_integral(case, records[case.name])
    for name in ("no-hidden", "no-hidden-exact"):
        check_by_direct_sum(case_named(name), records[name], [0.0, 0.0, 1.0])
    check_by_direct_sum(case_named("w50"), records["w50"], [-2.5, 1.75, 0.07])
    check_by_direct_sum(case_named("w1-exact"), records["w1-exact"], [-2.5, 5.0, 0.08])
    check_by_direct_sum(case_named("w3-5"), records["w3-5"], [-50.0, 5.5, 0.11])
    check_by_direct_sum(
        case_named("w3-5-exact-large-targets"), records["w3-5-exact-large-targets"], [18.307, 18.504, 0.001]
    )
    check_densities()


if __name__ == "__main__":
    main()
