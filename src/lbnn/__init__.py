"""Exact Bayesian inference for finite-width deep linear networks."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from lbnn import asymptotics, convergence, sweeps
from lbnn._base.errors import AccuracyWarning, DataWarning, ExtrapolationWarning
from lbnn._base.warn import warn
from lbnn.bands import Bands, BandsFit, BandsPredictive
from lbnn.data.network_kernels import network_kernel
from lbnn.data.spectrum import Spectrum
from lbnn.engines import Diagnostics, EvidenceEstimate, Plan
from lbnn.learning_curves.curve import LearningCurve, learning_curve
from lbnn.leave_one_out import LeaveOneOut, leave_one_out
from lbnn.matrix_gig.distribution import MatrixGIG
from lbnn.network import Network
from lbnn.posterior import Posterior
from lbnn.predict.affine import AffinePredictive
from lbnn.predict.average import MixturePredictive
from lbnn.predict.given import ConditionedPredictive
from lbnn.predict.mixture import NetworkPredictive
from lbnn.predict.predictive import Predictive
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.phases import Phase, Phases
from lbnn.scale.prior import ScalePrior
from lbnn.selection.grid import EvidenceGrid, evidence_grid
from lbnn.sweeps.run import sweep
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
    "DataWarning",
    "Diagnostics",
    "EvidenceEstimate",
    "EvidenceGrid",
    "ExtrapolationWarning",
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
    "asymptotics",
    "benchmark",
    "compare",
    "convergence",
    "evidence_grid",
    "learning_curve",
    "leave_one_out",
    "network_kernel",
    "sweep",
    "sweeps",
]


def __getattr__(name: str) -> Any:
    """Import when asked for: the benchmark, which stands behind this module, and the estimator, an extra."""
    if name == "benchmark":
        return import_module("lbnn.benchmark")
    if name == "EngineChoice":
        warn("lbnn.EngineChoice is now lbnn.Plan", DeprecationWarning)
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
