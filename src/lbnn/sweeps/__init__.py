"""Exact answers over grids of data sets, networks and temperatures. Needs the extra `scale`.

`axes` separates data axes from network axes and gives every point its seed; `quantities` names what is
computed; `chunk` computes one rectangle of points; `plan` cuts the grid into them and says what makes two
sweeps the same; `store` keeps them in a zarr store that survives being killed; `workers` runs them here or on
Dask; `run` is `lbnn.sweep`. Imports `theories` and what stands before it; not pictures.
"""

from lbnn.sweeps.quantities import QUANTITIES, SweepQuantity
from lbnn.sweeps.run import sweep
from lbnn.sweeps.store import STATUS, open_sweep

__all__ = ["QUANTITIES", "STATUS", "SweepQuantity", "open_sweep", "sweep"]
