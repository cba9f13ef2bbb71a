"""Reference values of the log density of lambda (with respect to d lambda), from tail to tail."""

import json
import math
from pathlib import Path

from flint import arb

from studies.references.scale_density import (
    LogScale,
    bessel_log_density,
    falls_below,
    gamma_log_density,
    mellin_log_density,
    set_digits,
)

WIDTH_TUPLES: tuple[tuple[int, ...], ...] = (
    (1,),
    (4,),
    (1000000,),
    (1, 1),
    (3, 5),
    (10, 1000000),
    (50, 50),
    (1, 2, 3),
    (7, 7, 1000),
    (2,) * 6,
    (50,) * 10,
    (1,) * 49,
    (100,) * 49,
)
# log pi(x) falls below its peak by about these amounts, on either side
DROPS = (0.01, 0.5, 2.0, 8.0, 30.0, 100.0, 300.0, 720.0, 1500.0, 20000.0)
LARGEST_LOG = 700.0  # lambda itself must be a double
DIGITS = 50.0


def points(law: LogScale) -> list[float]:
    """Return lambdas (doubles), from the far left to the far right tail.

    They are rounded to few digits where the density is wide enough for that.
    """
    peak = float(law.slope(arb(0)))

    def height(x: float) -> float:
        return law.saddle_log_density(x)

    places = {peak}
    for drop in DROPS:
        for side in (-1.0, 1.0):
            places.add(falls_below(height, peak, height(peak) - drop, side))
    places |= {-600.0, -100.0} if min(law.widths) < 20 else set()
    kept = sorted(place for place in places if abs(place) < LARGEST_LOG)
    return [float(f"{math.exp(place):.6g}") for place in kept]


def log_density(law: LogScale, scale: float) -> tuple[arb, str, float]:
    """Return the log density of lambda at one double, its route, and the gap to a second route.

    The second route is the Mellin line with a wider period and more digits, or for a closed form the Mellin
    line. The density of lambda is pi(x) / lambda.
    """
    set_digits(DIGITS + 400)
    x = arb(scale).log()
    set_digits(DIGITS + 40)
    value = mellin_log_density(law, x, DIGITS)
    route = "mellin"
    if len(law.widths) == 1:
        other, route = gamma_log_density(law, x), "gamma"
    elif len(law.widths) == 2 and max(law.widths) < 1000:
        set_digits(1500)
        other, route = bessel_log_density(law, arb(scale).log()), "bessel_k"
        set_digits(DIGITS + 40)
    else:
        other = mellin_log_density(law, x, DIGITS + 20, wider=1.5)
    return other - x, route, float(abs(other - value).upper())


def make_densities(path: Path) -> None:
    """Write density.json: for each tuple of widths the list of (lambda, log density) and the route."""
    records = []
    for widths in WIDTH_TUPLES:
        set_digits(40)
        law = LogScale(widths)
        scales = points(law)
        values = [log_density(law, scale) for scale in scales]
        worst = max(gap for _, _, gap in values)
        routes = {route for _, route, _ in values}
        assert len(routes) == 1, (widths, routes)
        assert worst < 1e-35, (widths, worst)
        assert all(math.isfinite(float(value)) for value, _, _ in values), widths
        record = {"widths": list(widths), "route": routes.pop(), "largest_gap_to_second_route": worst}
        record["scale"] = [repr(scale) for scale in scales]
        record["log_density"] = [value.mid().str(35, radius=False) for value, _, _ in values]
        records.append(record)
        numbers = [float(value) for value, _, _ in values]
        print(f"{widths}: {record['route']}, {len(scales)} points", end=", ")
        print(f"log density {numbers[0]:.6g} ... {numbers[-1]:.6g}, gap {worst:.1e}", flush=True)
    path.write_text(json.dumps(records, indent=1) + "\n")
