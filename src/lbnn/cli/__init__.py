"""The command `lbnn`: reproduce the paper, fit a table, predict, compare. Needs the extra `cli`.

One file for each command; `app` lists them, `entry` is where a shell comes in. Imports every other folder.
"""

from lbnn.cli.entry import main

__all__ = ["main"]
