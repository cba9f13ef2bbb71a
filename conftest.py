"""What every test and every example in a docstring share.

Helpers are imported, as tests.helpers, tests.referees and tests.reference.
"""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    """No test and no example inherits an open figure."""
    yield
    plt.close("all")
