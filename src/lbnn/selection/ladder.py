"""Which networks and which kinds of noise are tried, and in which order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lbnn.selection.data import EvidenceData
from lbnn.selection.no_signal import no_signal
from lbnn.selection.parameters import Choice
from lbnn.selection.walk import LADDER, Candidate, Report, Walk

_CLEAR_LEAD = 3.0  # nats
_MOST_FROM_DEPTH = 10.0  # nats, more than a third layer is expected to bring


@dataclass(frozen=True)
class Shapes:
    """Which networks are candidates.

    Attributes
    ----------
    fixed : tuple of tuple of int, optional
        These widths only.
    depth : int, optional
        Equal widths from the ladder at this depth; None for depth two, and depth three near the best width.
    """

    fixed: tuple[tuple[int, ...], ...] | None = None
    depth: int | None = None


def search(
    data: EvidenceData,
    choices: Sequence[Choice],
    shapes: Shapes,
    *,
    seed: int = 0,
    report: Report = lambda _: None,
) -> list[Candidate]:
    """Every candidate of every choice, best first."""
    found: list[Candidate] = []
    walks: list[Walk] = []
    for choice in sorted(choices, key=lambda each: (not each.coupled, not each.per_output)):
        if shapes.fixed is None and _settled_by_units(choice, found):
            continue
        walks.append(Walk(data, choice, seed, report, _best(found)))
        if shapes.fixed is None:
            _walk(walks[-1], shapes.depth, found)
        else:
            _visit(walks[-1], shapes.fixed, found)
        found += [each for each in walks[-1].candidates if each not in found]
    if shapes.fixed is None and shapes.depth is None:
        _go_deeper(walks, _best(found))
    leader = max((each.supported for walk in walks for each in walk.candidates), default=-math.inf)
    for walk in walks:
        walk.confirm(leader)
    tried = dict.fromkeys(each for walk in walks for each in walk.candidates)
    if shapes.fixed is None:  # networks that are asked for by name are not replaced by none
        kinds = dict.fromkeys(replace(choice, coupled=False) for choice in choices)
        without = [each for kind in kinds if (each := no_signal(data, kind)) is not None]
        for each in without:
            report(each)
        tried |= dict.fromkeys(without)
    return sorted(tried, key=lambda candidate: -candidate.supported)


def _settled_by_units(choice: Choice, found: Sequence[Candidate]) -> bool:
    """Whether independent noise with a unit for all is far behind units of their own at infinite width.

    Narrow networks do not make up for it; coupled noise, which learns a covariance, can.
    """
    process = {each.noise: each.supported for each in found if not each.widths}
    if choice.coupled or choice.per_output or not {"isotropic", "per_output"} <= process.keys():
        return False
    return process["per_output"] > process["isotropic"] + _MOST_FROM_DEPTH


def _best(found: Sequence[Candidate]) -> float:
    return max((each.supported for each in found), default=-math.inf)


def _go_deeper(walks: Sequence[Walk], best: float) -> None:
    """Depth three near the best widths, for the kinds of noise that are not far behind."""
    for walk in walks:
        if walk.best.supported > best - _MOST_FROM_DEPTH:
            walk.visit_depth_three()


def _visit(walk: Walk, fixed: Sequence[tuple[int, ...]], found: Sequence[Candidate]) -> None:
    """The given widths; coupled noise is for networks as wide as the outputs, and infinite width is one."""
    for widths in fixed:
        if not widths:
            walk.visit_infinite_width(_known_infinite_width(walk.choice, found))
        elif not walk.choice.coupled or min(widths) >= walk.data.outputs:
            walk.visit_from_all(widths)


def _walk(walk: Walk, depth: int | None, found: Sequence[Candidate]) -> None:
    """Infinite width and the widths of the ladder.

    Where coupled noise is clearly better than infinite width, independent noise is left the networks that
    couple outputs by being narrower than them.
    """
    infinite = walk.visit_infinite_width(_known_infinite_width(walk.choice, found))
    layers = (depth or 2) - 1
    if walk.choice.coupled:
        walk.visit_coupled_widths(layers)
    else:
        coupled_leads = any(each.supported > infinite.supported + _CLEAR_LEAD for each in found)
        walk.visit_ladder(layers, walk.data.outputs if coupled_leads else LADDER[0])


def _known_infinite_width(choice: Choice, found: Sequence[Candidate]) -> Candidate | None:
    """The Gaussian process in the units of a choice, if it has been visited."""
    return next((each for each in found if not each.widths and each.noise == choice.units), None)
