"""One browser: its requests, its figures, its answers. The newest request wins."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

from lbnn._base.warn import collected
from lbnn.explore.code import code
from lbnn.explore.numbers import phase
from lbnn.explore.numbers.answer import Numbers, as_csv
from lbnn.explore.numbers.views import NUMBERS, ROUGH
from lbnn.explore.problem import outputs
from lbnn.explore.state import State, as_text
from lbnn.explore.table import Table
from lbnn.explore.wire import LARGEST_FILE, Request, Wire, read_request
from lbnn.explore.workers import StoppedError, Workers

#: Reads a picked file: (name, text, targets) -> Table, or ValueError.
Reader = Callable[[str, str, str], Table]

_PATIENCE = 0.3  # seconds after which a newer request does not wait for the one before
_MOST_WORKERS = 2  # of one session
_SOON = 0.4  # seconds after which a rough picture is shown where there is none yet

log = logging.getLogger("lbnn.explore")


class Session:
    """Answers one page.

    Parameters
    ----------
    wire : Wire
    views : dict
        The views by name; each has `draw(numbers)`.
    later : callable
        Runs a function in the thread of the page, soon: `document.add_next_tick_callback`.
    pool : ThreadPoolExecutor
        Where numbers are computed.
    table : Table or None
        The file named at the start.
    reader : callable or None
        Reads files that are picked on the page; None where none may be.
    repaint : callable
        Gives the figures the ink of a scheme.
    workers : Workers
        Processes for answers that may take long.
    """

    def __init__(
        self,
        wire: Wire,
        views: dict[str, Any],
        later: Callable[[Callable[[], None]], Any],
        pool: ThreadPoolExecutor,
        table: Table | None,
        reader: Reader | None,
        repaint: Callable[[str], None],
        workers: Workers,
    ) -> None:
        self.workers = workers
        self._cancelled = 0  # number of the newest request when the user had enough
        self.wire, self.views, self.later, self.pool = wire, views, later, pool
        self.table, self.reader, self.repaint = table, reader, repaint
        self.closed = False
        self.shown: dict[str, tuple[State, Numbers]] = {}  # what each view shows
        self._newest = 0  # number of the newest request for a state
        self._drawn = 0  # number of the request whose answer is on the page
        self._waiting: tuple[int, State] | None = None
        self._started: list[float] = []  # of the workers that run

    # ------------------------------------------------------------------ requests, in the page's thread

    def receive(self, text: str) -> None:
        """Take a message of the page."""
        try:
            request = read_request(text)
            getattr(self, f"_take_{request.kind}")(request)
        except ValueError as problem:
            self._complain(_number_of(text), str(problem))

    def _take_state(self, request: Request) -> None:
        state = State.from_address(request.content)
        self._newest = max(self._newest, request.number)
        self._waiting = request.number, state
        self._pump()

    def _take_cancel(self, request: Request) -> None:
        self._cancelled = self._newest

    def _take_scheme(self, request: Request) -> None:
        self.repaint(request.content)

    def _take_csv(self, request: Request) -> None:
        if request.content not in self.shown:
            raise ValueError(
                f"numbers can be saved once they are shown, got the view {request.content[:20]!r}"
            )
        state, numbers = self.shown[request.content]
        self.wire.delivered = json.dumps(
            {"number": request.number, "name": f"lbnn-{state.view}.csv", "text": as_csv(numbers)}
        )

    def _take_refine(self, request: Request) -> None:
        place = request.content
        if len(place) != 2 or not all(isinstance(x, (int, float)) and 1e-3 < x < 1e3 for x in place):
            raise ValueError(f"a place on the map must be α and γ from 0.001 to 1000, got {str(place)[:40]}")
        if len(self._started) < _MOST_WORKERS:
            self._start(self._refine, request.number, place)

    def _take_file(self, request: Request) -> None:
        name, text, targets = (str(request.content.get(key, "")) for key in ("name", "text", "targets"))
        if self.reader is None:
            raise ValueError("this server takes no files")
        if len(text) > LARGEST_FILE:
            raise ValueError(f"a picked file may have {LARGEST_FILE:,} characters, got {len(text):,}")
        if len(self._started) < _MOST_WORKERS:
            self._start(self._read, request.number, name, text, targets)

    # ------------------------------------------------------------------ work, in threads

    def _pump(self) -> None:
        """Start on the newest request if no one is at work, or if he has been at it for long."""
        busy = len(self._started)
        impatient = busy == 1 and time.monotonic() - self._started[0] > _PATIENCE
        if self._waiting is not None and not self.closed and (not busy or impatient):
            number, state = self._waiting
            self._waiting = None
            self._start(self._compute, number, state, self.table)

    def _start(self, work: Callable[..., None], number: int, *arguments: Any) -> None:
        started = time.monotonic()
        self._started.append(started)

        def run() -> None:
            try:
                with collected():  # messages are part of the numbers, and the page shows them
                    work(number, *arguments)
            except StoppedError as problem:
                self._soon(lambda problem=problem: self._answer(number, done=True, stopped=str(problem)))  # type: ignore[misc]
            except (ValueError, ArithmeticError, MemoryError) as problem:
                self._soon(lambda problem=problem: self._complain(number, str(problem)))  # type: ignore[misc]
            except Exception:
                log.exception("a request failed")
                self._soon(
                    lambda: self._complain(number, "this could not be computed; the terminal has the reason")
                )
            finally:
                self._soon(lambda: self._finish(started))

        self.pool.submit(run)

    def _finish(self, started: float) -> None:
        self._started.remove(started)
        self._pump()

    def _soon(self, function: Callable[[], None]) -> None:
        if not self.closed:
            self.later(function)

    def _compute(self, number: int, state: State, table: Table | None) -> None:
        """Numbers as they get better, until a newer request has come; the first are always shown."""
        began = time.perf_counter()
        for numbers in self._better_and_better(number, state, table):
            self._show_soon(number, state, table, numbers, 1000 * (time.perf_counter() - began))
            if self._newest != number or self.closed:
                return
        self._soon(lambda: self._answer(number, done=True))

    def _better_and_better(self, number: int, state: State, table: Table | None) -> Iterator[Numbers]:
        """Here what takes milliseconds; what may take long in a process, with a rough picture first."""
        if state.view not in ROUGH or (
            outputs(state, table) == 1 and state.view not in ("theories", "learning")
        ):
            yield from NUMBERS[state.view](state, table)
            return
        began, shown = time.monotonic(), False
        for numbers in self.workers.answers(state, table, lambda: self._unwanted(number), _PATIENCE):
            if numbers is not None:
                shown = True
                yield numbers
            elif not shown and time.monotonic() - began > _SOON:
                shown = True
                yield ROUGH[state.view](state, table)

    def _unwanted(self, number: int) -> bool:
        return self._newest != number or self._cancelled >= number or self.closed

    def _show_soon(
        self, number: int, state: State, table: Table | None, numbers: Numbers, milliseconds: float
    ) -> None:
        lines = code(state, table, numbers)
        self._soon(lambda: self._show(number, state, numbers, milliseconds, lines))

    def _refine(self, number: int, place: list[float]) -> None:
        cells = phase.around(*place)
        self._soon(lambda: self.views["theories"].refine(cells))
        self._soon(lambda: self._answer(number, refined=len(cells)))

    def _read(self, number: int, name: str, text: str, targets: str) -> None:
        assert self.reader is not None
        table = self.reader(name, text, targets)
        self._soon(lambda: self._adopt(number, table))

    # ------------------------------------------------------------------ answers, in the page's thread

    def _adopt(self, number: int, table: Table) -> None:
        self.table = table
        self._answer(number, table=described(table))

    def _show(self, number: int, state: State, numbers: Numbers, milliseconds: float, lines: str) -> None:
        if number < self._drawn:
            return
        self._drawn = number
        self.shown[state.view] = state, numbers
        self.views[state.view].draw(numbers)
        self._answer(
            number,
            query=state.address(),
            fields={each.name: as_text(getattr(state, each.name)) for each in fields(State)},
            values=[
                {"name": v.name, "text": v.text, "number": _json_number(v.number)} for v in numbers.values
            ],
            sentence=numbers.sentence,
            messages=[*state.unused, *numbers.messages],
            code=lines,
            milliseconds=milliseconds,
        )

    def _complain(self, number: int, message: str) -> None:
        self._answer(number, error=message)

    def _answer(self, number: int, **content: Any) -> None:
        self.wire.answered = json.dumps({"number": number, **content})


def described(table: Table) -> str:
    """A table in a few words."""
    targets = ", ".join(table.targets)
    return f"{table.name}: {len(table.X)} rows, {len(table.features)} features, targets {targets}"


def _json_number(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)


def _number_of(text: str) -> int:
    """The number of a request that could not be taken, as far as it has one."""
    try:
        number = json.loads(text)["number"]
    except Exception:
        return 0
    return number if type(number) is int else 0
