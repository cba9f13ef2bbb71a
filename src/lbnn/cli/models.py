"""Model files: what `LBNNRegressor.save` writes, and the names of the targets in the same header."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lbnn import archive
from lbnn.cli.preparing import Preparation
from lbnn.cli.problems import BadInputError
from lbnn.estimator import LBNNRegressor
from lbnn.estimator.saving import KIND

_TARGETS, _PREPARATION = "target_names", "preparation"


@dataclass(frozen=True)
class NamedModel:
    """A fitted estimator and the names of its columns."""

    estimator: Any  # LBNNRegressor
    features: list[str]
    targets: list[str]
    preparation: Preparation


def model_writer(
    estimator: Any, targets: Sequence[str], preparation: Preparation
) -> Callable[[Path], object]:
    """A `write` for `write_atomically` that writes a model; `LBNNRegressor.load` reads it as any other."""

    def write(path: Path) -> None:
        estimator.save(path)
        header, arrays = archive.read(path, KIND)
        about = {_TARGETS: list(targets), _PREPARATION: asdict(preparation)}
        archive.write(path, KIND, {**header, **about}, arrays)

    return write


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
    names = [str(name) for name in features]
    targets = header.get(_TARGETS) or unnamed
    if not isinstance(targets, list) or len(targets) != count or not all(isinstance(t, str) for t in targets):
        raise BadInputError(f"{path}: the model must name its {count} targets, got {str(targets)[:80]}")
    try:
        preparation = Preparation(**header[_PREPARATION]) if _PREPARATION in header else Preparation(names)
    except TypeError as problem:
        raise BadInputError(f"{path}: the model must say how features are made, got {problem}") from problem
    return NamedModel(estimator, names, targets, preparation)
