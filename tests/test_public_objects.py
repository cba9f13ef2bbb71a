"""What public objects say of themselves: one line, no arrays, no addresses; the version of the metadata."""

from __future__ import annotations

from importlib import metadata

import pytest

import lbnn
from tests.helpers.problems import make_problem

DATA = make_problem(8, 12, 2, seed=601)
NETWORK = lbnn.Network((20,))
POSTERIOR = NETWORK.condition(DATA.X, DATA.Y, 4.0, target_error=0.2)
COMPARISON = lbnn.compare(NETWORK, DATA.X, DATA.Y, 4.0, quantities=("mean",), target_error=0.2)
BANDS_FIT = lbnn.Bands([NETWORK]).condition([DATA.X], DATA.Y)
OBJECTS = [
    NETWORK,
    NETWORK.scale_prior(2),
    NETWORK.choose_engine(8, 2),
    POSTERIOR,
    POSTERIOR.spectrum,
    POSTERIOR.diagnostics,
    POSTERIOR.noise,
    POSTERIOR.predict(DATA.X_test),
    POSTERIOR.leave_one_out(),
    lbnn.asymptotics.proportional(NETWORK, DATA.X, DATA.Y),
    COMPARISON,
    COMPARISON.rows[0],
    lbnn.convergence.REGIMES["infinite data"],
    lbnn.ScaleMixture(),
    BANDS_FIT,
    BANDS_FIT.predict([DATA.X_test]),
]


@pytest.mark.parametrize("thing", OBJECTS, ids=lambda thing: type(thing).__name__)
def test_objects_show_themselves_in_one_short_line(thing: object) -> None:
    text = repr(thing)
    assert text.startswith(f"{type(thing).__name__}(")
    assert "\n" not in text
    assert "array(" not in text
    assert " at 0x" not in text
    assert len(text) < 250


def test_version_is_that_of_the_installed_package() -> None:
    assert lbnn.__version__ == metadata.version("lbnn")
