"""`python -m lbnn.paper`."""

from __future__ import annotations

import sys

from lbnn.paper.cli import main

if __name__ == "__main__":
    sys.exit(main())
