"""Data of a search over hyperparameters, from inputs and targets."""

from __future__ import annotations

import numpy as np

from lbnn.data.centring import CentredInputs, contrasts, outside_range
from lbnn.estimator.inputs import Setting
from lbnn.estimator.leverage import Extent
from lbnn.estimator.table import Rows, Table
from lbnn.selection import EvidenceData, NoiseSpec


def evidence_data(X, Y, *, centre=True, weights=None, noise_variance=1.0) -> EvidenceData:
    """Of the linear kernel; targets are centred already."""
    inputs = CentredInputs.of(X, centre, weights)
    spectrum = inputs.spectrum(X, Y, weights)
    spectrum = contrasts(spectrum) if centre else spectrum
    return EvidenceData(spectrum, outside_range(spectrum, Y), noise_variance)


def setting(X, Y, *, weights=None, spec=None) -> Setting:
    """What transforms of the inputs are compared on; targets are centred already."""
    columns = Y.reshape(len(Y), -1)
    rows, observed = Rows.all(len(Y)), np.ones(columns.shape, bool)
    table = Table(X, columns, observed, weights, True, Y.ndim == 1, rows, Extent.of(X))
    return Setting(table, Y, NoiseSpec() if spec is None else spec, 1.0, 0)
