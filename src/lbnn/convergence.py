"""How fast each limit theory approaches the exact answer. The study is in `lbnn.theories.convergence`."""

from lbnn.theories.convergence import REGIMES, ConvergenceStudy, Regime, Sizes, study

__all__ = ["REGIMES", "ConvergenceStudy", "Regime", "Sizes", "study"]
