"""Pictures: what is drawn is what the posterior says, and wrong arguments are refused."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest

import lbnn
from lbnn import plots
from lbnn.plots.matrices import input_gram


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 20))
    return X, X @ rng.normal(size=(20, 3)) / math.sqrt(20)


@pytest.fixture(scope="module")
def posterior(data):
    return lbnn.Network((6,)).condition(*data, beta=4.0)


def test_new_axes_only_where_none_are_given(data):
    X, Y = data
    post = lbnn.Network((5,)).condition(X, Y[:, 0], beta=4.0)
    _, ax = plt.subplots()
    assert plots.scale_density(post, ax) is ax
    assert plots.scale_density(post) is not ax


def test_scale_densities_are_normalised(data):
    X, Y = data
    post = lbnn.Network((5, 7)).condition(X, Y[:, 0], beta=4.0)
    after, before = plots.scale_density(post).lines
    for curve in (after, before):
        scale, density = curve.get_data()
        assert np.trapezoid(density, np.log(scale)) == pytest.approx(1.0, abs=2e-3)
    scale, density = after.get_data()
    assert np.trapezoid(scale * density, np.log(scale)) == pytest.approx(post.scale.mean, rel=2e-3)


def test_scale_density_of_depth_one_is_a_line_at_the_variance(data):
    X, Y = data
    post = lbnn.Network((), prior_variances=[1.0]).condition(X, Y[:, 0], beta=4.0)
    (line,) = plots.scale_density(post).lines
    assert set(line.get_xdata()) == {1.0}


def test_scale_density_refuses_several_outputs_and_wrong_labels(posterior, data):
    with pytest.raises(ValueError, match="one output"):
        plots.scale_density(posterior)
    post = lbnn.Network((5,)).condition(data[0], data[1][:, 0], beta=4.0)
    with pytest.raises(ValueError, match="one per posterior, got 2 for 1"):
        plots.scale_density(post, labels=["a", "b"])


def test_band_shows_mean_and_interval(posterior):
    pred = posterior.predict()
    ax = plots.predictive_band(pred, np.arange(12), output=2, probability=0.5)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), pred.mean[:, 2])
    low, high = pred.interval(0.5)
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(low[:, 2].min())
    assert heights.max() == pytest.approx(high[:, 2].max())


def test_band_refuses_a_coordinate_of_another_length(posterior):
    with pytest.raises(ValueError, match=r"shape \(12,\)"):
        plots.predictive_band(posterior.predict(), np.arange(5))


def test_coupling_matrix_is_the_correlation_of_the_mean_scale(posterior):
    mean = posterior.scale.mean
    image = plots.coupling_matrix(posterior).images[0].get_array()
    assert image[0, 1] == pytest.approx(mean[0, 1] / math.sqrt(mean[0, 0] * mean[1, 1]))
    np.testing.assert_allclose(np.diagonal(image), 1.0)
    raw = plots.coupling_matrix(posterior, correlation=False, labels=["a", "b", "c"])
    np.testing.assert_array_equal(raw.images[0].get_array(), mean)
    assert [text.get_text() for text in raw.get_xticklabels()] == ["a", "b", "c"]


def test_coupling_matrix_prints_its_values_with_a_minus_sign(posterior):
    texts = [text.get_text() for text in plots.coupling_matrix(posterior).texts]
    image = plots.coupling_matrix(posterior).images[0].get_array()
    assert texts == [f"{value:.2f}".replace("-", "−") for value in image.ravel()]


def test_coupling_matrix_of_one_output(data):
    ax = plots.coupling_matrix(lbnn.Network((5,)).condition(data[0], data[1][:, 0], beta=4.0))
    np.testing.assert_allclose(ax.images[0].get_array(), [[1.0]], rtol=1e-15)


def test_coupling_matrix_refuses_wrong_labels(posterior):
    with pytest.raises(ValueError, match="one for each of 3, got 1"):
        plots.coupling_matrix(posterior, labels=["a"])


def test_kernel_panels_show_three_grams(posterior, data):
    X, Y = data
    panels = plots.kernel_panels(posterior, Y)
    shown = [panel.images[0].get_array() for panel in panels]
    np.testing.assert_allclose(shown[0], X @ X.T / 20, atol=1e-12)
    np.testing.assert_array_equal(shown[1], posterior.feature_kernel())
    np.testing.assert_allclose(shown[2], Y @ Y.T / 3)
    assert panels[0].images[0].get_clim() == panels[1].images[0].get_clim()


def test_kernel_panels_refuse_other_targets_and_too_few_axes(posterior, data):
    with pytest.raises(ValueError, match="Y"):
        plots.kernel_panels(posterior, data[1][:5])
    with pytest.raises(ValueError, match="three, got 1"):
        plots.kernel_panels(posterior, data[1], [plt.subplots()[1]])


def test_input_gram_carries_the_first_variance(data):
    X, Y = data
    post = lbnn.Network((6,), prior_variances=[2.5, 1.0]).condition(X, Y[:, 0], beta=4.0)
    np.testing.assert_allclose(input_gram(post), 2.5 * X @ X.T / 20, atol=1e-12)


def test_size_curves_draw_bars_of_two_errors_and_the_slope():
    from lbnn.paper.figures import size_curves

    _, axes = plt.subplots()
    size_curves(axes, [10, 100], [[0.5, 0.05], [0.3, 0.2]], [[0.1, 0.01], [0.1, 0.1]], ["a", "b"])
    _, labels = axes.get_legend_handles_labels()
    assert sorted(labels) == ["a", "b", "slope −1"]
    (reference,) = [line for line in axes.lines if line.get_label() == "slope −1"]
    np.testing.assert_allclose(reference.get_ydata(), [0.5, 0.05])
    first = axes.containers[0].lines[2][0].get_segments()
    np.testing.assert_allclose([segment[:, 1] for segment in first], [[0.3, 0.7], [0.03, 0.07]])


def test_left_out_shows_intervals_and_calibration():
    mean, zero = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    scores = lbnn.LeaveOneOut(mean, np.array([1.0, 4.0, 1.0]), zero, zero, zero, zero)
    left, right = plots.left_out(scores, [1.0, 2.5, 6.0])
    (bars,) = left.containers[0].lines[2]
    np.testing.assert_allclose(np.ptp(bars.get_segments()[1][:, 0]), 2 * 1.6448536269514722 * 2)
    levels, shares = right.lines[-1].get_data()  # |z| is 0, 0.25 and 3
    assert shares[0] == pytest.approx(1 / 3)
    assert shares[levels > 0.3][0] == pytest.approx(2 / 3)
    assert shares[-1] == pytest.approx(2 / 3)


def test_kernel_change_is_relative(posterior):
    gram = input_gram(posterior)
    expected = np.linalg.norm(posterior.feature_kernel() - gram) / np.linalg.norm(gram)
    assert posterior.kernel_change() == pytest.approx(expected)


def test_figures_in_a_heat_map_can_be_read():
    """Black or white, whichever has the higher contrast."""
    from lbnn.plots._style import _luminance, heat_map

    _, axes = plt.subplots()
    values = np.linspace(-1, 1, 41)[None]
    image = heat_map(axes, values, 1.0, digits=1)
    for text, value in zip(axes.texts, values[0], strict=True):
        ground = _luminance(image.to_rgba(value))
        letters = 1.0 if text.get_color() == "white" else 0.0
        contrast = (max(ground, letters) + 0.05) / (min(ground, letters) + 0.05)
        assert contrast >= 4.5


def test_errors_beyond_the_axis_are_arrows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 9)), rng.normal(size=6)
    result = lbnn.compare(lbnn.Network((10**7,)), X, y, beta=4.0)
    tiny = sum(abs(row.error) < 1e-5 for row in result.rows)
    assert tiny
    axes = plots.comparison(result)
    assert len(axes.texts) == tiny  # annotations
    drawn = np.concatenate([line.get_xdata() for line in axes.lines])
    assert len(drawn) == len(result.rows) - tiny


def test_bands_name_their_axes(data):
    X, Y = data
    predictive = lbnn.Network((5,)).condition(X, Y, beta=4.0).predict(X)
    axes = plots.predictive_band(predictive, np.arange(12.0), output=1)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("coordinate", "output 2")
    _, own = plt.subplots()
    own.set_xlabel("time")
    assert plots.predictive_band(predictive, np.arange(12.0), own).get_xlabel() == "time"
