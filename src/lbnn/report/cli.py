"""The command line of the report."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from lbnn.report import registry
from lbnn.report.page import render
from lbnn.report.registry import Claim, Outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the claims, write claims.json and index.html; 1 if a claim fails."""
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
    outcomes = _judge_all(claims, options.seed, options.quick)
    _print_table(outcomes)
    _write(outcomes, options.out)
    return int(any(outcome.verdict == "fails" for outcome in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lbnn.report", description="Recompute the paper's results."
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report"), help="folder to write to (default: report)"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="CLAIM", help="claims or sections to check")
    parser.add_argument("--quick", action="store_true", help="a tenth of the Monte Carlo draws")
    parser.add_argument("--seed", type=int, default=0, help="seed of data and draws (default: 0)")
    parser.add_argument("--list", action="store_true", help="list the claims and stop")
    return parser


def _judge_all(claims: Sequence[Claim], seed: int, quick: bool) -> list[Outcome]:
    outcomes = []
    for number, claim in enumerate(claims, 1):
        outcome = registry.judge(claim, seed, quick)
        outcomes.append(outcome)
        print(f"[{number}/{len(claims)}] {claim.id}: {outcome.verdict} ({outcome.seconds:.1f} s)", flush=True)
        if outcome.error:
            print(f"    {outcome.error}")
    return outcomes


def _print_table(outcomes: Sequence[Outcome]) -> None:
    width = max(len(outcome.claim.id) for outcome in outcomes)
    place = max(len(outcome.claim.equation) for outcome in outcomes)
    print(f"\n{'claim':{width}}  {'equation':{place}}  discrepancy  tolerance  verdict")
    for outcome in outcomes:
        claim = outcome.claim
        numbers = f"{outcome.discrepancy:11.1e}  {claim.tolerance:9.1e}"
        print(f"{claim.id:{width}}  {claim.equation:{place}}  {numbers}  {outcome.verdict}")
    print(f"\n{summary(outcomes)}")


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many claims hold, hold corrected, and fail."""
    verdicts = [outcome.verdict for outcome in outcomes]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in ("holds", "corrected", "fails"))
    return f"{len(verdicts)} claims: {counts}."


def _write(outcomes: Sequence[Outcome], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    records = [outcome.as_json() for outcome in outcomes]
    text = json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "claims.json").write_text(text + "\n", encoding="utf-8")
    (folder / "index.html").write_text(render(outcomes, summary(outcomes)), encoding="utf-8")
    print(f"Written: {folder / 'index.html'}, {folder / 'claims.json'}")
