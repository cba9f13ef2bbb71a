"""The twenty-eight tasks: what each is made of and what is hard about it.

`make_tasks` computes their answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array

FAMILIES = ("plain", "deep", "cold", "rank", "coexistence", "size", "views")


@dataclass(frozen=True)
class Recipe:
    """Data by `default_rng(seed)`: X, then a teacher of unit length for every output, then noise."""

    name: str
    family: str
    examples: int
    inputs: int
    widths: tuple[int, ...]
    noise: float
    summary: str
    outputs: int = 1
    variance: float = 1.0
    teacher_rank: int | None = None
    points: int = 3
    seed: int = 0
    views: int = 0  # of every example ...
    kind: str = ""  # ... "gates" or "patches"

    @property
    def channels(self) -> int:
        """Rows of the last layer: outputs, or views."""
        return self.views or self.outputs

    def data(self) -> tuple[Array, Array, Array]:
        """X (p, n0), Y (p, n_d) and X_test; large inputs are rounded to half precision, to be stored so."""
        if self.views:
            return self._viewed_data()
        rng = np.random.default_rng(self.seed)
        X = rng.normal(size=(self.examples, self.inputs))
        if X.size > 500:
            X = X.astype(np.float16).astype(float)
        if self.outputs == 1:
            teacher = rng.normal(size=self.inputs)[None]
        elif self.teacher_rank is None:
            teacher = rng.normal(size=(self.outputs, self.inputs))
        else:
            left = rng.normal(size=(self.outputs, self.teacher_rank))
            teacher = left @ rng.normal(size=(self.teacher_rank, self.inputs))
        teacher /= np.linalg.norm(teacher, axis=1, keepdims=True)
        Y = X @ teacher.T + self.noise * rng.normal(size=(self.examples, self.outputs))
        X_test = np.random.default_rng((self.seed, 1)).normal(size=(self.points, self.inputs))
        return X, Y, X_test.astype(np.float16).astype(float)

    def _viewed_data(self) -> tuple[Array, Array, Array]:
        """Rows of all views (p M, n0), targets (p, 1), and views of the test points.

        Gates: the last input is one, and view m is x where the score s_m·x of M random linear scores is the
        largest, else zero. Patches: M neighbouring pieces of a signal. The target is the sum of one teacher
        of unit length for each view, and noise.
        """
        rng = np.random.default_rng(self.seed)
        count = self.examples + self.points
        if self.kind == "gates":
            inputs = np.hstack([rng.normal(size=(count, self.inputs - 1)), np.ones((count, 1))])
            scores = inputs @ rng.normal(size=(self.inputs, self.views))
            own = np.arange(self.views) == scores.argmax(axis=1)[:, None]
            views = inputs[:, None, :] * own[:, :, None]
        else:
            views = rng.normal(size=(count, self.views, self.inputs))
        views = views.astype(np.float16).astype(float)
        teachers = rng.normal(size=(self.views, self.inputs))
        teachers /= np.linalg.norm(teachers, axis=1, keepdims=True)
        noise = self.noise * rng.normal(size=(count, 1))
        Y = (views * teachers).sum(axis=(1, 2))[:, None] + noise
        train, test = views[: self.examples], views[self.examples :]
        return train.reshape(-1, self.inputs), Y[: self.examples], test.reshape(-1, self.inputs)

    @property
    def prior_variances(self) -> tuple[float, ...]:
        """The same for every layer."""
        return (self.variance,) * (len(self.widths) + 1)


RECIPES = (
    # ------------------------------------------------------------------ plain
    Recipe(
        "plain-15", "plain", 10, 4, (3,), 0.3,
        "A small regression with one hidden layer. What is hard: rotations and a rescaling between the "
        "two layers leave the function alone, so that the density has curved ridges and no isolated "
        "maximum. Every careful sampler passes; a wrong answer is a bug (a prior that forgot its fan-in "
        "shows in the norms of the layers, not in the predictions).",
    ),
    Recipe(
        "plain-68", "plain", 30, 12, (4, 4), 0.3,
        "Two hidden layers, more examples than inputs. What is hard: the ridges of plain-15 with one more "
        "layer to trade scale with. Mean-field approximations fix the balance of the layers and are too "
        "sure of every norm.",
    ),
    Recipe(
        "plain-40-two-outputs", "plain", 20, 6, (5,), 0.3,
        "One hidden layer, two outputs. What is hard: the scale is a matrix; correlations between outputs "
        "come from shared hidden units. An answer that treats outputs separately gets log det L wrong.",
        outputs=2,
    ),
    Recipe(
        "plain-102-three-outputs", "plain", 30, 8, (6, 6), 0.3,
        "Two hidden layers, three outputs, widths twice the outputs: an easy posterior in a hundred "
        "dimensions, the yardstick for speed.",
        outputs=3,
    ),
    # ------------------------------------------------------------------ deep and narrow
    Recipe(
        "deep-7-scalars", "deep", 10, 3, (1, 1, 1, 1), 0.3,
        "Five layers of width one: a product of numbers. What is hard: 2⁴ sign patterns with equal mass, "
        "joined only through zero, and heavy tails in every factor. A single chain visits one pattern; "
        "the functions judged here do not see signs, so that only real errors count.",
    ),
    Recipe(
        "deep-24", "deep", 15, 3, (2, 2, 2, 2, 2), 0.3,
        "Six layers of width two. What is hard: every layer is a funnel for the others; a step size that "
        "suits the ridge is unstable where one layer is small and the rest are large. Unadjusted methods "
        "are biased or explode.",
    ),
    Recipe(
        "deep-72", "deep", 20, 5, (3,) * 7, 0.3,
        "Eight layers of width three. What is hard: strong coupling between eight layers; gradients "
        "vanish near zero. Variational and Laplace fits miss by nats because no Gaussian in the weights "
        "looks like this.",
        variance=1.5,
    ),
    Recipe(
        "deep-56-two-outputs", "deep", 20, 4, (4, 4, 4), 0.3,
        "Four layers of width four, two outputs. What is hard: as deep-24 with a matrix-valued scale "
        "whose smaller eigenvalue has a long tail towards zero.",
        outputs=2,
    ),
    # ------------------------------------------------------------------ cold or few data
    Recipe(
        "cold-210", "cold", 5, 20, (10,), 0.01,
        "Five examples in twenty dimensions, almost no noise. What is hard: the posterior lies on a thin "
        "shell around interpolating networks, with condition numbers above 10⁴, while fifteen input "
        "directions are free. Langevin steps small enough for the shell never cross the free directions.",
    ),
    Recipe(
        "cold-44", "cold", 12, 6, (4, 4), 0.003,
        "More examples than inputs and noise of 0.003: the product of the layers is pinned to one part in "
        "a thousand and the layers slide along it. A wrong answer has the right predictions and wrong "
        "norms.",
    ),
    Recipe(
        "few-24", "cold", 1, 4, (3, 3), 0.1,
        "One single example. What is hard: nearly the prior of a product of three layers, whose tails are "
        "heavier than any Gaussian's. Approximations at one mode miss most of the mass.",
    ),
    Recipe(
        "cold-96-two-outputs", "cold", 6, 10, (8,), 0.02,
        "Six examples, ten inputs, two outputs, little noise: an interpolating network with a "
        "matrix-valued scale.",
        outputs=2,
    ),
    # ------------------------------------------------------------------ rank
    Recipe(
        "rank-72-bottleneck", "rank", 15, 6, (8, 1, 8), 0.3,
        "A hidden layer of one unit between two of eight. What is hard: the signal passes through one "
        "number whose sign separates the posterior in two mirror halves, and the wide layers are hardly "
        "informed.",
    ),
    Recipe(
        "rank-46-bottleneck", "rank", 20, 6, (5, 2), 0.3,
        "Three outputs through two hidden units: L has rank two and no density, so that answers built on "
        "a full-rank scale are wrong by construction.",
        outputs=3,
    ),
    Recipe(
        "rank-48-rank-one-targets", "rank", 20, 5, (6,), 0.3,
        "Three outputs that all follow one direction. What is hard: two eigenvalues of L are only bounded "
        "above; their logs have long tails. A Gaussian fit cuts them off.",
        outputs=3, teacher_rank=1,
    ),
    Recipe(
        "rank-88-many-outputs", "rank", 4, 5, (8,), 0.3,
        "Six outputs and four examples: more outputs than data. What is hard: directions of the outputs "
        "that no example informs keep their prior, and must keep it exactly.",
        outputs=6, points=1,
    ),
    # ------------------------------------------------------------------ coexistence
    Recipe(
        "coexist-10", "coexistence", 20, 2, (2, 2), 0.1196,
        "Ten weights. Half of the posterior says that the network does nothing, half that it has learnt "
        "the teacher. What is hard: the two phases are separated by a pass that no chain crosses. A wrong "
        "answer has r̂ ≤ 1.01, thousands of effective draws, no divergence, and a fitted mass of zero or "
        "one.",
        variance=0.01,
    ),
    Recipe(
        "hidden-14", "coexistence", 20, 2, (2, 2, 2), 0.135,
        "Fourteen weights and a fitted phase that carries nearly all of the mass and that nothing finds "
        "from the prior: its volume under the prior is e⁻⁶⁰ or less. SMC, nested sampling, Laplace and "
        "the ELBO agree with each other on the log evidence of the collapsed phase.",
        variance=0.02,
    ),
    Recipe(
        "coexist-45", "coexistence", 40, 8, (3, 3, 3), 0.2895,
        "Four layers of width three and eight inputs: two phases of comparable mass in forty-five "
        "dimensions. Starts in the prior end in the collapsed phase, starts at a trained network in the "
        "other.",
        variance=0.03,
    ),
    Recipe(
        "coexist-68", "coexistence", 40, 8, (4, 4, 4), 0.2626,
        "As coexist-45 with one more unit in every layer. What is hard: the pass between the phases; what "
        "a wrong answer looks like: one phase, well explored.",
        variance=0.03,
    ),
    # ------------------------------------------------------------------ size
    Recipe(
        "size-10250", "size", 100, 200, (50,), 0.5,
        "Two hundred inputs, fifty hidden units, five outputs. What is hard: dimension only. The "
        "posterior of the scale is nearly Gaussian; ten thousand weights have to be moved at once, and "
        "effective draws per second decide.",
        outputs=5, points=1,
    ),
    Recipe(
        "size-42000", "size", 100, 200, (200,), 0.5,
        "Ten outputs and two hundred hidden units: forty-two thousand weights, wide enough that "
        "infinite-width theory is nearly right.",
        outputs=10, points=1,
    ),
    Recipe(
        "size-90150", "size", 60, 300, (200, 150), 0.3,
        "Two wide hidden layers and one output, ninety thousand weights.",
    ),
    Recipe(
        "size-210300", "size", 80, 400, (300, 300), 0.3,
        "The largest: two hundred and ten thousand weights. Full-rank approximations do not fit into "
        "memory; a gradient costs less than a millisecond.",
    ),
    # ------------------------------------------------------------------ views: networks that are not linear
    Recipe(
        "gated-20", "views", 25, 3, (4,), 0.3,
        "A gated network with two gates and one hidden layer: piecewise linear in x. What is hard: as "
        "plain-15, with two channels whose scales depend on each other through the hidden units that they "
        "share. An answer that fits the two halves of the inputs separately gets log det L wrong.",
        views=2, kind="gates",
    ),
    Recipe(
        "gated-37", "views", 30, 4, (4, 3), 0.3,
        "A gated network with three gates and two hidden layers. What is hard: each gate is open for a third "
        "of the examples, so that a channel is fitted or collapsed on few data; the layers below are shared. "
        "Samplers that miss a collapsed channel have the right predictions and too large norms.",
        views=3, kind="gates", variance=0.5,
    ),
    Recipe(
        "conv-64", "views", 60, 4, (8,), 0.3,
        "One convolutional layer of eight channels on signals of four patches, with a dense readout. What is "
        "hard: filters and readout trade scale and rotate into each other, and L over the four positions is "
        "known to a factor of two. Theories with one L are too sure of every prediction.",
        views=4, kind="patches",
    ),
    Recipe(
        "conv-84", "views", 40, 6, (6, 6), 0.3,
        "Two hidden layers below a readout of two positions: a deep linear trunk applied to both halves of a "
        "signal. What is hard: the ridges of three layers, and two positions that are read by all of them; "
        "starts that fit one position and leave the other are far from the posterior.",
        views=2, kind="patches",
    ),
)  # fmt: skip
