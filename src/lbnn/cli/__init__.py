"""The command `lbnn`: reproduce the paper, fit a table, predict, compare. Needs the extra `cli`.

One file for each command; `app` lists them, `entry` is where a shell comes in. Commands: `fit`, `predict`,
`evidence`, `compare`, `explore`, `sweep`, `reproduce`. Tables:
`reading`, `columns`. Reports: `report`, `bands`. Shared: `options`, `models`, `files`, `problems`.
Imports every other folder.
"""

from lbnn.cli.entry import main

__all__ = ["main"]
