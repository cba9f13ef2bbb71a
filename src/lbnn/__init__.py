"""Exact Bayesian inference for finite-width deep linear networks.

Names are imported when they are first used, so that `import lbnn` and `lbnn --version` take no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if (
    TYPE_CHECKING
):  # for type checkers and editors; `_HOME` says the same to the interpreter, and a test compares
    from lbnn import archive as archive
    from lbnn import asymptotics as asymptotics
    from lbnn import convergence as convergence
    from lbnn import views as views
    from lbnn._base.errors import AccuracyWarning as AccuracyWarning
    from lbnn._base.errors import DataWarning as DataWarning
    from lbnn._base.errors import ExtrapolationWarning as ExtrapolationWarning
    from lbnn.bands import Bands as Bands
    from lbnn.bands import BandsFit as BandsFit
    from lbnn.bands import BandsPredictive as BandsPredictive
    from lbnn.cross_validation import LeaveOneOut as LeaveOneOut
    from lbnn.data.network_kernels import network_kernel as network_kernel
    from lbnn.data.spectrum import Spectrum as Spectrum
    from lbnn.engines import Diagnostics as Diagnostics
    from lbnn.engines import EvidenceEstimate as EvidenceEstimate
    from lbnn.engines import Plan as Plan
    from lbnn.estimator import BandedRegressor as BandedRegressor
    from lbnn.estimator import LBNNRegressor as LBNNRegressor
    from lbnn.estimator import density_score as density_score
    from lbnn.estimator import predictive as predictive
    from lbnn.free_noise.posterior import FreeNoisePosterior as FreeNoisePosterior
    from lbnn.learning_curves.curve import LearningCurve as LearningCurve
    from lbnn.learning_curves.curve import learning_curve as learning_curve
    from lbnn.matrix_gig.distribution import MatrixGIG as MatrixGIG
    from lbnn.network import Network as Network
    from lbnn.posterior import Posterior as Posterior
    from lbnn.predict.given import Given as Given
    from lbnn.predict.predictive import Predictive as Predictive
    from lbnn.scale.measure import ScaleMeasure as ScaleMeasure
    from lbnn.scale.phases import Phase as Phase
    from lbnn.scale.phases import Phases as Phases
    from lbnn.scale.prior import ScalePrior as ScalePrior
    from lbnn.selection.grid import EvidenceGrid as EvidenceGrid
    from lbnn.selection.grid import evidence_grid as evidence_grid
    from lbnn.sums import SumPosterior as SumPosterior
    from lbnn.sums import SumPredictive as SumPredictive
    from lbnn.sums import condition_sum as condition_sum
    from lbnn.sweeps.quantities import SweepQuantity as SweepQuantity
    from lbnn.sweeps.run import sweep as sweep
    from lbnn.sweeps.store import open_sweep as open_sweep
    from lbnn.theories.comparison import Comparison as Comparison
    from lbnn.theories.comparison import compare as compare
    from lbnn.theories.scale_mixing import ScaleMixture as ScaleMixture
    from lbnn.views.posterior import ViewPosterior as ViewPosterior

    __version__: str

#: The module that each public name is imported from, below `lbnn`; a public module is its own.
_HOME = {
    "AccuracyWarning": "_base.errors",
    "BandedRegressor": "estimator",
    "Bands": "bands",
    "BandsFit": "bands",
    "BandsPredictive": "bands",
    "Comparison": "theories.comparison",
    "DataWarning": "_base.errors",
    "Diagnostics": "engines",
    "EvidenceEstimate": "engines",
    "EvidenceGrid": "selection.grid",
    "ExtrapolationWarning": "_base.errors",
    "Given": "predict.given",
    "LBNNRegressor": "estimator",
    "LearningCurve": "learning_curves.curve",
    "LeaveOneOut": "cross_validation",
    "MatrixGIG": "matrix_gig.distribution",
    "Network": "network",
    "Phase": "scale.phases",
    "Phases": "scale.phases",
    "Plan": "engines",
    "FreeNoisePosterior": "free_noise.posterior",
    "Posterior": "posterior",
    "Predictive": "predict.predictive",
    "ScaleMeasure": "scale.measure",
    "ScaleMixture": "theories.scale_mixing",
    "ScalePrior": "scale.prior",
    "Spectrum": "data.spectrum",
    "SumPosterior": "sums",
    "SumPredictive": "sums",
    "SweepQuantity": "sweeps.quantities",
    "ViewPosterior": "views.posterior",
    "archive": "archive",
    "asymptotics": "asymptotics",
    "benchmark": "benchmark",
    "compare": "theories.comparison",
    "condition_sum": "sums",
    "convergence": "convergence",
    "density_score": "estimator",
    "evidence_grid": "selection.grid",
    "learning_curve": "learning_curves.curve",
    "network_kernel": "data.network_kernels",
    "open_sweep": "sweeps.store",
    "plots": "plots",
    "predictive": "estimator",
    "sweep": "sweeps.run",
    "views": "views",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, and keep it."""
    if name == "__version__":
        return import_module("importlib.metadata").version("lbnn")
    if name not in _HOME:
        raise AttributeError(f"module 'lbnn' has no attribute {name!r}")
    try:
        module = import_module(f"lbnn.{_HOME[name]}")
    except ModuleNotFoundError as absent:
        if absent.name is None or absent.name.partition(".")[0] != "sklearn":
            raise
        from lbnn._base.extras import needed

        raise ImportError(needed(f"lbnn.{name}", "scikit-learn", "sklearn")) from absent
    globals()[name] = module if name == _HOME[name] else getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
