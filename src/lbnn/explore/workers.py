"""Answers that may take long are computed in processes, which can be stopped; threads cannot.

A process takes one question at a time, (view, state, table), and sends the numbers as they get better. It
keeps the posteriors that it has computed. One that is stopped is replaced at once, so that the next question
finds a process that is ready.
"""

from __future__ import annotations

import atexit
import multiprocessing
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lbnn.explore.numbers.answer import Numbers
from lbnn.explore.state import State
from lbnn.explore.table import Table

#: Seconds that an answer may take after which the best one so far stands. Nearly all take less than one;
#: those that take more than this were seen to take forty and more (four outputs at depth twenty and width
#: one).
BUDGET = 15.0
_MOST = 3  # processes; each holds about 150 MB
_PAUSE = 0.05  # seconds between two looks at a process


class StoppedError(Exception):
    """An answer was stopped before it was complete; the message says why."""


@dataclass(frozen=True)
class _Failed:
    """What a process says of an error: a rule that was broken, or something unforeseen."""

    rule: bool
    text: str


_DONE, _READY = "done", "ready"


class Worker:
    """One process that answers questions."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self.process = context.Process(target=_answer_questions, args=(there,), daemon=True)
        self.process.start()
        there.close()

    def ask(self, state: State, table: Table | None) -> None:
        """Begin with a question."""
        self._here.send((state, table))

    def receive(self, seconds: float) -> Any:
        """What it sends within some seconds; None where it sends nothing."""
        try:
            return self._here.recv() if self._here.poll(seconds) else None
        except (EOFError, OSError) as problem:
            raise StoppedError("the process that computed has ended, perhaps for lack of memory") from problem

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.join()
        self._here.close()


class Workers:
    """Some processes for all pages of a server."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []
        self._lock = threading.Lock()
        self._free = threading.Semaphore(_MOST)
        atexit.register(self.close)

    def warm(self) -> None:
        """Start a process that will be ready when the first question comes."""
        with self._lock:
            if not self._idle:
                self._idle.append(Worker())

    def answers(
        self, state: State, table: Table | None, unwanted: Any, patience: float
    ) -> Iterator[Numbers | None]:
        """Numbers as they get better; None at times, while there is nothing new.

        Parameters
        ----------
        state, table
            The question.
        unwanted : callable
            Whether nobody waits for the answer any more: asked often, obeyed after `patience` seconds.
        patience : float

        Raises
        ------
        StoppedError
            After `BUDGET` seconds, or when it was unwanted.
        ValueError
            For a rule of the library that the state breaks.
        """
        with self._free:
            worker = self._take()
            finished = False
            try:
                yield from _numbers_of(worker, state, table, unwanted, patience)
                finished = True
            except ValueError:
                finished = True
                raise
            finally:
                if finished:
                    with self._lock:
                        self._idle.append(worker)
                else:
                    worker.stop()
                    self.warm()

    def _take(self) -> Worker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.process.is_alive():
                    return worker
        return Worker()

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            for worker in self._idle:
                worker.stop()
            self._idle.clear()


def _numbers_of(
    worker: Worker, state: State, table: Table | None, unwanted: Any, patience: float
) -> Iterator[Numbers | None]:
    worker.ask(state, table)
    began = time.monotonic()
    while True:
        message = worker.receive(_PAUSE)
        if message == _READY:  # a new process: the time that it took to start is not the answer's
            began, message = time.monotonic(), None
        if message == _DONE:
            return
        if isinstance(message, _Failed):
            if message.rule:
                raise ValueError(message.text)
            raise RuntimeError(message.text)
        seconds = time.monotonic() - began
        if unwanted() and seconds > patience:
            raise StoppedError("stopped")
        if seconds > BUDGET:
            raise StoppedError(
                f"stopped after {BUDGET:g} seconds, the budget of an answer: the picture is the best one so "
                "far. “Copy as Python” has the lines that compute it to the end"
            )
        yield message


def _answer_questions(connection: Any) -> None:
    """What a process does: until the other side is gone."""
    from lbnn._base.warn import collected
    from lbnn.explore.numbers.views import NUMBERS

    connection.send(_READY)
    while True:
        try:
            state, table = connection.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        try:
            with collected():  # messages are part of the numbers
                for numbers in NUMBERS[state.view](state, table):
                    connection.send(numbers)
            connection.send(_DONE)
        except KeyboardInterrupt:
            return
        except (ValueError, ArithmeticError, MemoryError) as problem:
            connection.send(_Failed(True, str(problem)))
        except Exception as problem:
            connection.send(_Failed(False, f"{type(problem).__name__}: {problem}"))
