"""Reference posteriors for people who build samplers: tasks with known answers, and scorers.

`density` holds the density of all weights and functions of them; `reference` the known answers; `task` and
`catalogue` the tasks; `scorers` what is compared and with what null distribution; `report` one call for all
of them; `adaptors` the ways from arrays and ArviZ; `export` files for posteriordb, Stan and Inference Gym.
`picture` draws the report. Imports every other folder but `cli`.
"""

from __future__ import annotations

from lbnn.benchmark import adaptors
from lbnn.benchmark.catalogue import TaskEntry, load, tasks
from lbnn.benchmark.export import to_inference_gym, to_posteriordb, to_stan
from lbnn.benchmark.report import Report, score
from lbnn.benchmark.scorers.invariance import invariance
from lbnn.benchmark.scorers.score import Score
from lbnn.benchmark.task import Task

__all__ = [
    "Report",
    "Score",
    "Task",
    "TaskEntry",
    "adaptors",
    "invariance",
    "load",
    "score",
    "tasks",
    "to_inference_gym",
    "to_posteriordb",
    "to_stan",
]
