"""Model files: what `LBNNRegressor.save` writes, and the names of the targets in the same header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lbnn import archive
from lbnn.cli.problems import BadInputError
from lbnn.estimator import LBNNRegressor
from lbnn.estimator.saving import KIND

_TARGETS = "target_names"


@dataclass(frozen=True)
class NamedModel:
    """A fitted estimator and the names of its columns."""

    estimator: Any  # LBNNRegressor
    features: list[str]
    targets: list[str]


def save_model(estimator: Any, targets: Sequence[str], path: Path) -> None:
    """Write a model; `LBNNRegressor.load` reads it as any other."""
    estimator.save(path)
    header, arrays = archive.read(path, KIND)
    archive.write(path, KIND, {**header, _TARGETS: list(targets)}, arrays)


def load_model(path: Path) -> NamedModel:
    """Read a model; targets of one that Python saved are y, or y1, y2 and so on."""
    if not path.is_file():
        raise BadInputError(f"the model must be a file that exists, got {path}")
    header, _ = archive.read(path, KIND)
    estimator = LBNNRegressor.load(path)
    features = getattr(estimator, "feature_names_in_", None)
    if features is None:
        raise BadInputError(
            f"{path}: the model must know the names of its features, got one fitted without names"
        )
    count = np.size(estimator.noise_variance_)
    unnamed = ["y"] if count == 1 else [f"y{number}" for number in range(1, count + 1)]
    return NamedModel(estimator, [str(name) for name in features], header.get(_TARGETS) or unnamed)
