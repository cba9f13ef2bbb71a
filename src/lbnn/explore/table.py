"""A table of the user's: inputs and targets, standardised, known by what they hold."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lbnn._base.types import Array
from lbnn.explore.state import RANGES

_MOST_COLUMNS = 2000


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of a file, in units of their standard deviations. Two tables are equal if their numbers are.

    Attributes
    ----------
    name : str
        Of the file, for the page and for the lines that it shows.
    features, targets : tuple of str
    X : (p, n_0)
    Y : (p, n_d)
    steps : tuple of str
        Lines of Python that read the file into a pandas frame `table` with these columns.
    """

    name: str
    features: tuple[str, ...]
    targets: tuple[str, ...]
    X: Array
    Y: Array
    digest: str
    steps: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @classmethod
    def standardised(
        cls,
        name: str,
        features: tuple[str, ...],
        targets: tuple[str, ...],
        X: Array,
        Y: Array,
        steps: tuple[str, ...] = (),
    ) -> Table:
        """The table that the page works with: mean zero and variance one in every column.

        Examples
        --------
        >>> import numpy as np
        >>> from lbnn.explore.table import Table
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(9, 1)), np.arange(9.0)[:, None]
        >>> table = Table.standardised("a.csv", ("x",), ("y",), x, y)
        >>> bool(abs(table.Y.std() - 1) < 1e-12)
        True
        """
        most = int(RANGES["outputs"][1])
        if not 1 <= Y.shape[1] <= most:
            raise ValueError(f"targets must be 1 to {most} columns, got {Y.shape[1]}")
        if X.shape[1] > _MOST_COLUMNS:
            raise ValueError(f"features must be at most {_MOST_COLUMNS} columns, got {X.shape[1]}")
        for names, values in ((features, X), (targets, Y)):
            spread = values.std(axis=0)
            constant = [each for each, size in zip(names, spread, strict=True) if not size > 0]
            if constant:
                raise ValueError(
                    f"a constant column cannot be standardised, got {', '.join(constant[:5])}: leave it out"
                )
        X, Y = ((part - part.mean(axis=0)) / part.std(axis=0) for part in (X, Y))
        digest = hashlib.sha256(X.tobytes() + Y.tobytes() + repr((features, targets)).encode()).hexdigest()
        return cls(name, features, targets, X, Y, digest, steps)
