"""Pictures of learning curves: what is drawn is the curve and its limits."""

from __future__ import annotations

import numpy as np
import pytest

import lbnn
from lbnn import plots


@pytest.fixture(scope="module")
def curve():
    return lbnn.learning_curve(lbnn.Network((8,)), [6, 2, 4], 12, 0.7)


def test_curve_and_theories_are_drawn_in_order(curve):
    ax = plots.learning_curves(curve, "gibbs_error", theories=("proportional", "infinite width"))
    exact, proportional, wide = ax.lines
    order = np.argsort(curve.examples)
    np.testing.assert_array_equal(exact.get_xdata(), [2, 4, 6])
    np.testing.assert_allclose(exact.get_ydata(), curve.gibbs_error[order])
    np.testing.assert_allclose(proportional.get_ydata(), curve.limits["proportional"].gibbs_error[order])
    np.testing.assert_allclose(wide.get_ydata(), curve.limits["infinite width"].gibbs_error[order])


def test_wrong_arguments_are_refused(curve):
    with pytest.raises(ValueError, match="quantity must be one of"):
        plots.learning_curves(curve, "loss")
    with pytest.raises(ValueError, match="theories must be among"):
        plots.learning_curves(curve, theories=["replica"])
    with pytest.raises(ValueError, match="at least one learning curve"):
        plots.learning_curves([])
    with pytest.raises(ValueError, match="labels must be one for each"):
        plots.learning_curves([curve, curve], labels=["one"])
