"""Results in files that execute nothing: plain arrays and a header.

`container` is the file, `schema` takes dataclasses apart and puts them together, `packing` posteriors (prior,
data, noise, inference); `Posterior.save` and `Posterior.load` use them. Imports `engines` and what stands
before it.
"""

from lbnn.archive.container import read, write
from lbnn.archive.packing import (
    pack,
    pack_signal_noise,
    pack_views,
    unpack,
    unpack_signal_noise,
    unpack_views,
)
from lbnn.archive.schema import Packed

__all__ = [
    "Packed",
    "pack",
    "pack_signal_noise",
    "pack_views",
    "read",
    "unpack",
    "unpack_signal_noise",
    "unpack_views",
    "write",
]
