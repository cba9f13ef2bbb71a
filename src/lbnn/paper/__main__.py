"""`python -m lbnn.report`."""

from __future__ import annotations

import sys

from lbnn.report.cli import main

if __name__ == "__main__":
    sys.exit(main())
