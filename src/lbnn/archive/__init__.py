"""Archives: results in files that execute nothing when loaded (docs/archive.md describes the format).

`container` is the file: a header and arrays with digests; `packing` takes posteriors apart and puts them
together. Knows every room before it.
"""

from lbnn.archive.container import read, write
from lbnn.archive.packing import pack_posterior, unpack_posterior

__all__ = ["pack_posterior", "read", "unpack_posterior", "write"]
