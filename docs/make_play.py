"""The numbers behind the page *Play*: densities of log λ over depth, width and size of the targets.

`python docs/make_play.py` writes docs/assets/play-data.js, which the page draws without a server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.explore import scale
from lbnn.explore.state import State

DEPTHS = (1, 2, 3, 4, 6, 10, 20)
WIDTHS = (1, 2, 3, 5, 10, 20, 50, 200, 1000)
SIZES = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
POINTS = 60  # of a curve
EXAMPLES, INPUTS, BETA = 40, 80, 20.0


def curve(found: scale.Curve) -> dict[str, Any]:
    """Ends of log10 λ, and the density of log λ between them in thousandths of its largest value."""
    x = np.log10(found.scale)
    even = np.linspace(x[0], x[-1], POINTS)
    y = np.interp(even, x, found.density)
    top = float(y.max())
    return {
        "from": round(float(x[0]), 3),
        "to": round(float(x[-1]), 3),
        "top": float(f"{top:.3g}"),
        "y": np.round(1000 * y / top).astype(int).tolist(),
    }


def main() -> None:
    """Compute all states and write the file."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for depth in DEPTHS:
        for width in WIDTHS:
            for size in SIZES:
                state = State(
                    depth=depth,
                    widths=(width,),
                    size=size,
                    examples=EXAMPLES,
                    inputs=INPUTS,
                    beta=BETA,
                    noise=BETA**-0.5,
                )
                (numbers,) = scale.numbers(state)
                assert isinstance(numbers, scale.DensityNumbers)
                own = [each for each in numbers.curves if each.depth == depth]
                entry: dict[str, Any] = {
                    "mean": float(f"{float(numbers.posterior.scale.mean):.4g}"),
                    "evidence": float(f"{numbers.posterior.log_evidence:.5g}"),
                }
                for each in own if depth > 1 else ():
                    if each.when == "before":
                        before[f"{depth},{width}"] = curve(each)
                    else:
                        entry["curve"] = curve(each)
                after[f"{depth},{width},{size:g}"] = entry
    about = {"depths": DEPTHS, "widths": WIDTHS, "sizes": SIZES, "before": before, "after": after}
    text = json.dumps(about, separators=(",", ":"))
    path = Path(__file__).parent / "assets" / "play-data.js"
    path.write_text(f"window.lbnnPlay = {text};\n", encoding="utf-8")
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
