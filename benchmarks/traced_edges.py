"""Two-way edges of a traced fit: pairs of files, and of rooms, that call each other in both directions.

    python -m benchmarks.traced_edges

The estimator is fitted and asked for predictions under `sys.setprofile`; every call from one file of the
package into another is an edge.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import lbnn

PACKAGE = str(Path(lbnn.__file__).parent) + "/"


def traced_edges() -> set[tuple[str, str]]:
    """(file of the caller, file of the called), relative to the package, over a fit and a prediction."""
    edges: set[tuple[str, str]] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        caller = frame.f_back
        if event != "call" or caller is None:
            return
        ends = caller.f_code.co_filename, frame.f_code.co_filename
        if ends[0] != ends[1] and all(end.startswith(PACKAGE) for end in ends):
            edges.add((ends[0].removeprefix(PACKAGE), ends[1].removeprefix(PACKAGE)))

    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 6)), rng.standard_normal((20, 2))
    sys.setprofile(watch)
    try:
        lbnn.LBNNRegressor().fit(X, Y).predictive(X[:3]).interval(0.9)
        lbnn.Network((8,)).condition(X, Y, 4.0).predict(X[:3]).log_density(Y[:3])
    finally:
        sys.setprofile(None)
    return edges


def two_way(edges: set[tuple[str, str]]) -> int:
    """Number of pairs that are joined in both directions."""
    return sum((b, a) in edges for a, b in edges) // 2


def main() -> None:
    edges = traced_edges()
    rooms = {(a.split("/")[0], b.split("/")[0]) for a, b in edges if a.split("/")[0] != b.split("/")[0]}
    print(f"files: {len(edges)} edges, {two_way(edges)} pairs in both directions")
    print(f"top entries: {len(rooms)} edges, {two_way(rooms)} pairs in both directions")
    print(sorted(pair for pair in rooms if pair[::-1] in rooms and pair[0] < pair[1]))


if __name__ == "__main__":
    main()
