"""Which networks and which kinds of noise are tried, and in which order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lbnn.selection.data import EvidenceData
from lbnn.selection.no_signal import no_signal
from lbnn.selection.parameters import NoiseSpec
from lbnn.selection.width_search import MANY_OUTPUTS, WIDTHS, Trial, WidthSearch

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
        Equal widths from the list at this depth; None for depth two, and depth three near the best width.
    """

    fixed: tuple[tuple[int, ...], ...] | None = None
    depth: int | None = None


def search(
    data: EvidenceData,
    specs: Sequence[NoiseSpec],
    shapes: Shapes,
    *,
    seed: int = 0,
    evaluated: Callable[[], None] = lambda: None,
) -> list[Trial]:
    """Every candidate of every specification, best first.

    `evaluated` is called after each evidence of a finite network.
    """
    found: list[Trial] = []
    searches: list[WidthSearch] = []
    many = data.outputs > MANY_OUTPUTS
    for spec in sorted(specs, key=lambda each: (not each.coupled, each.per_output == many)):
        if shapes.fixed is None and not many and _settled_by_units(spec, found):
            continue
        searches.append(WidthSearch(data, spec, seed, _best(found), evaluated))
        if shapes.fixed is None:
            _search_widths(searches[-1], shapes.depth, found)
        for widths in shapes.fixed or ():
            if not widths:
                searches[-1].visit_infinite_width(_known_infinite_width(spec, found))
            elif not spec.coupled or min(widths) >= data.outputs:  # coupled noise needs such widths
                searches[-1].visit_from_all(widths)
        found += [each for each in searches[-1].candidates if each not in found]
    if shapes.fixed is None and shapes.depth is None:
        # depth three near the best widths, for the kinds of noise that are not far behind; with many outputs
        # behind a narrow layer only: a wide one takes seconds for each evaluation
        best = _best(found)
        for width_search in searches:
            widths = width_search.best.widths
            quick = not many or (bool(widths) and min(widths) < data.outputs)
            if quick and width_search.best.score > best - _MOST_FROM_DEPTH:
                width_search.visit_depth_three()
    leader = max(
        (each.score for width_search in searches for each in width_search.candidates),
        default=-math.inf,
    )
    for width_search in searches:
        width_search.confirm(leader)
    tried = dict.fromkeys(each for width_search in searches for each in width_search.candidates)
    if shapes.fixed is None:  # networks that are asked for by name are not replaced by none
        kinds = dict.fromkeys(replace(spec, coupled=False) for spec in specs)
        without = [each for kind in kinds if (each := no_signal(data, kind)) is not None]
        tried |= dict.fromkeys(without)
    return sorted(tried, key=lambda candidate: -candidate.score)


def _settled_by_units(spec: NoiseSpec, found: Sequence[Trial]) -> bool:
    """Whether independent noise with a unit for all is far behind units of their own at infinite width.

    Narrow networks do not make up for it; coupled noise, which learns a covariance, can.
    """
    process = {each.noise: each.score for each in found if not each.widths}
    if spec.coupled or spec.per_output or not {"independent", "per_output"} <= process.keys():
        return False
    return process["per_output"] > process["independent"] + _MOST_FROM_DEPTH


def _best(found: Sequence[Trial]) -> float:
    return max((each.score for each in found), default=-math.inf)


def _search_widths(width_search: WidthSearch, depth: int | None, found: Sequence[Trial]) -> None:
    """Infinite width and the widths of the list.

    Where coupled noise is clearly better than infinite width, independent noise is tried only with networks
    narrower than the outputs, which couple these.
    """
    infinite = width_search.visit_infinite_width(_known_infinite_width(width_search.spec, found))
    layers = (depth or 2) - 1
    if width_search.spec.coupled:
        width_search.visit_coupled_widths(layers)
    else:
        coupled_leads = any(each.score > infinite.score + _CLEAR_LEAD for each in found)
        finite = [each for each in found if each.widths and not each.coupled]
        known = max(finite, key=lambda each: each.score, default=None)
        widest = width_search.data.outputs if coupled_leads else WIDTHS[0]
        width_search.visit_widths(layers, widest, known)


def _known_infinite_width(spec: NoiseSpec, found: Sequence[Trial]) -> Trial | None:
    """The Gaussian process in the units of a specification, if it has been visited."""
    return next((each for each in found if not each.widths and each.noise == spec.units), None)
