"""The Python file of `lbnn sweep`: its names are the arguments of `lbnn.sweep`."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from lbnn.cli.problems import BadInputError

_NEEDED = ("axes", "data", "network", "quantities")
_OPTIONAL = ("beta", "noise", "target_error", "seed", "chunks")


class _StudyLoader(SourceFileLoader):
    """Runs a file without leaving its bytecode in a folder beside it."""

    def set_data(self, *arguments: Any, **options: Any) -> None:
        """Nothing is written."""


def read_study(path: Path) -> dict[str, Any]:
    """Arguments of `lbnn.sweep` from a file, whose functions are sent to workers as they are."""
    import cloudpickle

    if path.suffix == ".toml":
        raise BadInputError(
            f"a sweep is described in Python, got {path}: define {', '.join(_NEEDED)} in a .py file"
        )
    name = f"lbnn_sweep_{path.stem}"
    loader = _StudyLoader(name, str(path))
    described = importlib.util.spec_from_file_location(name, path, loader=loader) if path.is_file() else None
    if described is None or described.loader is None:
        raise BadInputError(f"a study must be a Python file that can be read, got {path}")
    study = importlib.util.module_from_spec(described)
    sys.modules[name] = study
    try:
        described.loader.exec_module(study)
    except Exception as problem:
        raise BadInputError(f"{path} cannot be run: {type(problem).__name__}: {problem}") from problem
    missing = [each for each in _NEEDED if not hasattr(study, each)]
    if missing:
        raise BadInputError(
            f"{path}: must define {', '.join(_NEEDED)}, and may define {', '.join(_OPTIONAL)}, got none of "
            f"{', '.join(missing)}"
        )
    cloudpickle.register_pickle_by_value(study)
    return {each: getattr(study, each) for each in (*_NEEDED, *_OPTIONAL) if hasattr(study, each)}
