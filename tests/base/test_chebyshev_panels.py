"""Functions of g at many rows from a few nodes."""

from __future__ import annotations

import numpy as np
import pytest

from lbnn._base import chebyshev_panels as module
from lbnn._base.chebyshev_panels import chebyshev_panels

VALUES = {
    "random": np.sort(np.random.default_rng(0).gamma(2.0, size=600)),
    "condition 1e16": np.geomspace(1e-16, 1.0, 600),
    "all equal": np.full(600, 2.0),
    "few": np.linspace(1.0, 9.0, 10),
    "one": np.array([3.0]),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=list(VALUES))
@pytest.mark.parametrize("place", [1e-12, 1e-3, 1.0, 1e6])
def test_gains_at_every_row(values: np.ndarray, place: float) -> None:
    """1/(1 + g/place), relative to itself, times any power of g in between."""
    curves = chebyshev_panels(values)
    got = curves.at_rows(1 / (1 + curves.nodes / place))
    np.testing.assert_allclose(got, 1 / (1 + values / place), rtol=1e-12)


def test_gathered_is_the_product_with_what_is_at_the_rows() -> None:
    """Σ_i φ_i c_i f(g_i), for functions f given at the nodes."""
    rng = np.random.default_rng(1)
    values = VALUES["random"]
    features, columns = rng.standard_normal((4, 600)), rng.standard_normal((600, 2))
    curves = chebyshev_panels(values)
    at_nodes = np.stack([1 / (1 + curves.nodes), curves.nodes / (0.1 + curves.nodes)])
    got = np.einsum("mkj,fk->fmj", curves.gathered(features, columns), at_nodes)
    at_rows = np.stack([1 / (1 + values), values / (0.1 + values)])
    np.testing.assert_allclose(
        got, np.einsum("mi,ij,fi->fmj", features, columns, at_rows), rtol=1e-12, atol=1e-11
    )


def test_nodes_that_are_too_few_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check turns to the rows themselves; without it, wrong numbers would come out."""
    values = VALUES["condition 1e16"]
    assert len(chebyshev_panels(values).nodes) < 500
    monkeypatch.setattr(module, "nodes_for", lambda half: 4)
    assert len(chebyshev_panels(values).nodes) == len(values)
    monkeypatch.setattr(module, "accurate", lambda *_: True)
    curves = chebyshev_panels(values)
    error = np.abs(curves.at_rows(1 / (1 + curves.nodes)) * (1 + values) - 1)
    assert error.max() > 1e-6


def test_a_gap_in_the_spectrum_has_no_nodes() -> None:
    """One value far below the others, as for square X: panels without rows are left out."""
    values = np.sort(np.concatenate([[1e-6], np.random.default_rng(0).uniform(0.1, 4.0, 400)]))
    curves = chebyshev_panels(values)
    assert len(curves.nodes) < len(values)
    assert all(len(rows) for rows, _, _ in curves.panels)
    exact = 1 / (1 + values)
    np.testing.assert_allclose(curves.at_rows(1 / (1 + curves.nodes)), exact, rtol=1e-12)
    rng = np.random.default_rng(1)
    features, columns = rng.normal(size=(3, len(values))), rng.normal(size=(len(values), 2))
    got = np.einsum("mkj,k->mj", curves.gathered(features, columns), 1 / (1 + curves.nodes))
    np.testing.assert_allclose(
        got, np.einsum("mi,ij,i->mj", features, columns, exact), rtol=1e-11, atol=1e-11
    )
