"""Make the high-precision reference values of the tests (needs numpy, mpmath, gmpy2, python-flint).

    python -m studies.references.make_references [--only NAME] [--digits 40]     -> references.json
    python -m studies.references.make_references --densities                     -> density.json

Given lambda, train and test values of the function are jointly N(0, lambda G_all), and y = F + N(0, tau I).
Every reference value is a ratio of integrals over x = log(lambda),
    int pi(x) N(y; 0, exp(x) G + tau I) h(x) dx,
taken by the trapezoid rule, which converges exponentially on smooth functions that vanish at both ends.
Each case is computed at growing effort (half the step in x, a longer and finer Mellin line, more digits)
until two efforts in a row agree. Arithmetic: balls of python-flint; the diagonalisation of G: mpmath.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import mpmath
from flint import arb, arb_mat

from studies.references.density_points import make_densities
from studies.references.scale_density import (
    LOG_TEN,
    LogScale,
    MellinLine,
    falls_below,
    gamma_log_density,
    set_digits,
)
from tests.reference.cases import CASES, EXACT, Case

HERE = Path(__file__).resolve().parents[2] / "tests" / "reference"
EIGEN_DIGITS = 110
TEST_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1))
CHUNK = 64
Values = dict[str, list[arb]]


def exact_ball(value: mpmath.mpf | float) -> arb:
    """Return the mpmath number as a ball without radius."""
    return arb(mpmath.nstr(mpmath.mpf(value), EIGEN_DIGITS + 10)).mid()


def scaled_products(left, right, inputs: int) -> mpmath.matrix:
    """Return left right^T / inputs from the exact values of the doubles."""
    rows, columns = mpmath.matrix(left.tolist()), mpmath.matrix(right.tolist())
    return rows * columns.T / inputs


class Likelihood:
    """Everything that depends on the data, in the basis G = U diag(mu) U^T in which G is diagonal."""

    def __init__(self, case: Case) -> None:
        mpmath.mp.dps = EIGEN_DIGITS
        set_digits(EIGEN_DIGITS + 10)
        train, targets, test = case.data()
        gram = scaled_products(train, train, case.inputs)
        eigenvalues, basis = mpmath.mp.eigsy(gram)
        residual = mpmath.mnorm(basis * mpmath.diag(list(eigenvalues)) * basis.T - gram, "F")
        assert residual < mpmath.mpf(10) ** (15 - EIGEN_DIGITS) * max(eigenvalues), residual
        # The rank is known, so the eigenvalues that only rounding keeps from zero are set to zero.
        floor = max(eigenvalues) * mpmath.mpf(10) ** (-EIGEN_DIGITS // 2)
        null = [value < floor for value in eigenvalues]
        self.smallest, self.largest = min(v for v in eigenvalues if v >= floor), max(eigenvalues)
        self.rank, self.exact = null.count(False), case.beta == EXACT
        self.eigenvalues = [arb(0) if v < floor else exact_ball(v) for v in eigenvalues]
        self.noise = arb(0) if self.exact else 1 / exact_ball(case.beta)
        self.targets_vanish = not targets.any()
        rotated_targets = basis.T * mpmath.matrix(targets.tolist())
        rotated_tests = basis.T * scaled_products(train, test, case.inputs)
        y = [exact_ball(value) for value in rotated_targets]
        tests = [  # U^T Ghat_x^T; it has no part in the null space of G
            [arb(0) if null[i] else exact_ball(rotated_tests[i, j]) for i in range(len(y))] for j in range(3)
        ]
        test_gram = scaled_products(test, test, case.inputs)
        self.test_gram = {pair: exact_ball(test_gram[pair]) for pair in TEST_PAIRS}
        self.block = min(2, case.examples)
        self.block_pairs = [(r, s) for r in range(self.block) for s in range(r, self.block)]
        self.gram_block = {pair: exact_ball(gram[pair]) for pair in self.block_pairs}
        spectrum = list(enumerate(self.eigenvalues))
        rows = [[exact_ball(basis[r, i]) * mu for i, mu in spectrum] for r in range(self.block)]  # U diag(mu)
        columns = [[v * v for v in y]]
        columns += [[g * v for g, v in zip(test_row, y, strict=True)] for test_row in tests]
        columns += [[g * h for g, h in zip(tests[i], tests[j], strict=True)] for i, j in TEST_PAIRS]
        columns += [[g * v for g, v in zip(row, y, strict=True)] for row in rows]
        columns += [[g * h for g, h in zip(rows[r], rows[s], strict=True)] for r, s in self.block_pairs]
        self.columns = arb_mat(columns)

    def at(self, scale: arb) -> tuple[arb, list[arb], list[arb], list[arb]]:
        """Return at one lambda: log N(y; 0, lambda G + tau I), means, covariances, kernel corrections.

        With M = (lambda G + tau I)^-1 these are lambda Ghat M y, lambda ghat - lambda^2 Ghat M Ghat^T for
        the TEST_PAIRS, and lambda G M y y^T M G - lambda G M G for the top left block.
        """
        variances = [scale * mu + self.noise for mu in self.eigenvalues]
        inverse = arb_mat([[1 / variance] for variance in variances])
        sums = [entry for (entry,) in (self.columns * inverse).tolist()]
        determinant = math.prod(variances, start=arb(1))
        log_density = -(sums[0] + len(variances) * (2 * arb.pi()).log() + determinant.log()) / 2
        means = [scale * value for value in sums[1:4]]
        covariances = [
            scale * self.test_gram[pair] - scale**2 * value
            for pair, value in zip(TEST_PAIRS, sums[4:8], strict=True)
        ]
        fits, shrinks = sums[8 : 8 + self.block], sums[8 + self.block :]
        kernel = [
            scale * (fits[r] * fits[s] - shrink)
            for (r, s), shrink in zip(self.block_pairs, shrinks, strict=True)
        ]
        return log_density, means, covariances, kernel


def inverse_mean_exists(case: Case, likelihood: Likelihood) -> bool:
    """Return whether E[1/lambda] is finite."""
    if likelihood.exact and not likelihood.targets_vanish:
        return True
    return not case.widths or min(case.widths) > 2 + (case.examples if likelihood.exact else 0)


class Posterior:
    """Where the posterior of x = log(lambda) lies: mode, smallest width, ends; all only to a few digits."""

    def __init__(self, law: LogScale, likelihood: Likelihood, orders: list[int]) -> None:
        self.law, self.likelihood = law, likelihood
        set_digits(40)
        self.mode, self.width, self.low, self.high = 0.0, math.inf, math.inf, -math.inf
        scan = law.scan()
        for order in orders:  # the integrand with lambda^order
            self._include(order, [(x, density + self._log_likelihood(x, order)) for x, density in scan])

    def _log_likelihood(self, x: float, order: int) -> float:
        return float(self.likelihood.at(arb(x).exp())[0]) + order * x

    def _include(self, order: int, scan: list[tuple[float, float]]) -> None:
        def height(x: float) -> float:
            return self.law.saddle_log_density(x) + self._log_likelihood(x, order)

        best = max(range(len(scan)), key=lambda index: scan[index][1])
        mode = highest(height, scan[max(best - 1, 0)][0], scan[min(best + 1, len(scan) - 1)][0])
        level = height(mode) - 60 * LOG_TEN
        above = [x for x, value in scan if value > level]
        self.low = min([self.low, falls_below(height, mode, level, -1.0), *above])
        self.high = max([self.high, falls_below(height, mode, level, 1.0), *above])
        for side in (-1.0, 1.0):
            self.width = min(self.width, abs(falls_below(height, mode, height(mode) - 0.5, side) - mode))
        if order == 0:
            self.mode = mode


def highest(height: Callable[[float], float], low: float, high: float) -> float:
    """Return the place of the maximum between low and high, by ternary search."""
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if height(left) < height(right) else (low, right)
    return 0.5 * (low + high)


def prior_densities(posterior: Posterior, places: list[arb], effort: int) -> list[arb]:
    """Return pi(x) at all places: closed form for one hidden layer, one Mellin line otherwise."""
    law = posterior.law
    set_digits(100 + 15 * effort)
    if len(law.widths) == 1:
        return [gamma_log_density(law, x).exp() for x in places]
    order = law.saddle(posterior.mode)

    def tilted(x: float) -> float:
        return law.saddle_log_density(x) + float(order) * x

    drop = tilted(posterior.mode) - min(tilted(posterior.low), tilted(posterior.high))
    digits = 62 + 15 * effort + drop / LOG_TEN  # the tilted density must be right even at the ends
    set_digits(digits + 40)
    line = MellinLine(law, order, posterior.low, posterior.high, digits, 1 + 0.25 * effort)
    densities = []
    for start in range(0, len(places), CHUNK):
        densities += line.densities(places[start : start + CHUNK])
    print(f"    Mellin line: c={float(order):.6g}, {line.nodes} nodes, {digits:.0f} digits")
    return densities


def weighted_places(posterior: Posterior, effort: int) -> list[tuple[arb, arb]]:
    """Return (lambda, step pi(x)) at the nodes of the trapezoid rule in x."""
    step = min(0.5 * posterior.width, 0.12) / 2**effort
    count = math.ceil((posterior.high - posterior.low) / step)
    places = [arb(posterior.low) + number * arb(step) for number in range(count + 1)]
    densities = prior_densities(posterior, places, effort)
    print(f"    x in [{posterior.low:.5g}, {posterior.high:.5g}], mode {posterior.mode:.6g}, {count} steps")
    return [(x.exp(), arb(step) * density) for x, density in zip(places, densities, strict=True)]


def integrate(case: Case, likelihood: Likelihood, nodes: list[tuple[arb, arb]], center: arb) -> Values:
    """Return all reference values from the nodes (lambda, prior weight); the means are summed from center."""
    center_means = likelihood.at(center)[1]
    sums = [arb(0)] * (3 + 3 + len(TEST_PAIRS) + len(likelihood.block_pairs))
    for scale, prior in nodes:
        log_density, means, covariances, kernel = likelihood.at(scale)
        shifts = [mean - middle for mean, middle in zip(means, center_means, strict=True)]
        seconds = [cov + shifts[i] * shifts[j] for cov, (i, j) in zip(covariances, TEST_PAIRS, strict=True)]
        weight = prior * log_density.exp()
        terms = [arb(1), scale, 1 / scale, *shifts, *seconds, *kernel]
        sums = [total + weight * term for total, term in zip(sums, terms, strict=True)]
    expectations = [total / sums[0] for total in sums[1:]]
    scale_mean, inverse_mean = expectations[:2]
    shifts, seconds, kernel = expectations[2:5], expectations[5:9], expectations[9:]
    # Var = E[cov given lambda + (m - m0)(m - m0)] - E[m - m0] E[m - m0]
    covariances = [second - shifts[i] * shifts[j] for second, (i, j) in zip(seconds, TEST_PAIRS, strict=True)]
    if likelihood.exact:  # test point 1 is a training input, and the fit is exact
        assert abs(covariances[1]).mid() < 1e-40 * scale_mean.mid(), covariances[1]
        covariances[1] = arb(0)
    values = {
        "log_evidence": [sums[0].log()],
        "scale_mean": [scale_mean],
        "inverse_scale_mean": [inverse_mean] if inverse_mean_exists(case, likelihood) else [],
        "mean": [shift + middle for shift, middle in zip(shifts, center_means, strict=True)],
        "variance": covariances[:3],
        "covariance01": covariances[3:] if not likelihood.exact else [arb(0)],
        "kernel": [],
    }
    if case.widths:  # <K> = G + (1/n_1) E[...]
        block = dict(zip(likelihood.block_pairs, kernel, strict=True))
        entries = {pair: likelihood.gram_block[pair] + block[pair] / case.widths[0] for pair in block}
        size = range(likelihood.block)
        values["kernel"] = [entries[min(r, s), max(r, s)] for r in size for s in size]
    return values


def agreement(one: Values, other: Values) -> float:
    """Return the smallest number of digits in which two sets of values agree (the balls' radii included)."""
    worst = 100.0
    for name, values in one.items():
        for left, right in zip(values, other[name], strict=True):
            size, gap = float(abs(right.mid())), float(abs(left - right).upper())
            if gap > 0 and size > 0:
                worst = min(worst, math.log10(size / gap))
            elif gap > 0:  # a value of exactly zero
                worst = min(worst, -math.log10(gap))
    return worst


def reference_values(case: Case, digits: float) -> tuple[Values, float, Likelihood]:
    """Return the values of one case, the digits in which the last two efforts agree, and the data."""
    likelihood = Likelihood(case)
    if not case.widths:
        set_digits(100)
        return integrate(case, likelihood, [(arb(1), arb(1))], arb(1)), 100.0, likelihood
    orders = [0, 1, 2] + ([-1] if inverse_mean_exists(case, likelihood) else [])
    posterior = Posterior(LogScale(case.widths), likelihood, orders)
    previous, agreed = None, 0.0
    for effort in range(6):
        nodes = weighted_places(posterior, effort)
        values = integrate(case, likelihood, nodes, arb(posterior.mode).exp())
        if previous is not None:
            agreed = agreement(previous, values)
            print(f"    effort {effort}: {agreed:.1f} digits agree", flush=True)
        if agreed >= digits:
            break
        previous = values
    return values, agreed, likelihood


def as_record(case: Case, values: Values, agreed: float) -> dict:
    """Return the JSON record: decimal strings, null where a value does not exist."""
    text = {name: [v.mid().str(35, radius=False) for v in entries] for name, entries in values.items()}
    record: dict = {"data_sha256": case.fingerprint()}
    for name in ("log_evidence", "scale_mean", "inverse_scale_mean", "covariance01"):
        record[name] = text[name][0] if text[name] else None
    record["mean"], record["variance"] = text["mean"], text["variance"]
    size = math.isqrt(len(text["kernel"]))
    record["kernel"] = [text["kernel"][r * size : (r + 1) * size] for r in range(size)] or None
    record["agreement_digits"] = round(agreed, 1)
    return record


def merge(path: Path, name: str, record: dict) -> None:
    """Write one record into the JSON file, keeping the others, in the order of CASES."""
    records = json.loads(path.read_text()) if path.exists() else {}
    records[name] = record
    ordered = {case.name: records[case.name] for case in CASES if case.name in records}
    path.write_text(json.dumps(ordered, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="name of a case (may be given more than once)")
    parser.add_argument("--digits", type=float, default=30.0, help="digits in which two efforts must agree")
    parser.add_argument("--densities", action="store_true", help="make density.json instead")
    arguments = parser.parse_args()
    if arguments.densities:
        make_densities(HERE / "density.json")
        return
    for case in CASES:
        if arguments.only and case.name not in arguments.only:
            continue
        print(case, flush=True)
        start = time.perf_counter()
        values, agreed, likelihood = reference_values(case, arguments.digits)
        merge(HERE / "references.json", case.name, as_record(case, values, agreed))
        evidence, seconds = float(values["log_evidence"][0]), time.perf_counter() - start
        print(f"    rank {likelihood.rank}, condition {float(likelihood.largest / likelihood.smallest):.3g}")
        print(f"    log evidence {evidence:.10g}, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
