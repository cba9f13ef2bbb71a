"""The command `lbnn`: reproduce the paper, fit a table, predict, compare. Needs the extra `cli`.

One file for each command; `app` lists them, `entry` is where a shell comes in. Commands: `fit`, `predict`,
`evidence`, `compare`, `explore`, `bands`, `benchmark`, `sweep` (with `sweep_study`),
`reproduce`. Shared: `options`, `modelling`, `models`, `files`, `problems`. Imports every other folder.
"""

from lbnn.cli.entry import main

__all__ = ["main"]
