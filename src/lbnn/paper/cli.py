"""The command line of the report: `python -m lbnn.paper`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from lbnn.paper import registry
from lbnn.paper.registry import Outcome
from lbnn.paper.runner import failed, run, summary


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the claims and write the report; 1 if a claim fails."""
    registry.load()
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        claims = registry.select(options.only)
    except ValueError as problem:
        parser.error(str(problem))
    if options.list:
        print("\n".join(f"{claim.id:40} {claim.equation}" for claim in claims))
        return 0
    try:
        return reproduce(options.out, options.only, options.quick, options.seed)
    except (ImportError, ValueError) as problem:
        parser.error(str(problem))


def reproduce(out: Path, only: Sequence[str] = (), quick: bool = False, seed: int = 0) -> int:
    """Run the report, with a line for each claim and a table on the standard output; the exit code."""
    outcomes = run(out, only, quick, seed, _progress)
    print_table(outcomes)
    print(f"Written: {out / 'index.html'}, {out / 'claims.json'}, {out / 'figures'}")
    return int(failed(outcomes))


def _progress(done: int, total: int, outcome: Outcome) -> None:
    print(f"[{done}/{total}] {outcome.claim.id}: {outcome.verdict} ({outcome.seconds:.1f} s)", flush=True)
    if outcome.error:
        print(f"    {outcome.error}", flush=True)


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Claims, discrepancies and verdicts as plain text."""
    width = max(len(outcome.claim.id) for outcome in outcomes)
    place = max(len(outcome.claim.equation) for outcome in outcomes)
    print(f"\n{'claim':{width}}  {'equation':{place}}  discrepancy  tolerance  verdict")
    for outcome in outcomes:
        claim = outcome.claim
        numbers = f"{outcome.discrepancy:11.1e}  {claim.tolerance:9.1e}"
        print(f"{claim.id:{width}}  {claim.equation:{place}}  {numbers}  {outcome.verdict}")
    print(f"\n{summary(outcomes)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lbnn.paper", description="Recompute the paper's results."
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report"), help="folder to write to (default: report)"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="CLAIM", help="claims or sections to check")
    parser.add_argument("--quick", action="store_true", help="a tenth of the Monte Carlo draws")
    parser.add_argument("--seed", type=int, default=0, help="seed of data and draws (default: 0)")
    parser.add_argument("--list", action="store_true", help="list the claims and stop")
    return parser
