"""Results in files that execute nothing: plain arrays and a header.

`container` is the file, `packing` takes the parts of a posterior (prior, data, noise, inference) apart and
puts them together; `Posterior.save` and `Posterior.load` use both. Imports `engines` and what stands before
it.
"""

from importlib import import_module
from typing import Any

from lbnn._base.deprecated import ARCHIVE, announce
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


def __getattr__(name: str) -> Any:
    """Former names."""
    if name not in ARCHIVE:
        raise AttributeError(f"module 'lbnn.archive' has no attribute {name!r}")
    announce(f"lbnn.archive.{name}", ARCHIVE[name])
    return getattr(import_module("lbnn.posterior"), name)
