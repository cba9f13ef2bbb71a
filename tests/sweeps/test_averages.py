"""Averages over data as quantities of a sweep, against the sweep's own averages over data sets."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn


def problem(seed, rng):
    """Gaussian inputs and a linear teacher of norm 1.2, noise 0.4."""
    X = rng.normal(size=(6, 10))
    return X, 1.2 * X[:, 0] + 0.4 * rng.normal(size=6)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [5.0, math.inf])
def test_sweep_average_is_the_learning_curve(beta, tmp_path):
    """A hundred data sets: E λ and log evidence within 4 standard errors of the average."""
    found = lbnn.sweep(
        {"seed": range(100), "teacher_norm": [1.2], "target_noise": [0.4]},
        data=problem,
        network=lambda: lbnn.Network((5, 5)),
        beta=beta,
        quantities=["scale_mean", "log_evidence", "average:scale_mean", "average:log_evidence"],
        store=tmp_path / "run.zarr",
        workers=0,
        progress=False,
    )
    for name in ("scale_mean", "log_evidence"):
        values = found[name].values.ravel()
        average, error = (found[f"average:{name}{end}"].values.ravel()[0] for end in ("", "_error"))
        own = values.std(ddof=1) / math.sqrt(len(values))
        assert np.unique(found[f"average:{name}"]).size == 1
        assert abs(values.mean() - average) < 4 * math.hypot(own, error)
        assert error == 0 if math.isinf(beta) else error > 0


def test_unknown_average_is_refused(tmp_path):
    with pytest.raises(ValueError, match="average:QUANTITY with one of scale_mean"):
        lbnn.sweep(
            {"seed": [0]},
            data=problem,
            network=lambda: lbnn.Network((5,)),
            beta=1.0,
            quantities=["average:nonsense"],
            store=tmp_path / "run.zarr",
        )


def test_where_there_is_no_average_it_is_missing(tmp_path):
    """Zero temperature with more examples than inputs: the point says why."""

    def tall(rng):
        X = rng.normal(size=(6, 10))
        return X, X[:, 0]

    found = lbnn.sweep(
        {"teacher_norm": [1.0, -1.0]},
        data=tall,
        network=lambda: lbnn.Network((5,)),
        beta=2.0,
        quantities=["average:error"],
        store=tmp_path / "run.zarr",
        workers=0,
        progress=False,
    )
    values = found["average:error"].values
    assert np.isfinite(values[0])
    assert np.isnan(values[1])
