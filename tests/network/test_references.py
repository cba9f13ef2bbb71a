"""Every reported number against values of 35 digits, made by studies/references (python-flint, mpmath)."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lbnn
from tests.reference.cases import CASES, case_named

REFERENCE_FILE = Path(__file__).parents[1] / "reference" / "references.json"
REFERENCES: dict[str, dict[str, Any]] = json.loads(REFERENCE_FILE.read_text())
RELATIVE = 1e-10  # the largest error seen is 3e-12

cases = pytest.mark.parametrize("name", REFERENCES)


def floats(texts: Any) -> np.ndarray:
    return np.array(texts, dtype=float)


@functools.cache
def posterior(name: str) -> lbnn.Posterior:
    case = case_named(name)
    X, y, _ = case.data()
    return lbnn.Network(case.widths).condition(X, y, case.beta)


@functools.cache
def predictive(name: str) -> lbnn.Predictive:
    return posterior(name).predict(case_named(name).data()[2])


def test_every_case_has_a_reference() -> None:
    """No case is left out unnoticed."""
    assert [case.name for case in CASES] == list(REFERENCES)


@cases
def test_data_are_those_of_the_reference(name: str) -> None:
    """Same bytes of X, y, X_test: otherwise the comparison means nothing."""
    assert case_named(name).fingerprint() == REFERENCES[name]["data_sha256"]


@cases
def test_log_evidence(name: str) -> None:
    """Log of the integral of N(y; 0, λG + τ) over the prior."""
    expected = float(REFERENCES[name]["log_evidence"])
    assert posterior(name).log_evidence == pytest.approx(expected, rel=RELATIVE, abs=0)
    assert posterior(name).log_evidence_error == 0.0


@cases
def test_scale_mean(name: str) -> None:
    """E λ."""
    expected = float(REFERENCES[name]["scale_mean"])
    assert posterior(name).scale.mean == pytest.approx(expected, rel=RELATIVE, abs=0)


@cases
def test_inverse_scale_mean(name: str) -> None:
    """E 1/λ, inf where the integral diverges (null in the reference)."""
    text = REFERENCES[name]["inverse_scale_mean"]
    expected = math.inf if text is None else float(text)
    assert posterior(name).scale.inverse_mean == pytest.approx(expected, rel=RELATIVE, abs=0)


@cases
def test_predictive_mean(name: str) -> None:
    """⟨F̂⟩ at a generic point, a training point and a far point."""
    expected = floats(REFERENCES[name]["mean"])
    np.testing.assert_allclose(predictive(name).mean, expected, rtol=RELATIVE, atol=0)


@cases
def test_predictive_variance(name: str) -> None:
    """Variance at the same points; exactly zero at a training point without noise."""
    expected = floats(REFERENCES[name]["variance"])
    np.testing.assert_allclose(predictive(name).variance, expected, rtol=RELATIVE, atol=0)


@cases
def test_predictive_covariance(name: str) -> None:
    """The whole covariance matrix: its diagonal, and the entry between the first two points."""
    covariance, variance = predictive(name).covariance, floats(REFERENCES[name]["variance"])
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=RELATIVE, atol=0)
    size = math.sqrt(variance[0] * variance[1])
    expected = float(REFERENCES[name]["covariance01"])
    assert covariance[0, 1] == pytest.approx(expected, rel=0, abs=RELATIVE * size)


@pytest.mark.parametrize("name", [name for name, record in REFERENCES.items() if record["kernel"]])
def test_feature_kernel(name: str) -> None:
    """⟨K⟩ of the first two training points."""
    expected = floats(REFERENCES[name]["kernel"])
    size = len(expected)
    got = posterior(name).feature_kernel()[:size, :size]
    np.testing.assert_allclose(got, expected, rtol=0, atol=RELATIVE * np.abs(expected).max())
