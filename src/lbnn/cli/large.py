"""Parquet files that are too large for memory, read by row groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lbnn._base.types import Array
from lbnn.cli.problems import BadInputError
from lbnn.cli.tables import Table, listed, require_distinct

#: Bytes as float64 beyond which a file is read in parts.
IN_MEMORY = 1 << 30
_ROWS_AT_ONCE = 1 << 16
_UNNAMED_INDEX = "__index_level_"  # how pandas writes it

Prepared = TypeVar("Prepared")


def is_large(path: Path) -> bool:
    """Whether this is a Parquet file whose numbers should not be in memory at once."""
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return False
    try:
        about = pq.read_metadata(path)
    except (OSError, pa.ArrowException):
        return False  # the reader of small files says what is wrong
    return int(about.num_rows) * int(about.num_columns) * 8 > IN_MEMORY


@dataclass(frozen=True)
class LargeTable:
    """A Parquet file and its columns."""

    path: Path
    columns: list[str]
    rows: int

    @classmethod
    def of(cls, path: Path) -> LargeTable:
        """From the file's metadata; an index without a name is no column."""
        file = pq.ParquetFile(path)
        names = [str(name) for name in file.schema_arrow.names]
        require_distinct(names, f"{path}: column names")
        own = [name for name in names if not name.startswith(_UNNAMED_INDEX)]
        return cls(path, own, int(file.metadata.num_rows))

    def header(self) -> Table:
        """The columns without rows, to choose among."""
        empty = pq.ParquetFile(self.path).schema_arrow.empty_table().to_pandas(ignore_metadata=True)
        return Table(self.path, empty[self.columns])

    def parts(self, names: Sequence[str], prepare: Callable[[Table], Prepared]) -> Iterator[Prepared]:
        """These columns as `prepare` makes them, some rows at a time; what breaks a rule is an error."""
        start = 0
        for batch in pq.ParquetFile(self.path).iter_batches(_ROWS_AT_ONCE, columns=list(names)):
            frame = batch.to_pandas(ignore_metadata=True)
            frame.index = pd.RangeIndex(start + 1, start + 1 + len(frame))
            yield prepare(Table(self.path, frame))
            start += len(frame)

    def examples(
        self, features: Sequence[str], goals: Sequence[str], drop_missing: bool
    ) -> Iterator[tuple[Array, Array]]:
        """Blocks (X, Y), on request without rows in which a value is missing or infinite."""
        names = [*features, *goals]

        def prepared(table: Table) -> Any:
            if drop_missing:
                chosen = table.frame[names]
                missing = (chosen.isna() | chosen.isin([np.inf, -np.inf])).any(axis=1)
                return replace(table, frame=table.frame[~missing]).numbers(names)
            wrong = table.problems(names)
            if wrong.missing:
                raise BadInputError(
                    f"{self.path}: values must be finite numbers: {wrong.describe()}. Try: --missing drop to "
                    "leave rows with gaps out"
                )
            return table.numbers(names)

        for frame in self.parts(names, prepared):
            if len(frame):
                yield np.asarray(frame[list(features)]), np.asarray(frame[list(goals)])


def require_plain(path: Path, given: Mapping[str, bool]) -> None:
    """Raise for options that need the whole table in memory."""
    wrong = [option for option, is_given in given.items() if is_given]
    if wrong:
        raise BadInputError(f"{listed(wrong)} is for tables that fit into memory, got {path}")


class Writer:
    """Predictions, written as they come: .csv or .parquet."""

    def __init__(self, path: Path, csv: bool) -> None:
        self.path, self.csv = path, csv
        self.parquet: Any = None

    def add(self, frame: Any) -> None:
        """Some rows more."""
        if self.csv:
            empty = self.path.stat().st_size == 0
            frame.to_csv(self.path, mode="a", index=False, header=empty)
            return
        part: Any = pa.Table.from_pandas(frame, preserve_index=False)
        if self.parquet is None:
            self.parquet = pq.ParquetWriter(self.path, part.schema)
        self.parquet.write_table(part)

    def close(self) -> None:
        """No rows more."""
        if self.parquet is not None:
            self.parquet.close()
