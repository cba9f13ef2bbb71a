"""Engines: prior × likelihood factor → scale measure, evidence, diagnostics. One file each.

`atom` (depth one), `quadrature` (one output), `importance` and `smc` (several); `bartlett_sampling` makes
measures of draws, `choose` holds the rule that chooses. Knows the rooms `scale` and `likelihood`; nothing of
inputs, noise or predictions.
"""

from lbnn.engines.choose import ENGINES, EngineChoice, choose, infer
from lbnn.engines.draws import Effort
from lbnn.engines.inference import Diagnostics, ScaleInference

__all__ = ["ENGINES", "Diagnostics", "Effort", "EngineChoice", "ScaleInference", "choose", "infer"]
