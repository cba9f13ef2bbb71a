r"""The paper's results, recomputed: `python -m lbnn.paper --out report`.

A claim is one equation or statement of the paper, checked against the library by a route that does not call
the function being checked. `claims` holds them, one file for each section; `routes` the independent ways
(dense algebra, integrals over the cone); `page` the page; `runner` runs them.
`registry` lists them and `compare` gives tolerances, `cli` is the command, `figures` the pictures,
`environment` what a reader needs to repeat a run.
Imports every other folder. To add a claim, write a function in the file of its section (a new section is a
file and a line in `registry.SECTIONS`):

    @claim(
        id="prior.gamma",
        equation="§III-A",
        latex=r"\lambda \sim \operatorname{Gamma}(n_1/2, 2/n_1)",
        statement="Depth two, one output: λ ~ Gamma(n_1/2, 2/n_1).",
        route="SciPy's Gamma density",
        **rounding(1e-12),
    )
    def gamma(run: Run) -> float:
        ...
        return discrepancy

`**rounding(...)`, `**quadrature(...)` and `**standard_errors(...)` of `compare` give `tolerance` and
`tolerance_reason`; both can be written out instead. A claim that holds only after a correction of the printed
text says so in `correction`. `figure` takes a function of the same `Run` that returns a `Picture`;
`run.record` carries what the check measured to the figure and into claims.json.
"""

from __future__ import annotations

from lbnn.paper.cli import main, print_table, reproduce
from lbnn.paper.registry import Claim, Outcome, Picture, Run
from lbnn.paper.runner import failed, run, summary

__all__ = [
    "Claim",
    "Outcome",
    "Picture",
    "Run",
    "failed",
    "main",
    "print_table",
    "reproduce",
    "run",
    "summary",
]
