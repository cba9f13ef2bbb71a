"""Density of x = log(lambda), lambda = prod_l chi2(n_l)/n_l, to any number of digits (python-flint balls).

With a_l = n_l/2 the cumulant function of x is
    K(s) = log E[lambda^s] = sum_l  lgamma(a_l + s) - lgamma(a_l) - s log(a_l),      s > -min a_l,
and the density is the Mellin inversion  pi(x) = 1/(2 pi) int exp(K(c + i t) - (c + i t) x) dt  for any c.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence

from flint import acb, acb_mat, arb, ctx

LOG_TEN = math.log(10.0)
LEAST_GAP = 0.1


def set_digits(digits: float) -> None:
    """Set the working precision to this many decimal digits."""
    ctx.prec = int(digits * LOG_TEN / math.log(2.0)) + 32


class LogScale:
    """The law of x = log(lambda) for given hidden widths (at least one)."""

    def __init__(self, widths: Sequence[int]) -> None:
        self.widths = tuple(widths)
        self.shapes = [(arb(width) / 2, count) for width, count in sorted(Counter(widths).items())]
        self.smallest = min(widths) / 2

    def cumulant(self, order: acb | arb) -> acb | arb:
        """Return K(order)."""
        terms = (
            count * ((shape + order).lgamma() - shape.lgamma() - order * shape.log())
            for shape, count in self.shapes
        )
        return sum(terms, order * 0)

    def slope(self, order: arb) -> arb:
        """Return K'(order): the x whose saddle point is ``order``."""
        terms = (count * ((shape + order).digamma() - shape.log()) for shape, count in self.shapes)
        return sum(terms, arb(0))

    def curvature(self, order: arb) -> arb:
        """Return K''(order); the trigamma function is the Hurwitz zeta function at 2."""
        return sum((count * arb(2).zeta(shape + order) for shape, count in self.shapes), arb(0))

    def saddle(self, x: float) -> arb:
        """Return the order c > -min a with K'(c) = x, to about ten digits (any c serves, this one best)."""
        low, high = -2.0, 2.0  # bracket of u = log(c + min a), in which K' grows
        while float(self.slope(self._order(low))) > x:
            low = 2 * low
        while float(self.slope(self._order(high))) < x:
            high = 2 * high
        while high - low > 1e-10 * max(1.0, abs(low)):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if float(self.slope(self._order(middle))) < x else (low, middle)
        return self._order(0.5 * (low + high))

    def _order(self, log_gap: float) -> arb:
        """Return the order c = exp(log_gap) - min a."""
        return (arb(log_gap).exp() - self.smallest).mid()

    def saddle_log_density(self, x: float, order: arb | None = None) -> float:
        """Return the saddle-point approximation K(c) - c x - log(2 pi K''(c))/2 of log pi(x)."""
        order = self.saddle(x) if order is None else order
        return float(self.cumulant(order) - order * arb(x) - (2 * arb.pi() * self.curvature(order)).log() / 2)

    def scan(self) -> list[tuple[float, float]]:
        """Return (x, saddle log density) at coarse points from the far left to the far right tail."""
        orders = [self._order(0.125 * step) for step in range(-80, 280)]
        places = [(float(self.slope(order)), order) for order in orders]
        return [(x, self.saddle_log_density(x, order)) for x, order in places]

    def support(self, order: float, x_peak: float, drop: float) -> tuple[float, float]:
        """Return where exp(order x) pi(x) has fallen by exp(-drop) on either side of its peak."""

        def height(x: float) -> float:
            return self.saddle_log_density(x) + order * x

        return tuple(falls_below(height, x_peak, height(x_peak) - drop, side) for side in (-1.0, 1.0))


def falls_below(height: Callable[[float], float], start: float, level: float, side: float) -> float:
    """Return a place on one side of ``start`` where the function ``height`` has just fallen below level."""
    inner, step = 0.0, 1e-4
    while height(start + side * step) > level:
        inner, step = step, 2 * step
    while step - inner > 0.02 * step:
        middle = 0.5 * (inner + step)
        inner, step = (middle, step) if height(start + side * middle) > level else (inner, middle)
    return start + side * step


