"""Exact answers over grids of data sets, networks and temperatures. Needs the extra `scale`.

`axes` separates data axes from network axes and gives every point its seed; `quantities` names what is
computed; `chunk` computes one rectangle of points; `layout` cuts the grid into them; `store` keeps them in a
zarr store that survives being killed; `workers` runs them here or on Dask; `run` is `lbnn.sweep`. `batch`
computes many temperatures at once; `identity` and `integrity` say what a store belongs to and whether it is
whole, `plan` what is left to do, `progress` how far it is. Imports `theories` and what stands before it; not
pictures.
"""

from typing import Any

from lbnn._base.deprecated import announce
from lbnn.sweeps.quantities import QUANTITIES, SweepQuantity
from lbnn.sweeps.run import sweep
from lbnn.sweeps.store import STATUS, open_sweep

__all__ = ["QUANTITIES", "STATUS", "SweepQuantity", "open_sweep", "sweep"]


def __getattr__(name: str) -> Any:
    """The former name of `SweepQuantity`."""
    if name != "Quantity":
        raise AttributeError(f"module 'lbnn.sweeps' has no attribute {name!r}")
    announce("lbnn.sweeps.Quantity", "lbnn.SweepQuantity")
    return SweepQuantity
