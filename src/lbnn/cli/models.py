"""Model files: what `LBNNRegressor.save` writes, and the names of the targets in the same header."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lbnn import archive
from lbnn.cli.columns import Preparation
from lbnn.cli.problems import BadInputError
from lbnn.estimator import BandedRegressor, LBNNRegressor
from lbnn.estimator.banded import KIND as BANDED
from lbnn.estimator.saving import KIND

_TARGETS, _PREPARATION = "target_names", "preparation"


@dataclass(frozen=True)
class NamedModel:
    """A fitted estimator and the names of its columns."""

    estimator: Any  # LBNNRegressor or BandedRegressor
    features: list[str]
    targets: list[str]
    preparation: Preparation


def model_writer(
    estimator: Any, targets: Sequence[str], preparation: Preparation
) -> Callable[[Path], object]:
    """A `write` for `write_atomically` that writes a model; `LBNNRegressor.load` reads it as any other."""

    def write(path: Path) -> None:
        estimator.save(path)
        kind = BANDED if isinstance(estimator, BandedRegressor) else KIND
        header, arrays = archive.read(path, kind)
        about = {_TARGETS: list(targets), _PREPARATION: asdict(preparation)}
        archive.write(path, kind, {**header, **about}, arrays)

    return write


def load_model(path: Path) -> NamedModel:
    """Read a model; targets of one that Python saved are y, or y1, y2 and so on."""
    if not path.is_file():
        raise BadInputError(f"the model must be a file that exists, got {path}")
    header, estimator = _read(path)
    features = getattr(estimator, "feature_names_in_", None)
    if features is None:
        raise BadInputError(
            f"{path}: the model must have names of its features, got one fitted without names"
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


def _read(path: Path) -> tuple[dict[str, Any], Any]:
    """The header of a model file and its estimator; files say themselves of which kind they are."""
    try:
        return archive.read(path, BANDED)[0], BandedRegressor.load(path)
    except ValueError:  # another kind: if it is none at all, reading it as the usual one says so
        return archive.read(path, KIND)[0], LBNNRegressor.load(path)
