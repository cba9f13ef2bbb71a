"""Directions on the simplex: quadrature rules for a mixture of regions.

A direction θ has the coordinates z = Vᵀ log θ (K − 1 of them), V orthonormal columns that sum to zero, in
which the faces are at infinity and dλ_1/λ_1 ⋯ dλ_K/λ_K = √K dz d log s. A rule is a randomly shifted
lattice in the unit cube, taken to z by quantiles of Student's t around a centre, with axes of its own.
Several rules are added with the power heuristic of Veach and Guibas: a point z of rule c has the weight
ρ_c(z)³/Σ_b ρ_b(z)⁴, with ρ the density of points of a rule, so that the densest rule decides wherever a
target has its mass. On smooth integrands a lattice is far better than random points: a Gaussian is
integrated to 1% with two deviations from point to point.

Lattices have 2^m points and are embedded in each other: a rule that is not fine enough is doubled, and its
points are kept. The first and the second half are two lattices, shifted against each other: from their
answers come the stated errors, which are those of half of the points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse, special
from scipy.cluster.vq import kmeans, vq
from scipy.interpolate import RBFInterpolator
from scipy.spatial import Delaunay, KDTree

from lbnn._base.types import Array, IndexArray, Mask

SETS = 2  # halves of the directions, whose answers are compared
_POWER = 4.0  # of the power heuristic
_CLUSTERS = (1, 2, 3, 4, 6, 8, 12, 16)  # numbers of clusters of targets that are tried
_FINE_CLUSTERS = (1, 2, 4, 8, 16, 32, 64)  # of targets that share a rule of interpolated directions
_FEWEST_FINE = 2048  # points of such a rule
_LOOKED_AT = 2000  # targets from which clusters are made; the others join the nearest
_FEWEST_MEMBERS = 4  # targets of a cluster, on average, at least
_TAILS = (
    4.0  # degrees of freedom of Student's t; posteriors of log ratios fall exponentially, which is faster
)
_CORE = float(special.stdtrit(_TAILS, 0.99))
_REACH = 1.2  # spacings from the next direction up to which there is interpolation
_SUPPORT = 3.5  # spacings from the points to be interpolated up to which directions are used
_APART = 0.2  # spacings between directions, at least
_COINCIDE = 0.02  # distance in deviations; the condition number grows with its fifth power
FEWEST_POINTS = 16  # of a rule
_REGION = 4.0  # posterior deviations around which a lattice has points: an exponential tail has 1% beyond
_NEIGHBOURS = 2.0  # spacings by which it is larger, so that interpolation has points on all sides
_START = 0.25  # part of the points that a rule is thought to need with which it begins
#: Generating vector of embedded lattices: component by component, the smallest worst-case error in Korobov's
#: space of smoothness two on average over 2^4 to 2^11 points.
_GENERATOR = np.array([1, 873, 701, 611, 541, 559, 739, 483, 1309, 2787, 3357, 1565, 2531, 3613, 995, 1053])


def contrasts(bands: int) -> Array:
    """V (K, K − 1): orthonormal columns that sum to zero (Helmert's)."""
    columns = [
        np.concatenate([np.ones(k), [-float(k)], np.zeros(bands - k - 1)]) / math.sqrt(k * (k + 1))
        for k in range(1, bands)
    ]
    return np.array(columns).T.reshape(bands, bands - 1)


def log_directions(z: Array) -> Array:
    """log θ (m, K) of coordinates (m, K − 1)."""
    logs = z @ contrasts(z.shape[1] + 1).T
    return logs - special.logsumexp(logs, axis=1, keepdims=True)


@dataclass(frozen=True)
class Rule:
    """A shifted lattice around a centre (d,), along the columns of axes (d, d).

    Attributes
    ----------
    centre, axes : (d,), (d, d)
    shift : (d,)
        In the unit cube.
    points : (n, d)
        n a power of two. The first half are the points of the rule before it was doubled.
    wanted : float
        Points that it is thought to need.
    """

    centre: Array
    axes: Array
    shift: Array
    points: Array
    wanted: float

    @classmethod
    def around(
        cls, centre: Array, covariance: Array, wanted: float, count: float, rng: np.random.Generator
    ) -> Rule:
        """Of about `count` points, with Student's t of this centre (k,) and scale matrix (k, k)."""
        if len(centre) > len(_GENERATOR):
            raise ValueError(f"there may be at most {len(_GENERATOR) + 1} bands, got {len(centre) + 1}")
        values, vectors = np.linalg.eigh(covariance)
        axes = vectors * np.sqrt(np.maximum(values, 1e-12 * values.max()))
        number = 2 ** math.floor(math.log2(max(count, FEWEST_POINTS)))
        empty = cls(centre, axes, rng.random(len(centre)), np.zeros((0, len(centre))), wanted)
        return empty._with(np.arange(number))

    def doubled(self) -> Rule:
        """The rule with twice as many points."""
        count = len(self.points)
        return self._with(np.arange(count, 2 * count))

    def _with(self, numbers: IndexArray) -> Rule:
        """With points (j,) of the sequence of embedded lattices."""
        cube, tiny = _embedded(numbers, self.shift), np.finfo(float).eps
        student = special.stdtrit(_TAILS, np.clip(cube, tiny, 1 - tiny))
        return replace(self, points=np.concatenate([self.points, self.centre + student @ self.axes.T]))

    def whitened(self, z: Array) -> Array:
        """Points z (m, d) in coordinates along the axes, (m, d)."""
        return np.asarray(np.linalg.solve(self.axes, (z - self.centre).T).T, np.float64)

    def log_density(self, z: Array) -> Array:
        """Log of the density of points at z (m, d)."""
        student = self.whitened(z).T
        constant = special.gammaln((_TAILS + 1) / 2) - special.gammaln(_TAILS / 2)
        constant -= 0.5 * math.log(_TAILS * math.pi)
        each = constant - (_TAILS + 1) / 2 * np.log1p(student**2 / _TAILS)
        return math.log(len(self.points)) + each.sum(axis=0) - np.linalg.slogdet(self.axes)[1]


def _embedded(numbers: IndexArray, shift: Array) -> Array:
    """Points (n, d) of the sequence of embedded lattices in the unit cube: φ(i) g + shift (d,), modulo 1."""
    bits = (numbers[:, None] >> np.arange(32)) & 1
    inverse = bits @ 0.5 ** np.arange(1.0, 33.0)  # φ, the radical inverse in base two
    return np.asarray((inverse[:, None] * _GENERATOR[: len(shift)] + shift) % 1.0, np.float64)


@dataclass(frozen=True)
class Lattice:
    """Points at nearly equal distances in a cube of z, of which those near the mass of targets are used.

    The first 2^m points are a lattice for every m: a finer one keeps the points of the coarser.

    Attributes
    ----------
    low : (d,)
        Corner of the cube.
    side : float
    shift : (d,)
        In the unit cube.
    """

    low: Array
    side: float
    shift: Array

    @classmethod
    def around(cls, means: Array, covariances: Array, margin: float, rng: np.random.Generator) -> Lattice:
        """That holds the mass of targets with these moments, (V, d) and (V, d, d), and margin around it."""
        reach = _REGION * np.sqrt(np.diagonal(covariances, axis1=1, axis2=2)) + margin
        low, high = (means - reach).min(axis=0), (means + reach).max(axis=0)
        return cls(low, float((high - low).max()), rng.random(len(low)))

    def count(self, spacing: float) -> int:
        """Points of the coarsest lattice whose cells are not larger than cubes of this side."""
        return int(2 ** math.ceil(len(self.low) * math.log2(self.side / spacing)))

    def points(self, numbers: IndexArray) -> Array:
        """z (n, d) of the points of these numbers (n,)."""
        return self.low + self.side * _embedded(numbers, self.shift)

    def near(self, means: Array, covariances: Array, spacing: float) -> tuple[IndexArray, IndexArray]:
        """Numbers (n,) of points in the region of a target at least, and how many targets ask for each, (n,).

        Regions are ellipsoids: `_REGION` deviations of the posterior and `_NEIGHBOURS` spacings around.
        """
        numbers, dimension = np.arange(self.count(spacing)), len(self.low)
        z = self.points(numbers)
        asking = np.zeros(len(numbers), np.int64)
        wide = _REGION**2 * covariances + (_NEIGHBOURS * spacing) ** 2 * np.eye(dimension)
        precisions = np.linalg.inv(wide)
        # (z − m)ᵀ P (z − m) as one product of matrices
        pairs = (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)
        features = np.concatenate([pairs, z, np.ones((len(z), 1))], axis=1)
        linear = np.einsum("vij,vj->vi", precisions, means)
        constant = np.einsum("vi,vi->v", linear, means)
        coefficients = np.concatenate(
            [precisions.reshape(len(means), -1), -2 * linear, constant[:, None]], axis=1
        )
        for part in np.array_split(np.arange(len(means)), max(1, len(means) * len(z) // 10**7)):
            asking += (features @ coefficients[part].T <= 1.0).sum(axis=1)
        return numbers[asking > 0], asking[asking > 0]


def log_weights(rules: Sequence[Rule]) -> Array:
    """Log weights (m,) of all points, one rule after the other: the integral of f is Σ_j weight_j f(z_j)."""
    z = np.concatenate([rule.points for rule in rules])
    densities = np.stack([rule.log_density(z) for rule in rules])  # (rules, m)
    own = np.repeat(np.arange(len(rules)), [len(rule.points) for rule in rules])
    return (_POWER - 1) * densities[own, np.arange(len(z))] - special.logsumexp(_POWER * densities, axis=0)


def set_numbers(rules: Sequence[Rule]) -> IndexArray:
    """The half of its rule, 0 or 1, that every point belongs to, (m,)."""
    return np.concatenate([np.arange(len(rule.points)) * SETS // len(rule.points) for rule in rules])


def interpolation(
    points: Array, fine: Rule, chosen: Mask, spacing: float | None
) -> tuple[Array, Mask] | None:
    """A matrix (M, J) that takes values at points (J, d), where chosen, to those of a fine rule; and where.

    By radial basis functions |x|⁵ and quadratic polynomials, which need no length scale: in z where points
    have a common spacing, else in the coordinates of the fine rule. Far out, beyond the quantiles 0.01 and
    0.99 of its axes or farther than `_REACH` spacings from all points, it is the value of the nearest point;
    the mask (M,) says which points are not so far out.
    Of two points that nearly coincide, which would make the equations ill-conditioned, the later is used.
    None where there are too few points, and in one dimension, where a finer rule costs little.
    """
    x, new = fine.whitened(points), fine.whitened(fine.points)
    core, near, apart = np.abs(new).max(axis=1) < _CORE, np.abs(x).max(axis=1) < 2 * _CORE, _COINCIDE
    if spacing is not None:
        near |= covered(fine.points[core], points, _SUPPORT * spacing)
        core &= covered(points[chosen], fine.points, _REACH * spacing)
        x, new, apart = points / spacing, fine.points / spacing, _APART
    near &= chosen
    candidates = np.flatnonzero(near)
    near[candidates[KDTree(x[near]).query_pairs(apart, output_type="ndarray")[:, 0]]] = False
    dimension = x.shape[1]
    if dimension < 2 or near.sum() < 2 * (dimension + 1) * (
        dimension + 2
    ):  # four times the coefficients of a quadratic
        return None
    matrix = np.zeros((len(new), len(x)))
    spline = RBFInterpolator(x[near], np.eye(int(near.sum())), kernel="quintic", degree=2)
    if core.any():
        matrix[np.ix_(core, near)] = spline(new[core])
    matrix[np.flatnonzero(~core), nearest_points(x[chosen], new[~core], np.flatnonzero(chosen))] = 1.0
    return matrix, core


def covered(points: Array, new: Array, reach: float) -> Mask:
    """Whether a point (k, d) has one of the points (m, d) within reach, (k,)."""
    return np.asarray(KDTree(points).query(new, distance_upper_bound=reach)[0] < math.inf, bool)


def between(points: Array, new: Array) -> sparse.csr_array:
    """Weights (k, m) of points (m, d) with which new ones (k, d) are averages of the nearest around them.

    Barycentric coordinates in a triangulation; one weight where a point is outside of it.
    """
    triangles = Delaunay(points)
    own = triangles.find_simplex(new)
    inside = np.flatnonzero(own >= 0)
    transform = triangles.transform[own[inside]]
    dimension = points.shape[1]
    first = np.einsum("kij,kj->ki", transform[:, :dimension], new[inside] - transform[:, dimension])
    weights = np.clip(np.concatenate([first, 1 - first.sum(axis=1, keepdims=True)], axis=1), 0.0, 1.0)
    outside = np.flatnonzero(own < 0)
    alone = nearest_points(points, new[outside], np.arange(len(points)))
    rows = np.concatenate([np.repeat(inside, dimension + 1), outside])
    columns = np.concatenate([triangles.simplices[own[inside]].ravel(), alone])
    values = np.concatenate([weights.ravel(), np.ones(len(outside))])
    return sparse.csr_array((values, (rows, columns)), shape=(len(new), len(points)))


def nearest_points(x: Array, new: Array, numbers: IndexArray) -> IndexArray:
    """The numbers (k,) of the points x (m, d) that are nearest to new ones (k, d)."""
    return numbers[KDTree(x).query(new)[1]]


def first_rules(mean: Array, variance: Array, rng: np.random.Generator) -> list[Rule]:
    """Rules before anything is known of the targets: around the prior and around equal contributions.

    Parameters
    ----------
    mean, variance : (K,)
        Of the prior of log λ_k, for kernels of mean diagonal one.
    """
    turn = contrasts(len(mean))
    prior, count = turn.T @ np.diag(variance) @ turn, points_for_one(len(mean) - 1)
    rules = [Rule.around(turn.T @ mean, 1.5 * prior, count, count, rng)]
    return [*rules, Rule.around(np.zeros(len(turn.T)), 4.0 * np.eye(len(turn.T)), count, count, rng)]


def rules_for(
    means: Array, covariances: Array, refinement: float, most: int, price: float, rng: np.random.Generator
) -> list[tuple[IndexArray, Rule]]:
    """Clusters of targets, as positions, and for each a rule where its targets have their mass.

    A rule is looked at for the targets of its cluster only. Small clusters need few points, since their
    targets have their mass in one place, but every point costs an eigendecomposition: the number of clusters
    is that of the smallest cost.

    Parameters
    ----------
    means, covariances : (V, d), (V, d, d)
        Of the posteriors of z of targets that need more directions.
    refinement : float
        How many times finer than usual rules are to be.
    most : int
        Points of a rule at most.
    price : float
        Cost of an eigendecomposition, in units of that of one target along one direction.
    """
    some = rng.permutation(len(means))[:_LOOKED_AT]
    best: tuple[float, IndexArray, list[tuple[Array, Array, float]]] | None = None
    for count in _CLUSTERS:
        if best is not None and count * _FEWEST_MEMBERS > len(some):
            break
        centres = kmeans(means[some], count, iter=2, rng=rng)[0] if count > 1 else means[:1]
        labels = np.unique(vq(means, centres)[0], return_inverse=True)[1]
        regions = [
            _region(means[labels == each], covariances[labels == each]) for each in range(labels.max() + 1)
        ]
        sizes = np.bincount(labels)
        cost = sum(points * (price + size) for (_, _, points), size in zip(regions, sizes, strict=True))
        if best is None or cost < best[0]:
            best = cost, labels, regions
    assert best is not None
    _, labels, regions = best
    found = []
    for each, (centre, scale, points) in enumerate(regions):
        wanted = refinement * points
        rule = Rule.around(centre, scale, wanted, min(_START * wanted, most), rng)
        found.append((np.flatnonzero(labels == each), rule))
    return found


def fine_rules(
    means: Array, covariances: Array, most: int, rng: np.random.Generator
) -> list[tuple[IndexArray, Rule]]:
    """Clusters of targets, as positions, and for each a rule that is fine enough for every target of it.

    As few clusters as have rules of at most `most` points. Moments (V, d) and (V, d, d) as in `rules_for`.
    """
    some = rng.permutation(len(means))[:_LOOKED_AT]
    for count in _FINE_CLUSTERS:
        centres = kmeans(means[some], count, iter=2, rng=rng)[0] if count > 1 else means[:1]
        labels = np.unique(vq(means, centres)[0], return_inverse=True)[1]
        clusters = [np.flatnonzero(labels == each) for each in range(labels.max() + 1)]
        regions = [_region(means[each], covariances[each]) for each in clusters]
        if max(points for _, _, points in regions) <= most or 2 * count > len(some):
            break
    found = []
    for members, (centre, scale, points) in zip(clusters, regions, strict=True):
        found.append(
            (members, Rule.around(centre, scale, points, min(max(8 * points, _FEWEST_FINE), most), rng))
        )
    return found


def _region(means: Array, covariances: Array) -> tuple[Array, Array, float]:
    """Centre (k,), scale matrix (k, k) and number of points of a rule for some targets."""
    centre, dimension = means.mean(axis=0), means.shape[1]
    offsets = means - centre
    scale = 1.5 * covariances.mean(axis=0) + offsets.T @ offsets / len(means)
    narrow = np.quantile(np.linalg.slogdet(covariances)[1], 0.1)
    cells = 0.5 * (np.linalg.slogdet(scale)[1] - narrow)
    return centre, scale, points_for_one(dimension) * math.exp(min(cells, 20.0))


def points_for_one(dimension: int) -> float:
    """Points of a rule that serve one target whose posterior has the rule's centre and scale."""
    return 16.0 * 1.8**dimension
