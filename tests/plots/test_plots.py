"""Pictures: what is drawn is what the posterior says, and wrong arguments are refused."""

from __future__ import annotations

import math
from pathlib import Path

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


def test_convergence_draws_bars_of_two_errors_and_the_slope():
    ax = plots.convergence(
        [10, 100], [[0.5, 0.05], [0.3, 0.2]], [[0.1, 0.01], [0.1, 0.1]], ["a", "b"], slope=-2
    )
    _, labels = ax.get_legend_handles_labels()
    assert sorted(labels) == ["a", "b", "slope −2"]
    (reference,) = [line for line in ax.lines if line.get_label() == "slope −2"]
    np.testing.assert_allclose(reference.get_ydata(), [5.0, 0.05])
    first = ax.containers[0].lines[2][0].get_segments()
    np.testing.assert_allclose([segment[:, 1] for segment in first], [[0.3, 0.7], [0.03, 0.07]])


@pytest.mark.parametrize(
    ("sizes", "errors", "bars", "message"),
    [
        ([1, 2], [1.0, 2.0, 3.0], None, "shapes"),
        ([1, 2], [1.0, 2.0], [0.1], "shapes"),
        ([1, 2], [1.0, 0.0], None, "positive"),
        ([1, 2], [1.0, np.nan], None, "finite"),
    ],
)
def test_convergence_refuses(sizes, errors, bars, message):
    with pytest.raises(ValueError, match=message):
        plots.convergence(sizes, errors, bars)


def test_speed_has_one_curve_a_method():
    ax = plots.speed([5, 50], [[9e4, 9e4], [1e3, 1e2]], [[1e3, 1e3], [50, 5]], ["scale", "weights"])
    assert ax.get_yscale() == "log"
    assert len(ax.containers) == 2


def small_posteriors(pairs):
    rng = np.random.default_rng(1)
    return [
        lbnn.Network((8,)).condition(
            rng.normal(size=(p, 9)), rng.normal(size=(p, k)), beta=9.0, target_error=0.5
        )
        for p, k in pairs
    ]


def test_phase_diagram_puts_each_posterior_in_its_place():
    posteriors = small_posteriors([(6, 2), (2, 1), (2, 2), (6, 1), (6, 1)])
    ax = plots.phase_diagram(posteriors)
    values = ax.collections[0].get_array()
    change = [each.kernel_change() for each in posteriors]
    np.testing.assert_allclose(values, [[change[1], (change[3] + change[4]) / 2], [change[2], change[0]]])


def test_phase_diagram_refuses_holes_and_depth_one(data):
    with pytest.raises(ValueError, match="grid"):
        plots.phase_diagram(small_posteriors([(2, 1), (6, 2)]))
    with pytest.raises(ValueError, match="depth one"):
        plots.phase_diagram([lbnn.Network(()).condition(*data, beta=4.0)])


def test_kernel_change_is_relative(posterior):
    gram = input_gram(posterior)
    expected = np.linalg.norm(posterior.feature_kernel() - gram) / np.linalg.norm(gram)
    assert posterior.kernel_change() == pytest.approx(expected)
    with pytest.warns(DeprecationWarning, match="Posterior.kernel_change"):
        assert plots.kernel_change(posterior) == pytest.approx(expected)


@pytest.fixture
def swept():
    xr = pytest.importorskip("xarray")
    rng = np.random.default_rng(0)
    shape = {
        "seed": range(4),
        "examples": [4, 8],
        "outputs": [1, 2],
        "width": [4, 40],
        "beta": [1.0, 5.0, 90.0],
    }
    values = rng.normal(size=tuple(len(each) for each in shape.values()))
    values[0, 0] = np.nan
    return xr.Dataset({"kernel_change": (tuple(shape), values)}, shape)


def test_curves_of_a_sweep_are_means_over_seeds(swept):
    at = {"examples": 8, "outputs": 1}
    ax = plots.sweep_curves(swept, "kernel_change", "beta", "width", at=at)
    values = swept.kernel_change.sel(at).sel(width=40)
    np.testing.assert_allclose(ax.containers[1].lines[0].get_ydata(), values.mean("seed"))
    half = (
        np.array([segment[1, 1] - segment[0, 1] for segment in ax.containers[1].lines[2][0].get_segments()])
        / 2
    )
    np.testing.assert_allclose(half, 2 * values.std("seed", ddof=1) / 2)
    missing = plots.sweep_curves(swept, "kernel_change", "beta", at={"examples": 4, "outputs": 1, "width": 4})
    expected = swept.kernel_change.sel(examples=4, outputs=1, width=4).mean("seed", skipna=True)
    np.testing.assert_allclose(missing.containers[0].lines[0].get_ydata(), expected)


def test_maps_of_a_sweep(swept):
    ax = plots.sweep_map(swept, "kernel_change", "beta", "width", at={"examples": 8, "outputs": 2})
    expected = swept.kernel_change.sel(examples=8, outputs=2).mean("seed").transpose("width", "beta")
    np.testing.assert_allclose(ax.collections[0].get_array(), expected)


