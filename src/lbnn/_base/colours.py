"""The colours of every picture."""

from __future__ import annotations

#: Okabe and Ito's, told apart by colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
