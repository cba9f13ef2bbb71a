"""Posterior: a network conditioned on data. Predictions, feature kernel, evidence, scale."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lbnn import archive
from lbnn._base import check
from lbnn._base.arrays import like, to_numpy
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn.cross_validation import LeaveOneOut, kept_targets, left_out_scores
from lbnn.cross_validation.cells import left_out_rows
from lbnn.data.bases import InputBasis
from lbnn.data.missing import MissingCells, completing_predicts
from lbnn.data.projection import Projection
from lbnn.data.spectrum import Spectrum
from lbnn.engines import ScaleInference
from lbnn.engines.conditioned import Conditioned
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.missing import PartialLikelihood
from lbnn.likelihood.views import ViewLikelihood
from lbnn.noise.missing import level_shares, partial_likelihood
from lbnn.noise.noise import Noise
from lbnn.predict.conditional import ConditionalProcess
from lbnn.predict.feature_kernel import average_layer_kernel, average_layer_kernels
from lbnn.predict.missing import (
    AddedRow,
    CompletedProcess,
    ObservedProcess,
    TableProcess,
    most_draws,
    table_part,
)
from lbnn.predict.mixture import jackknife_squares
from lbnn.predict.part import Evidence
from lbnn.predict.predictive import Predictive
from lbnn.predict.process import Process
from lbnn.predict.weights import sample_weights
from lbnn.scale.bartlett import product
from lbnn.scale.draws import Draws
from lbnn.scale.measure import ExtendableLaw, ScaleMeasure
from lbnn.scale.prior import ScalePrior

#: What a file of `Posterior.save` holds.
KIND = "posterior"


@dataclass(frozen=True, repr=False)
class Posterior(Conditioned):
    """The posterior of a deep linear network. Returned by `Network.condition`.

    Attributes
    ----------
    prior : ScalePrior
        Law of the scale before the data.
    spectrum : Spectrum
        The data, with the first layer's prior variance in the Gram matrix.
    noise : Noise
        Kind and size of the noise.
    inference : ScaleInference
        What the engine found.
    missing : MissingCells, optional
        Targets that were not observed; the spectrum has them filled in.

    Examples
    --------
    >>> import math, numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(6, 10)), rng.normal(size=6)
    >>> post = lbnn.Network(widths=(5, 5)).condition(X, y, beta=math.inf)
    >>> bool(np.allclose(post.predict().mean, y))  # zero temperature interpolates
    True
    >>> post.diagnostics.engine
    'quadrature'
    """

    prior: ScalePrior
    spectrum: Spectrum
    noise: Noise
    inference: ScaleInference
    missing: MissingCells | None = None

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        return self._card([("noise", self.noise.kind)])

    @property
    def _examples(self) -> int:
        return self.spectrum.examples

    @property
    def _found(self) -> ScaleInference:
        return self.inference

    @property
    def scale(self) -> ScaleMeasure:
        """ρ, the posterior of the scale L = W_d ⋯ W_2 W_2ᵀ ⋯ W_dᵀ."""
        return self._scale

    @property
    def signal_covariance(self) -> Array:
        """E L, (n_d, n_d): of the outputs at an input of mean square one."""
        return self.scale.average_scale

    @property
    def noise_covariance(self) -> Array:
        """Posterior mean of the covariance of the noise across outputs, (n_d, n_d).

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X, Y, covariance = rng.normal(size=(9, 3)), rng.normal(size=(9, 2)), [[1.0, 0.5], [0.5, 1.0]]
        >>> post = lbnn.Network((5,)).condition(X, Y, noise="free", noise_covariance=covariance)
        >>> post.noise_covariance.round(6)
        array([[1. , 0.5],
               [0.5, 1. ]])
        >>> post.signal_share().shape
        (2,)
        """
        measure, root = self._scale_in_units, self.noise.root
        covariance = self.noise.mean_covariance(measure.average_scale)
        return covariance if root is None else root @ covariance @ root.T

    def signal_share(self) -> Array:
        """Posterior mean of ḡ L_jj/(ḡ L_jj + Σ_jj), the share of the signal (heritability), (n_d,).

        ḡ is the mean of the diagonal of the Gram matrix, and Σ the covariance of the noise.
        """
        scales = self.scale.variances
        root = np.eye(self.prior.outputs) if self.noise.root is None else self.noise.root
        signal = self.spectrum.mean_gram * scales
        noise = self.noise.variance * (root**2).sum(axis=1) + self.noise.coupling * scales
        return self.scale.average(signal / (signal + noise))

    def predict(
        self,
        X_test: ArrayLike | None = None,
        *more: ArrayLike,
        cross_gram: ArrayLike | None = None,
        test_gram: ArrayLike | None = None,
        views: ArrayLike | None = None,
    ) -> Predictive:
        """The posterior predictive of the network's outputs.

        Parameters
        ----------
        X_test : (p̂, n0), optional
            Test inputs; the training points by default.
        cross_gram, test_gram : (p̂, p) and (p̂, p̂), optional
            After `condition_gram`, instead of X_test: the kernel between test and training points and
            among test points. The two may also be given without their names, in this order.
        views : (p̂, 1, n0), optional
            After `condition_views` with one view, instead of X_test.
        """
        if views is not None:
            single = check.real_array(views, "views")
            if X_test is not None or single.ndim != 3 or single.shape[1] != 1:
                raise ValueError(
                    "this posterior has one view of each point: views must have shape (p̂, 1, n0), in the "
                    f"place of X_test, got views.shape={single.shape}"
                )
            X_test = single[:, 0]
        law = self._predictive_at(
            self.spectrum.project(X_test, *more, cross_gram=cross_gram, test_gram=test_gram)
        )
        return law if self.noise.root is None else law.affine(self.noise.root)

    @property
    def cells(self) -> Predictive:
        """The predictive of the table's own rows, (p, n_d): of every target, missing ones too.

        The function at the training rows; `cells.with_noise()` is a target as it would be measured there.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X, Y = rng.normal(size=(20, 5)), rng.normal(size=(20, 3))
        >>> observed = rng.random(Y.shape) < 0.8
        >>> post = lbnn.Network(widths=(10,)).condition(X, Y, beta=4.0, observed=observed)
        >>> completed = np.where(observed, Y, post.cells.mean)
        """
        weighted = self.spectrum.weights is not None
        if self.noise.coupling or weighted:
            raise ValueError(
                "cells are of rows whose noise is independent of other targets and has one variance, got "
                f"{'weights of rows' if weighted else 'coupled noise'}: use LBNNRegressor.impute"
            )
        return self.predict()

    def _predictive_at(self, projection: Projection, *, levels: bool = True) -> Predictive:
        """The predictive at projected test points, with the outputs in units of `noise.deviations`.

        A table with missing cells may have levels of its outputs, which are left out where these are not
        points but differences between points.
        """
        single = self.spectrum.single_output
        if self.missing is None:
            return Predictive.of(self._predictions, projection, single, self._evidence)
        process, weights, groups = self._table_process
        points = self.noise.transform_projection(projection, self.spectrum)
        if not levels:
            process = process.without_levels()
        elif self.missing.centred:  # levels are known up to the mean of the private inputs
            points = points.shifted(self.noise.coupling / float(self.missing.weights.sum()))
        noise, extended = (self.noise.variance, self.noise.coupling), self._extended if levels else None
        part = table_part(process, points, weights, groups, noise, self.scale.law, extended)
        return Predictive((part,), single)

    def _differences_at(self, projection: Projection) -> Predictive:
        """The predictive of differences of the function between points, projected; levels cancel."""
        return self._predictive_at(projection, levels=False)

    @property
    def _evidence(self) -> Evidence | None:
        """Itself, where outlying points can be integrated anew as more data."""
        if math.isinf(self.noise.variance):
            return WithoutData.of(self.inference.measure)
        extendable = isinstance(self.inference.measure.law, ExtendableLaw)
        return self if extendable and not self.scale.deterministic else None

    def log_density_of_rows(self, explained: Array, rest: Array, values: Array) -> float:
        """Log density of rows Φ (k, r), R (k, k) and values (k, n_d), in units of the noise, given the data.

        The log evidence with these rows among the data less that without them.
        """
        law, root = self.inference.measure.law, self.noise.root
        assert isinstance(law, ExtendableLaw)
        more = self.spectrum.with_rows(explained, rest, values if root is None else values @ root.T)
        ratio = law.log_ratio(self.noise.likelihood(more)) + self.spectrum.log_jacobian
        return ratio if root is None else ratio + len(values) * float(np.linalg.slogdet(root)[1])

    def feature_kernel(
        self,
        X_test: ArrayLike | None = None,
        *more: ArrayLike,
        cross_gram: ArrayLike | None = None,
        test_gram: ArrayLike | None = None,
        layer: int = 1,
        return_error: bool = False,
    ) -> Any:
        """⟨K_ℓ⟩, the posterior mean of K_ℓ = X W_1ᵀ⋯W_ℓᵀ W_ℓ⋯W_1 Xᵀ / n_ℓ.

        Parameters
        ----------
        X_test, cross_gram, test_gram
            As in `predict`; the training points by default.
        layer : int
            Hidden layer ℓ, from 1 (the paper's kernel) to d − 1.
        return_error : bool
            Whether the Monte Carlo standard error of every entry is returned, too.

        Returns
        -------
        (p̂, p̂) array, or two of them
        """
        points = self.spectrum.project(X_test, *more, cross_gram=cross_gram, test_gram=test_gram)
        kernel = self._layer_kernel(points, layer)
        if not return_error:
            return kernel
        groups, error = self._scale_in_units.groups, np.zeros(kernel.shape)
        if groups is not None:
            weights = (self._scale_in_units.weights * (groups != label) for label in np.unique(groups))
            others = [to_numpy(self._layer_kernel(points, layer, own / own.sum())) for own in weights]
            error = np.sqrt(jackknife_squares(others))
        return kernel, like(error, kernel)

    def _layer_kernel(self, points: Projection, layer: int, weights: Array | None = None) -> AnyArray:
        """⟨K_ℓ⟩ at projected points, (p̂, p̂), from the draws, or with other weights of these, (m,)."""
        self._require_complete("feature kernels")
        widths, number = self.prior.widths, check.positive_integer(layer, "layer")
        if number > len(widths):
            raise ValueError(
                f"layer must be a hidden layer, from 1 to {len(widths)}, got layer={number}"
                if widths
                else "a feature kernel needs a hidden layer, got a network of depth one (widths=())"
            )
        measure = self._scale_in_units
        return average_layer_kernel(
            self.noise.transform_projection(points, self.spectrum),
            self._process,
            measure if weights is None else replace(measure, weights=weights),
            widths,
            self.prior.layer_variances,
            number,
        )

    def feature_kernels(self) -> Iterator[AnyArray]:
        """⟨K_1⟩, ..., ⟨K_{d−1}⟩ on the training points, (p, p) each, at the cost of the last one alone."""
        self._require_complete("feature kernels")
        return average_layer_kernels(
            self.noise.transform_projection(self.spectrum.project(), self.spectrum),
            self._process,
            self._scale_in_units,
            self.prior.widths,
            self.prior.layer_variances,
        )

    def kernel_change(self, layer: int = 1) -> float:
        """‖⟨K_ℓ⟩ − G_xx‖ / ‖G_xx‖ in the Frobenius norm: zero where nothing is learned.

        In the eigenbasis of G_xx, which both share: (r, r) matrices at most, and no inputs are needed. With
        row weights the training points are taken as they are, without weights.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(size=(20, 50)), rng.normal(size=20)
        >>> lbnn.Network(widths=(10**6,)).condition(X, y, beta=4.0).kernel_change() < 1e-5
        True
        """
        if self.spectrum.weights is not None:
            points = self.spectrum.project()
            explained = to_numpy(points.explained)
            gram = explained @ explained.T
            change = to_numpy(self._layer_kernel(points, layer)) - gram
            return float(np.linalg.norm(change) / np.linalg.norm(gram))
        values = self.spectrum.eigenvalues
        kernel = self._layer_kernel(Projection(np.diag(np.sqrt(values))), layer)
        return float(np.linalg.norm(kernel - np.diag(values)) / np.linalg.norm(values))

    def sample_weights(self, size: int, seed: int | np.random.Generator) -> list[Array]:
        """Draw all weights from their exact posterior.

        The draws are independent with one output and at depth one. With several outputs they use scales that
        are resampled from the atoms of `scale`.

        Parameters
        ----------
        size : int
        seed : int or numpy.random.Generator

        Returns
        -------
        list of arrays
            W_1 (size, n_1, n_0), ..., W_d (size, n_d, n_{d−1}).
        """
        count, generator = check.positive_integer(size, "size"), check.generator(seed)
        basis = self.spectrum.basis
        if not isinstance(basis, InputBasis):
            raise ValueError(
                "weights act on inputs: condition on inputs X, got a posterior from a Gram matrix"
            )
        if self.noise.coupling:
            raise ValueError(
                "weights are drawn where noise is added to the outputs, got noise that passes through the "
                "network (noise='coupled'): its weights also act on inputs private to each example"
            )
        law, layers = self._scale_in_units.law, (self.prior.widths, self.prior.layer_variances)
        factors = [] if law is None else law.sample_factors(count, generator)
        process = self._process if self.missing is None else self._completed(factors, count, generator)
        weights = sample_weights(count, factors, *layers, process, basis, generator)
        if self.noise.root is not None:
            weights[-1] = self.noise.root @ weights[-1]
        return weights

    # ------------------------------------------------------------------ examples left out

    def leave_one_out(self, Y: ArrayLike | None = None) -> LeaveOneOut:
        """Score every example given all others, without refitting.

        Parameters
        ----------
        Y : (p,) or (p, n_d), optional
            The targets that the posterior was conditioned on. Needed only where it does not keep them: data
            from moments, a factor or chunks.

        Returns
        -------
        LeaveOneOut
            Mean, variance and log density of each observation, noise included. Where some targets were not
            observed: of the observed ones of each row, NaN for the others.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X, y, network = rng.normal(size=(12, 20)), rng.normal(size=12), lbnn.Network(widths=(5, 5))
        >>> scores = network.condition(X, y, beta=2.0).leave_one_out()
        >>> refit = network.condition(X[1:], y[1:], beta=2.0).predict(X[:1]).with_noise()
        >>> bool(np.isclose(scores.mean[0], refit.mean[0]))
        True
        """
        if self.missing is not None:
            if Y is not None:
                raise ValueError("with missing cells the targets are kept: leave_one_out() takes no Y")
            messages = self.diagnostics.messages
            return left_out_rows(self._table, self.missing, self.noise.variance, self.scale, messages)
        targets = kept_targets(self.spectrum) if Y is None else Y
        centred = Y is None and np.shape(targets)[0] > self.spectrum.examples
        return left_out_scores(self, targets, centred=centred)

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the posterior to a file; loading it executes no code (see docs/data-and-files.md).

        Examples
        --------
        >>> import numpy as np, pathlib, tempfile, lbnn
        >>> post = lbnn.Network(widths=(5,)).condition(np.eye(6), np.ones(6), beta=2.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     post.save(pathlib.Path(folder) / "posterior.lbnn")
        ...     again = lbnn.Posterior.load(pathlib.Path(folder) / "posterior.lbnn")
        >>> bool(np.array_equal(again.predict().mean, post.predict().mean))
        True
        """
        archive.write(path, KIND, *self._packed())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Posterior:
        """Read a posterior; a file that holds none, or is damaged, raises a ValueError."""
        return cls._unpacked(*archive.read(path, KIND))

    def _packed(self) -> archive.Packed:
        """A header for JSON and arrays, for `_unpacked`."""
        return archive.pack(self.prior, self.spectrum, self.noise, self.inference, self.missing)

    @classmethod
    def _unpacked(cls, header: dict[str, Any], arrays: dict[str, Any]) -> Posterior:
        """The posterior that was packed, with the same numbers."""
        return cls(*archive.unpack(header, arrays))

    # ------------------------------------------------------------------ inside

    def _require_complete(self, what: str) -> None:
        if self.missing is not None:
            raise ValueError(
                f"{what} are available where every target was observed, got a table with "
                f"{self.missing.count} missing cells: use rows without them"
            )

    @cached_property
    def _table(self) -> Spectrum:
        """The data of a table with missing cells, with independent noise alone."""
        assert self.missing is not None
        return self.noise.table_data(self.spectrum, self.missing)

    @property
    def _table_likelihood(self) -> PartialLikelihood:
        """Of the observed cells, by eliminating the missing ones."""
        assert self.missing is not None
        return partial_likelihood(self._table, self.missing, self.noise.variance)

    @cached_property
    def _table_process(self) -> tuple[TableProcess, Array, IndexArray | None]:
        """The Gaussian process given draws of the scale and the observed cells.

        Also the weights (m,) and groups (m,) of the draws.
        """
        cells, noise, measure = self.missing, self.noise.variance, self.scale
        assert cells is not None
        data = self._table
        completing = completing_predicts(cells, data.rank)
        rows = None if completing else cells.rows(data)
        size = cells.count if rows is None else len(rows.targets)
        most = most_draws(size, self.diagnostics.effective_sample_size)
        chosen, weights = measure._thinned(most)
        scales = measure.scales_of(chosen)
        groups = None if measure.groups is None else measure.groups[chosen]
        if rows is not None:
            return ObservedProcess.of(cells, rows, cells.features(data), noise, scales), weights, groups
        level = noise / float(cells.weights.sum()) if cells.centred else 0.0
        likelihood = partial_likelihood(data, cells, noise)
        completed = CompletedProcess(likelihood, level_shares(cells), cells.level, level, scales)
        return completed, weights, groups

    def _extended(self, row: AddedRow) -> ViewLikelihood:
        """The likelihood of the observed cells and of one more row."""
        cells = self.missing
        assert cells is not None
        return self._observed.extended(row, cells.examples, cells.log_jacobian)

    @cached_property
    def _observed(self) -> ObservedProcess:
        """The observed cells of a table with missing ones, without draws of the scale."""
        cells, data = self.missing, self._table
        assert cells is not None
        nothing = np.empty((0, data.outputs, data.outputs))
        return ObservedProcess.of(cells, cells.rows(data), cells.features(data), self.noise.variance, nothing)

    def _completed(self, factors: list[Array], count: int, rng: np.random.Generator) -> ConditionalProcess:
        """Gaussian processes given scales and draws of the missing cells, a table (r, n_d) for each draw."""
        assert self.missing is not None
        likelihood = self._table_likelihood
        root = product(factors)
        single = math.sqrt(self.prior.variance) * np.eye(self.prior.outputs)
        roots = np.broadcast_to(single, (count, *single.shape)) if root is None else root
        values, vectors = np.linalg.eigh(roots @ roots.swapaxes(1, 2))
        tables = np.empty((count, *self.spectrum.targets.shape))
        for block, gone in likelihood.eliminations(np.maximum(values, 0.0), vectors):
            tables[block] = likelihood.completed(gone.drawn(rng.standard_normal(gone.white.shape)))
        return ConditionalProcess(self.spectrum.eigenvalues, tables, self.noise.variance)

    @cached_property
    def _process(self) -> ConditionalProcess:
        """The Gaussian process given L, in units of `noise.deviations`."""
        data, values = self.noise.in_units(self.spectrum), self.noise.eigenvalues(self.spectrum)
        return ConditionalProcess(values, data.targets, self.noise.variance)

    @cached_property
    def _scale(self) -> ScaleMeasure:
        return self.noise.scale_of_outputs(self.inference.measure, len(self.prior.widths) + 1)

    @cached_property
    def _predictions(self) -> Process:
        """The Gaussian processes given the draws of the scale, in units of `noise.deviations`."""
        return Process.of(self._draws(), self.spectrum.eigenvalues, self._process.targets)

    def _draws(self, *, square: bool = False) -> Draws:
        """Of signal and noise, in units of `noise.deviations`."""
        noise = self.noise
        return Draws.of(self._scale_in_units, noise.variance, noise.coupling, noise.root, square=square)

    @cached_property
    def _left_out_draws(self) -> Draws:
        """The same with square M."""
        return self._draws(square=True)

    @cached_property
    def _scale_in_units(self) -> ScaleMeasure:
        """The law of the scale in units of `noise.deviations`."""
        return self.noise.scale_in_units(self.inference.measure, len(self.prior.widths) + 1)


@dataclass(frozen=True)
class WithoutData:
    """A law of the scale before any data."""

    law: ExtendableLaw

    @classmethod
    def of(cls, measure: ScaleMeasure) -> WithoutData | None:
        """The law behind draws, if it can be integrated anew."""
        law = measure.law
        return cls(law) if isinstance(law, ExtendableLaw) and not measure.deterministic else None

    def log_density_of_rows(self, explained: Array, rest: Array, values: Array) -> float:
        """Of function values: their log evidence as data without noise."""
        eigenvalues, axes = np.linalg.eigh(rest + explained @ explained.T)
        return self.law.log_ratio(GaussianLikelihood(eigenvalues, axes.T @ values, 0.0, len(values), 0.0))
