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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy import special
from scipy.cluster.vq import kmeans, vq
from scipy.interpolate import RBFInterpolator
from scipy.spatial import KDTree

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
FEWEST_POINTS = 16  # of a rule
_APART = 0.03  # distance between directions in coordinates of interpolation, at least
_ALL_FACES = 6  # bands, at most, with directions on all faces of the simplex: 2^6 − 1 of them
_OFF = -16.0  # log θ_k of a band that is switched off there: far below all floors
MOST_USED = 512  # directions, at most, between which there is interpolation: it costs their number cubed
#: Bands, at most. Each half of the `MOST_USED` directions then has three for every one of the K (K + 1)/2
#: coefficients of a quadratic polynomial.
MOST_BANDS = 12
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


def log_weights(rules: Sequence[Rule]) -> Array:
    """Log weights (m,) of all points, one rule after the other: the integral of f is Σ_j weight_j f(z_j)."""
    z = np.concatenate([rule.points for rule in rules])
    densities = np.stack([rule.log_density(z) for rule in rules])  # (rules, m)
    own = np.repeat(np.arange(len(rules)), [len(rule.points) for rule in rules])
    return (_POWER - 1) * densities[own, np.arange(len(z))] - special.logsumexp(_POWER * densities, axis=0)


def set_numbers(rules: Sequence[Rule]) -> IndexArray:
    """The half of its rule, 0 or 1, that every point belongs to, (m,)."""
    return np.concatenate([np.arange(len(rule.points)) * SETS // len(rule.points) for rule in rules])


class Interpolation:
    """Functions of the direction from their values at some directions.

    By radial basis functions |x|⁵ and quadratic polynomials, which need no length scale, in the coordinates
    x = Vᵀ log(θ_k + floor_k). Where θ_k is far below its floor the band is switched off and the likelihood
    does not change any more; in these coordinates such directions coincide, and all directions are in a
    bounded region. Of two that nearly coincide, which would make the equations ill-conditioned, the later
    is used.

    Parameters
    ----------
    log_theta : (J, K)
    floors : (K,)
    chosen : (J,) of bool
        The directions whose values may be used.
    below : (J,)
        Of those that do not coincide, the ones with the smallest of these numbers are used, ...
    most : int
        ... so many at most.
    """

    def __init__(self, log_theta: Array, floors: Array, chosen: Mask, below: Array, most: int) -> None:
        self.log_theta, self.floors, near = log_theta, floors, chosen.copy()
        x, candidates = self._coordinates(log_theta), np.flatnonzero(chosen)
        near[candidates[KDTree(x[near]).query_pairs(_APART, output_type="ndarray")[:, 0]]] = False
        distinct = np.flatnonzero(near)
        self.used = np.sort(distinct[np.argsort(below[distinct], kind="stable")[:most]])
        self._spline = RBFInterpolator(x[self.used], np.eye(len(self.used)), kernel="quintic", degree=2)

    def matrix(self, log_theta: Array) -> Array:
        """(M, J): takes values at the directions to values at others (M, K)."""
        full = np.zeros((len(log_theta), len(self.log_theta)))
        full[:, self.used] = self._spline(self._coordinates(log_theta))
        return full

    def nearest(self, log_theta: Array) -> Array:
        """(M, J): one for the nearest direction in x to each of others (M, K), else zero."""
        tree = KDTree(self._coordinates(self.log_theta[self.used]))
        full = np.zeros((len(log_theta), len(self.log_theta)))
        full[np.arange(len(full)), self.used[tree.query(self._coordinates(log_theta))[1]]] = 1.0
        return full

    def _coordinates(self, log_theta: Array) -> Array:
        """x (M, K − 1) of directions (M, K)."""
        logs = np.logaddexp(log_theta, np.log(self.floors))
        return np.asarray(logs @ contrasts(log_theta.shape[1]), np.float64)


def first_rules(mean: Array, variance: Array, most: int, rng: np.random.Generator) -> list[Rule]:
    """Rules before anything is known of the targets: around the prior and around equal contributions.

    Parameters
    ----------
    mean, variance : (K,)
        Of the prior of log λ_k, for kernels of mean diagonal one.
    most : int
        Points of both rules together at most, as far as interpolation can do with so few.
    """
    turn = contrasts(len(mean))
    prior = turn.T @ np.diag(variance) @ turn
    count = min(points_for_one(len(mean) - 1), max(most, MOST_USED) / 2)
    rules = [Rule.around(turn.T @ mean, 1.5 * prior, count, count, rng)]
    return [*rules, Rule.around(np.zeros(len(turn.T)), 4.0 * np.eye(len(turn.T)), count, count, rng)]


def face_directions(bands: int) -> Array:
    """log θ (F, K) of the middles of all faces: vertices, edges, … up to the simplex itself.

    No rule has points there, and without them values on faces would be extrapolations. With many bands
    vertices and edges only, whose number does not grow exponentially.
    """
    largest = bands if bands <= _ALL_FACES else 2
    faces = [each for size in range(1, largest + 1) for each in combinations(range(bands), size)]
    logs = np.full((len(faces), bands), _OFF)
    for row, face in zip(logs, faces, strict=True):
        row[list(face)] = 0.0
    return np.asarray(logs - special.logsumexp(logs, axis=1, keepdims=True), np.float64)


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
    best: tuple[float, list[_Cluster]] | None = None
    for clusters in _divisions(means, covariances, _CLUSTERS, _FEWEST_MEMBERS, rng):
        cost = sum(each.points * (price + len(each.members)) for each in clusters)
        if best is None or cost < best[0]:
            best = cost, clusters
    assert best is not None
    found = []
    for each in best[1]:
        wanted = refinement * each.points
        rule = Rule.around(each.centre, each.scale, wanted, min(_START * wanted, most), rng)
        found.append((each.members, rule))
    return found


def fine_rules(
    means: Array, covariances: Array, most: int, rng: np.random.Generator
) -> list[tuple[IndexArray, Rule]]:
    """Clusters of targets, as positions, and for each a rule that is fine enough for every target of it.

    As few clusters as have rules of at most `most` points. Moments (V, d) and (V, d, d) as in `rules_for`.
    """
    for clusters in _divisions(means, covariances, _FINE_CLUSTERS, 1, rng):
        if max(each.points for each in clusters) <= most:
            break
    return [
        (
            each.members,
            Rule.around(
                each.centre, each.scale, each.points, min(max(8 * each.points, _FEWEST_FINE), most), rng
            ),
        )
        for each in clusters
    ]


@dataclass(frozen=True)
class _Cluster:
    """Targets (v,), as positions, and centre (d,), scale matrix (d, d) and points of a rule for them."""

    members: IndexArray
    centre: Array
    scale: Array
    points: float

    @classmethod
    def of(cls, members: IndexArray, means: Array, covariances: Array) -> _Cluster:
        """Of members (v,) of targets with moments (V, d) and (V, d, d)."""
        own, spreads = means[members], covariances[members]
        centre, offsets = own.mean(axis=0), own - own.mean(axis=0)
        scale = 1.5 * spreads.mean(axis=0) + offsets.T @ offsets / len(own)
        narrow = np.quantile(np.linalg.slogdet(spreads)[1], 0.1)
        cells = 0.5 * (np.linalg.slogdet(scale)[1] - narrow)
        return cls(members, centre, scale, points_for_one(own.shape[1]) * math.exp(min(cells, 20.0)))


def _divisions(
    means: Array, covariances: Array, counts: Sequence[int], fewest: int, rng: np.random.Generator
) -> Iterator[list[_Cluster]]:
    """Divisions of targets into growing numbers of clusters, of `fewest` members on average at least."""
    some = rng.permutation(len(means))[:_LOOKED_AT]
    for count in counts:
        if count > 1 and count * fewest > len(some):
            break
        centres = kmeans(means[some], count, iter=2, rng=rng)[0] if count > 1 else means[:1]
        labels = vq(means, centres)[0]
        yield [_Cluster.of(np.flatnonzero(labels == each), means, covariances) for each in np.unique(labels)]


def points_for_one(dimension: int) -> float:
    """Points of a rule that serve one target whose posterior has the rule's centre and scale."""
    return 16.0 * 1.8**dimension
