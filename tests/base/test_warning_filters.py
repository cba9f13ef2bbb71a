"""Python's warning filters belong to the process: nothing in the library changes them, in threads above
all."""

from __future__ import annotations

import ast
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import lbnn
from lbnn._base.warn import collected, warn

SOURCE = Path(lbnn.__file__).parent
CHANGES_FILTERS = {"catch_warnings", "simplefilter", "filterwarnings", "resetwarnings"}
#: The command line is a program, not a library: it prints warnings in its own form for as long as it runs.
PROGRAM = "cli/"


def test_no_module_changes_the_filters():
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        if not path.relative_to(SOURCE).as_posix().startswith(PROGRAM)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) in CHANGES_FILTERS
    ]
    assert not found


def test_messages_are_collected_in_their_own_thread():
    def work(number):
        with collected() as outer:
            warn(f"outer {number}")
            with collected() as inner:
                warn(f"inner {number}")
        return outer, inner

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(200)))
    assert found == [([f"outer {n}"], [f"inner {n}"]) for n in range(200)]
    with pytest.warns(lbnn.AccuracyWarning, match="as before"):
        warn("as before")


def test_an_error_within_leaves_nothing_behind():
    with pytest.raises(RuntimeError), collected():
        raise RuntimeError
    with pytest.warns(lbnn.AccuracyWarning, match="as before"):
        warn("as before")


@pytest.mark.parametrize("fits", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_fits_in_threads_leave_the_filters(fits):
    """Fits in eight threads; before, ('ignore', AccuracyWarning) stayed behind."""
    rng = np.random.default_rng(0)
    designs = [rng.normal(size=(20, 4)) for _ in range(5)]
    problems = [(X, X @ np.ones(4) + 0.3 * rng.normal(size=20)) for X in designs]

    def fit(number):
        X, y = problems[number % len(problems)]
        return lbnn.LBNNRegressor(depth=2, width=3).fit(X, y).log_evidence_

    fit(0)  # imports SciPy, which adds filters of its own
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(fit, range(fits)))
    assert list(warnings.filters) == before
    assert found[:5] == found[5:10]  # and threads do not disturb each other's numbers


def test_sweeps_in_threads_leave_the_filters(tmp_path):
    """Twenty sweeps in four threads; before, ('ignore', Warning) stayed behind."""
    pytest.importorskip("zarr")
    before = list(warnings.filters)

    def run(number):
        return lbnn.sweep(
            {"width": [2, 3], "beta": [1.0, 5.0]},
            data=_data,
            network=lambda width: lbnn.Network((width,)),
            quantities=["kernel_change"],
            store=tmp_path / f"{number}.zarr",
            workers=0,
            progress=False,
        )

    with ThreadPoolExecutor(4) as pool:
        found = [each.load() for each in pool.map(run, range(20))]
    added = [each for each in warnings.filters if each not in before]
    # xarray and Dask bring filters of their own, for FutureWarning and ResourceWarning
    assert not [
        each for each in added if each[2] in (Warning, UserWarning, RuntimeWarning, lbnn.AccuracyWarning)
    ]
    assert all(each.equals(found[0]) for each in found)


def _data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(6, 4)), rng.normal(size=6)
