"""Results in files that execute nothing: plain arrays and a header.

`container` is the file, `packing` takes the parts of a posterior (prior, data, noise, inference) apart and
puts them together; `Posterior.save` and `Posterior.load` use both. Imports `engines` and what stands before
it.
"""

from lbnn.archive.container import read, write
from lbnn.archive.packing import (
    Packed,
    pack,
    pack_signal_noise,
    pack_views,
    unpack,
    unpack_signal_noise,
    unpack_views,
)

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