def test_phase_diagram_of_a_sweep(swept):
    ax = plots.phase_diagram(swept.sel(width=[40], examples=[8], seed=[1, 2, 3]))
    expected = swept.kernel_change.sel(width=40, examples=8, seed=[1, 2, 3]).mean(["seed", "beta"])
    np.testing.assert_allclose(ax.collections[0].get_array()[:, 0], expected)
    with pytest.raises(ValueError, match="at one width"):
        plots.phase_diagram(swept)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("colour", "beta"), "variable must be among kernel_change, got 'colour'"),
        (("kernel_change", "colour"), "axes must be among .*, got 'colour'"),
        (("kernel_change", "beta", "width"), r"got none for \['examples', 'outputs'\]"),
    ],
)
def test_bad_pictures_of_a_sweep_are_refused(swept, arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.sweep_curves(swept, *arguments)


# ---------------------------------------------------------------------- the gallery


def gallery():
    import importlib.util

    path = Path(__file__).resolve().parents[2] / "docs" / "make_gallery.py"
    described = importlib.util.spec_from_file_location("make_gallery", path)
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module


def test_the_gallery_has_every_function():
    drawn = {name for name in plots.__all__ if callable(getattr(plots, name))} - {"kernel_change"}  # a number
    assert set(gallery().examples()) - {""} == drawn
    images = Path(__file__).resolve().parents[2] / "docs" / "images" / "gallery"
    assert {file.stem for file in images.glob("*.svg")} == drawn


def test_figures_in_a_heat_map_can_be_read():
    """Black or white, whichever has the higher contrast; before, white stood on pale orange."""
    from lbnn.plots._style import _luminance, heat_map

    _, axes = plt.subplots()
    values = np.linspace(-1, 1, 41)[None]
    image = heat_map(axes, values, 1.0, digits=1)
    for text, value in zip(axes.texts, values[0], strict=True):
        ground = _luminance(image.to_rgba(value))
        letters = 1.0 if text.get_color() == "white" else 0.0
        contrast = (max(ground, letters) + 0.05) / (min(ground, letters) + 0.05)
        assert contrast >= 4.5


TABLE = [
    {"depth": d, "widths": (w,), "noise": "independent", "inputs": i, "log_evidence": -w / 10 - d,
     "penalty": 0.0}
    for d in (2, 3)
    for w in (3, 10, 30)
    for i in ("raw", "standardised")
] + [
    {"depth": 1, "widths": (), "noise": n, "inputs": i, "log_evidence": -200.0 if n == "coupled" else -4.0,
     "penalty": 0.0}
    for n in ("independent", "coupled")
    for i in ("raw", "standardised")
]  # fmt: skip


def test_evidence_over_widths_uses_its_axis_and_names_each_line_once():
    axes = plots.evidence_over_widths(TABLE)
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(names) == len(set(names)) == 6
    low, high = axes.get_ylim()
    heights = [row["log_evidence"] + 2.3 for row in TABLE if row["log_evidence"] > -100]
    assert low < min(heights) < low + 0.15 * (high - low)  # no empty half
    assert "2 more than 20 below are not shown" in axes.get_xlabel()


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


@pytest.mark.parametrize("features", [4, 40])
def test_coefficients_have_intervals(features):
    matrix = np.arange(2.0 * features).reshape(2, features)
    axes = plots.coefficients(matrix, deviations=np.ones_like(matrix))
    reach = 1.6448536269514722
    if features == 4:
        ends = axes.containers[0].lines[2][0].get_segments()[1][:, 1]
        assert ends.tolist() == pytest.approx([1 - reach, 1 + reach])
        places = [container.lines[0].get_xdata() for container in axes.containers]
        assert (places[0] < places[1]).all()  # side by side
    else:
        assert len(axes.collections) == 2
    with pytest.raises(ValueError, match="deviations must have shape"):
        plots.coefficients(matrix, deviations=np.ones(3))


def test_bars_of_a_sweep_stand_side_by_side():
    xr = pytest.importorskip("xarray")
    axes = {"seed": range(3), "width": [5, 50], "beta": [1.0, 10.0, 100.0]}
    found = xr.Dataset({"v": (tuple(axes), np.random.default_rng(0).normal(size=(3, 2, 3)))}, axes)
    drawn = plots.sweep_curves(found, "v", x="beta", by="width")
    first, second = (container.lines[0].get_xdata() for container in drawn.containers)
    assert (first < second).all()
    np.testing.assert_allclose(np.sqrt(first * second), [1, 10, 100])


def test_coefficient_deviations_of_a_report():
    """Of f(e_j) − f(0), against draws of the weights' posterior through the predictive."""
    from lbnn.cli.fit_results import _coefficient_deviations

    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(20, 3)), columns=list("abc"))
    Y = X.to_numpy() @ rng.normal(size=(3, 2)) + 0.5 * rng.normal(size=(20, 2))
    model = lbnn.LBNNRegressor(depth=2, width=5, average=False).fit(X, Y)
    rows = pd.DataFrame(np.vstack([np.zeros(3), np.eye(3)]), columns=list("abc"))
    draws = model.predictive(rows).sample(20_000, seed=1)  # (size, 4, 2)
    slopes = draws[:, 1:] - draws[:, :1]
    np.testing.assert_allclose(_coefficient_deviations(model), slopes.std(axis=0).T, rtol=0.03)
