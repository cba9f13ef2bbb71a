"""Work on every core: the same numbers, the caller's settings, the caller's errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import lbnn
from lbnn._base.threads import on_every_core, threads


@pytest.mark.parametrize(("limit", "expected"), [("1", 1), ("3", 3), ("64", 8)])
def test_who_limits_blas_limits_these(limit: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variables that BLAS reads."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", limit)
    assert threads() == expected


@pytest.mark.parametrize("limit", ["", "0", "many"])
def test_other_values_are_no_limit(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As BLAS reads them."""
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, limit)
    assert threads() >= 1


def test_pieces_errors_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every piece once, on several threads, under the caller's errstate; an error arrives."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    result, names = np.zeros(8), set()
    barrier = threading.Barrier(2, timeout=30)

    def work(piece: int) -> None:
        if piece < 2:
            barrier.wait()  # two at a time, or this ends in an error
        names.add(threading.current_thread().name)
        result[piece] += 1 / np.float64(piece)

    with np.errstate(divide="ignore"):
        on_every_core(work, range(8))
    np.testing.assert_array_equal(result[1:], 1 / np.arange(1.0, 8))
    assert len(names) == 2

    def fail(piece: int) -> None:
        raise ValueError(f"piece {piece}")

    with pytest.raises(ValueError, match="piece 0"):
        on_every_core(fail, range(3))


def test_answers_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A posterior with blocks enough for two threads, bit by bit."""
    monkeypatch.setattr("lbnn._base.blocks.BLOCK_FLOATS", 1 << 13)
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 30)), rng.standard_normal((20, 3))
    answers = []
    for limit in ("1", "2"):
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", limit)
        answers.append(lbnn.Network((10,)).condition(X, Y, 4.0).log_evidence)
    assert answers[0] == answers[1]
