"""Every reported number against values of 35 digits (tests/reference), with arrays of other libraries."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import lbnn
from lbnn._base.arrays import device_of, to_numpy
from tests.helpers.libraries import device, every_library, put
from tests.network.test_references import REFERENCES, RELATIVE, floats
from tests.reference.cases import case_named

cases = pytest.mark.parametrize("name", REFERENCES)


@functools.cache
def posterior(name: str, library: str) -> lbnn.Posterior:
    case = case_named(name)
    X, y, _ = case.data()
    return lbnn.Network(case.widths).condition(put(X, library), put(y, library), case.beta)


@functools.cache
def predictive(name: str, library: str) -> lbnn.Predictive:
    return posterior(name, library).predict(put(case_named(name).data()[2], library))


def compared(got: Any, expected: np.ndarray, library: str, atol: float = 0.0) -> None:
    """An array of the library, right to the tolerance of the reference."""
    assert device_of(got) == device(library)
    np.testing.assert_allclose(to_numpy(got), expected, rtol=0 if atol else RELATIVE, atol=atol)


@every_library
@cases
def test_log_evidence(name: str, library: str) -> None:
    expected = float(REFERENCES[name]["log_evidence"])
    assert posterior(name, library).log_evidence == pytest.approx(expected, rel=RELATIVE, abs=0)


@every_library
@cases
def test_scale_mean(name: str, library: str) -> None:
    expected = float(REFERENCES[name]["scale_mean"])
    assert posterior(name, library).scale.mean == pytest.approx(expected, rel=RELATIVE, abs=0)


@every_library
@cases
def test_inverse_scale_mean(name: str, library: str) -> None:
    text = REFERENCES[name]["inverse_scale_mean"]
    expected = math.inf if text is None else float(text)
    assert posterior(name, library).scale.inverse_mean == pytest.approx(expected, rel=RELATIVE, abs=0)


@every_library
@cases
def test_predictive_mean(name: str, library: str) -> None:
    compared(predictive(name, library).mean, floats(REFERENCES[name]["mean"]), library)


@every_library
@cases
def test_predictive_variance(name: str, library: str) -> None:
    compared(predictive(name, library).variance, floats(REFERENCES[name]["variance"]), library)


@every_library
@cases
def test_predictive_covariance(name: str, library: str) -> None:
    covariance, variance = predictive(name, library).covariance, floats(REFERENCES[name]["variance"])
    compared(device(library).xp.linalg.diagonal(covariance), variance, library)
    size = math.sqrt(variance[0] * variance[1])
    expected = float(REFERENCES[name]["covariance01"])
    assert float(covariance[0, 1]) == pytest.approx(expected, rel=0, abs=RELATIVE * size)


@every_library
@pytest.mark.parametrize("name", [name for name, record in REFERENCES.items() if record["kernel"]])
def test_feature_kernel(name: str, library: str) -> None:
    expected = floats(REFERENCES[name]["kernel"])
    got = posterior(name, library).feature_kernel()[: len(expected), : len(expected)]
    compared(got, expected, library, atol=RELATIVE * np.abs(expected).max())