class MellinLine:
    """pi(x) for all x in a range, by the trapezoid rule on one vertical line Re s = c.

    With step h the rule gives, for the tilted density f(x) = exp(c x) pi(x), exactly the periodic sum
    sum_m f(x + 2 pi m / h) (Poisson), so the period 2 pi / h must reach over the support of f.
    The line ends where |exp(K)| has fallen by 10^-digits.
    """

    def __init__(self, law: LogScale, order: arb, x_low: float, x_high: float, digits: float, wider: float):
        self.law, self.order = law, order
        peak = float(law.slope(order))
        left, right = law.support(float(order), peak, digits * LOG_TEN)
        period = wider * 1.1 * max(right - min(left, x_low), max(right, x_high) - left)
        self.step = 2 * arb.pi() / arb(period)
        self.log_norm = law.cumulant(order)
        coefficients = [acb(0.5)]
        while abs(coefficients[-1]).log() > -(digits * LOG_TEN):
            shifted = law.cumulant(acb(order, len(coefficients) * self.step))
            coefficients.append((shifted - self.log_norm).exp())
        self.nodes = len(coefficients)
        self.block = math.isqrt(self.nodes) + 1
        coefficients += [acb(0)] * (self.block**2 - self.nodes)
        self.coefficients = acb_mat(self.block, self.block, coefficients)

    def densities(self, places: Sequence[arb]) -> list[arb]:
        """Return pi(x) = h/(2 pi) exp(K(c) - c x) (1 + 2 Re sum_{j>0} exp(K(c+ijh) - K(c) - i j h x)).

        The sum over j = block * row + column is a matrix of coefficients between two vectors of powers of
        exp(-i h x); Horner's rule on balls would lose digits in proportion to the number of nodes.
        """
        rotations = [acb(0, -self.step * x).exp() for x in places]
        leaps = [acb(0, -self.block * self.step * x).exp() for x in places]
        columns = [powers(rotation, self.block) for rotation in rotations]
        rows = self.coefficients * acb_mat(columns).transpose()
        values = []
        for number, (x, leap) in enumerate(zip(places, leaps, strict=True)):
            row_factors = powers(leap, self.block)
            total = sum((rows[row, number] * row_factors[row] for row in range(self.block)), acb(0))
            factor = (self.log_norm - self.order * x).exp() * self.step / (2 * arb.pi())
            values.append(factor * 2 * total.real)
        return values


def powers(base: acb, count: int) -> list[acb]:
    """Return base^0 ... base^(count - 1) by halving, so that the balls hardly grow."""
    result = [acb(1), base]
    while len(result) < count:
        half = len(result) // 2
        result.append(result[half] * result[len(result) - half])
    return result[:count]


def gamma_log_density(law: LogScale, x: arb) -> arb:
    """Return log pi(x) for one hidden layer: a log a - lgamma(a) + a x - a exp(x)."""
    shape = law.shapes[0][0]
    return shape * shape.log() - shape.lgamma() + shape * x - shape * x.exp()


def bessel_log_density(law: LogScale, x: arb) -> arb:
    """Return log pi(x) for two hidden layers.

    pi(x) = 2 (a b lambda)^((a+b)/2) K_{a-b}(2 sqrt(a b lambda)) / (Gamma(a) Gamma(b)).
    """
    one, two = (arb(width) / 2 for width in law.widths)
    inside = one * two * x.exp()
    bessel = (2 * inside.sqrt()).bessel_k(one - two)
    return arb(2).log() + (one + two) / 2 * inside.log() + bessel.log() - one.lgamma() - two.lgamma()


def mellin_log_density(law: LogScale, x: arb, digits: float, wider: float = 1.0) -> arb:
    """Return log pi(x) by the vertical line through the saddle point of this x.

    In the far left tail the saddle point comes so close to the first pole at -min a that the line would need
    very many nodes; there the line stays at a distance, with as many more digits as the sum then cancels.
    """
    order = law.saddle(float(x))
    if order + law.smallest < LEAST_GAP:
        order = (arb(LEAST_GAP) - law.smallest).mid()
    peak = float(law.slope(order))
    fall = law.saddle_log_density(peak) - law.saddle_log_density(float(x))
    cancelled = max(fall + float(order) * (peak - float(x)), 0.0)
    digits += cancelled / LOG_TEN
    precision = ctx.prec
    ctx.prec += int(2 * cancelled)
    line = MellinLine(law, order, float(x), float(x), digits, wider)
    value = line.densities([x])[0].log()
    ctx.prec = precision
    return +value
