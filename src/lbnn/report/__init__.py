"""The paper's results, recomputed: `python -m lbnn.report --out report`.

A claim is one equation or statement of the paper, checked against the library by a route that does not
call the function being checked. To add one, write a function in the file of its section:

    @claim(
        id="prior.gamma",
        equation="§III-A",
        statement="Depth two, one output: λ ~ Gamma(n_1/2, 2/n_1).",
        route="SciPy's Gamma density",
        tolerance=1e-12,
    )
    def gamma(run: Run) -> float:
        ...
        return discrepancy

A claim that holds only after a correction of the printed text says so in `correction`.
"""

from __future__ import annotations
