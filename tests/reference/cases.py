"""The cases of the reference values: which network, which noise, which data.

Only numpy is needed here, so that the test suite can import it. The data are made from a seed, rounded to
three decimals and then scaled; ``Case.fingerprint`` is recorded next to the reference values, so that a
change in the random streams of numpy would be noticed and not taken for an error of the library.
"""

import hashlib
import math
from dataclasses import dataclass

import numpy as np

EXACT = math.inf


@dataclass(frozen=True)
class Case:
    """One inference problem with one output.

    ``widths`` are the hidden widths, ``beta`` the inverse noise variance (``inf``: no noise), ``examples``
    and ``inputs`` the shape of X. ``kind`` is "generic", "duplicated" (the second half of the rows of X
    repeats the first half) or "zero" (all targets are zero). With inputs < examples, or with duplicated
    rows, the Gram matrix is rank deficient.
    """

    name: str
    widths: tuple[int, ...]
    beta: float
    examples: int
    inputs: int
    kind: str
    target_scale: float
    seed: int

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return X (examples, inputs), y (examples,) and X_test (3, inputs).

        Test point 0 is generic, test point 1 is the training input 0, test point 2 is three times another
        generic input.
        """
        random = np.random.default_rng(self.seed)
        train_inputs = np.round(random.standard_normal((self.examples, self.inputs)), 3)
        if self.kind == "duplicated":
            half = self.examples // 2
            train_inputs[-half:] = train_inputs[:half]
        teacher = random.standard_normal(self.inputs)
        noise = random.standard_normal(self.examples)
        targets = np.round(_row_dots(train_inputs, teacher) / math.sqrt(self.inputs) + 0.4 * noise, 3)
        targets = targets * (0.0 if self.kind == "zero" else self.target_scale)
        fresh_inputs = np.round(random.standard_normal((2, self.inputs)), 3)
        test_inputs = np.stack([fresh_inputs[0], train_inputs[0], 3.0 * fresh_inputs[1]])
        return train_inputs, targets, test_inputs

    def fingerprint(self) -> str:
        """Return the SHA-256 of the data (little-endian doubles; X, y, X_test one after the other)."""
        digest = hashlib.sha256()
        for array in self.data():
            digest.update(np.ascontiguousarray(array + 0.0, dtype="<f8").tobytes())
        return digest.hexdigest()


def _row_dots(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return matrix @ vector, correctly rounded sums, so that no BLAS has a say in the data."""
    return np.array([math.fsum(row * vector) for row in matrix])


CASES: tuple[Case, ...] = (
    # No hidden layer: the scale is 1.
    Case("no-hidden", (), 4.0, 5, 8, "generic", 1.0, 101),
    Case("no-hidden-exact", (), EXACT, 20, 40, "generic", 1.0, 102),
    # One hidden layer.
    Case("w50", (50,), 4.0, 20, 30, "generic", 1.0, 103),
    Case("w1", (1,), 1.0, 5, 8, "generic", 1.0, 104),
    Case("w1-exact", (1,), EXACT, 5, 8, "generic", 1.0, 105),
    Case("w2-small-noise", (2,), 1e4, 2, 3, "generic", 1.0, 106),
    Case("w3-large-noise", (3,), 1e-2, 5, 8, "generic", 1.0, 107),
    Case("w3-huge-noise-large-targets", (3,), 1e-6, 60, 90, "generic", 1e6, 108),
    Case("w1e6", (1000000,), 4.0, 20, 30, "generic", 1.0, 109),
    Case("w1e6-exact", (1000000,), EXACT, 60, 100, "generic", 1.0, 110),
    Case("w1e6-exact-large-targets", (1000000,), EXACT, 5, 8, "generic", 1e6, 111),
    # Two hidden layers.
    Case("w1x2", (1, 1), 1.0, 5, 8, "generic", 1.0, 112),
    Case("w1x2-one-example", (1, 1), 1e8, 1, 2, "generic", 1.0, 113),
    Case("w3-5", (3, 5), 4.0, 20, 30, "generic", 1.0, 114),
    Case("w3-5-exact-large-targets", (3, 5), EXACT, 5, 8, "generic", 1e6, 115),
    Case("w50x2-tiny-noise", (50, 50), 1e12, 20, 30, "generic", 1.0, 116),
    Case("w50x2", (50, 50), 4.0, 60, 90, "generic", 1.0, 117),
    Case("w50x2-duplicated", (50, 50), 1e8, 20, 30, "duplicated", 1.0, 118),
    Case("w10-1e6", (10, 1000000), 1e4, 5, 8, "generic", 1.0, 119),
    Case("w10-1e6-exact-small-targets", (10, 1000000), EXACT, 20, 30, "generic", 1e-6, 120),
    # Three and more hidden layers.
    Case("w1-2-3", (1, 2, 3), 1.0, 5, 8, "generic", 1.0, 121),
    Case("w1-2-3-few-inputs", (1, 2, 3), 1e-6, 20, 10, "generic", 1.0, 122),
    Case("w5x4-exact-large-targets", (5,) * 4, EXACT, 20, 30, "generic", 1e6, 123),
    Case("w5x4-duplicated", (5,) * 4, 4.0, 20, 30, "duplicated", 1.0, 124),
    Case("w5x4-tiny-noise-large-targets", (5,) * 4, 1e12, 5, 8, "generic", 1e6, 125),
    Case("w100x9", (100,) * 9, 1e4, 60, 90, "generic", 1.0, 126),
    Case("w1x9", (1,) * 9, 1.0, 5, 8, "generic", 1.0, 127),
    Case("w1x9-exact", (1,) * 9, EXACT, 20, 30, "generic", 1.0, 128),
    Case("w20x19-few-inputs", (20,) * 19, 4.0, 60, 30, "generic", 1.0, 129),
    Case("w20x19-small-targets", (20,) * 19, 1e8, 20, 30, "generic", 1e-6, 130),
    Case("w1x49", (1,) * 49, 4.0, 5, 8, "generic", 1.0, 131),
    Case("w1x49-exact", (1,) * 49, EXACT, 2, 4, "generic", 1.0, 132),
    Case("w1x49-large-noise-large-targets", (1,) * 49, 1e-2, 20, 30, "generic", 1e6, 133),
    Case("w1x49-one-example-small-targets", (1,) * 49, 1e4, 1, 1, "generic", 1e-6, 134),
    Case("w100x49-exact", (100,) * 49, EXACT, 20, 30, "generic", 1.0, 135),
    # Targets that are all zero; without noise they need min(widths) > examples.
    Case("w50-zero-exact", (50,), EXACT, 20, 30, "zero", 1.0, 136),
    Case("w8x2-zero-exact", (8, 8), EXACT, 5, 8, "zero", 1.0, 137),
    Case("w30-40-50-zero-exact", (30, 40, 50), EXACT, 20, 30, "zero", 1.0, 138),
    Case("w4x2-zero", (4, 4), 4.0, 5, 8, "zero", 1.0, 139),
    # Two hundred examples (the diagonalisation takes minutes).
    Case("w100x9-exact-200", (100,) * 9, EXACT, 200, 300, "generic", 1.0, 140),
    Case("w100x49-few-inputs-200", (100,) * 49, 1.0, 200, 120, "generic", 1.0, 141),
)


def case_named(name: str) -> Case:
    """Return the case of this name."""
    return next(case for case in CASES if case.name == name)
