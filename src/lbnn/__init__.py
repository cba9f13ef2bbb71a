"""Exact Bayesian inference for finite-width deep linear networks."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from lbnn import asymptotics, convergence
from lbnn._base.deprecated import NAMES, announce
from lbnn._base.errors import AccuracyWarning
from lbnn.bands import Bands, BandsFit, BandsPredictive
from lbnn.data.network_kernels import network_kernel
from lbnn.data.spectrum import Spectrum
from lbnn.engines import Diagnostics, EvidenceEstimate, Plan
from lbnn.learning_curves.curve import LearningCurve, learning_curve
from lbnn.leave_one_out import LeaveOneOut
from lbnn.leave_one_out import leave_one_out as leave_one_out
from lbnn.matrix_gig.distribution import MatrixGIG
from lbnn.network import Network
from lbnn.posterior import Posterior
from lbnn.predict.affine import AffinePredictive
from lbnn.predict.model_average import MixturePredictive
from lbnn.predict.network import NetworkPredictive
from lbnn.predict.predictive import ConditionedPredictive, Predictive
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.phases import Phase, Phases
from lbnn.scale.prior import ScalePrior
from lbnn.selection.grid import EvidenceGrid, evidence_grid
from lbnn.sweeps import Quantity as SweepQuantity
from lbnn.sweeps import open_sweep, sweep
from lbnn.theories.comparison import Comparison, compare
from lbnn.theories.scale_mixing import ScaleMixture

if TYPE_CHECKING:
    from lbnn.estimator import BandedRegressor, LBNNRegressor

__version__ = version("lbnn")

__all__ = [
    "AccuracyWarning",
    "AffinePredictive",
    "BandedRegressor",
    "Bands",
    "BandsFit",
    "BandsPredictive",
    "Comparison",
    "ConditionedPredictive",
    "Diagnostics",
    "EvidenceEstimate",
    "EvidenceGrid",
    "LBNNRegressor",
    "LearningCurve",
    "LeaveOneOut",
    "MatrixGIG",
    "MixturePredictive",
    "Network",
    "NetworkPredictive",
    "Phase",
    "Phases",
    "Plan",
    "Posterior",
    "Predictive",
    "ScaleMeasure",
    "ScaleMixture",
    "ScalePrior",
    "Spectrum",
    "SweepQuantity",
    "asymptotics",
    "benchmark",
    "compare",
    "convergence",
    "evidence_grid",
    "learning_curve",
    "network_kernel",
    "open_sweep",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """Import when asked for: the benchmark, which stands behind this module, and the estimator, an extra."""
    if name == "benchmark":
        return import_module("lbnn.benchmark")
    if name == "EngineChoice":
        announce("lbnn.EngineChoice", f"lbnn.{NAMES[name]}")
        return Plan
    if name not in ("LBNNRegressor", "BandedRegressor"):
        raise AttributeError(f"module 'lbnn' has no attribute {name!r}")
    try:
        estimators = import_module("lbnn.estimator")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sklearn":
            raise
        raise ImportError(f"lbnn.{name} needs scikit-learn: pip install 'lbnn[sklearn]'") from error
    return getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
