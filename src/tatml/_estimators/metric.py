"""The base classes of metrics with `components_`, Euclidean after `transform`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import update_wrapper
from math import isfinite, prod, sqrt
from types import MethodType, SimpleNamespace
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._array import Doubles, Indices, asarray
from .._data.arrays import as_real_array, group_labels, read_groups
from .._data.blocks import Blocks
from .._data.pairs import Pairs, as_index, as_sample_weight
from .._data.sparse import SparseBlock
from .._learning.enrolment import enrolled_scores
from .._learning.labelled import LabelledSamples
from .._learning.metric import (
    Metric,
    check_distances,
    one_or_list,
)
from .._learning.outliers import replace_cells
from .._learning.samples import named_samples
from .._learning.span import Factor, SpanFactor, SpanResult, too_large
from .._learning.task import Settings
from .._optim.result import Result
from .._optim.solvers import Newton
from .._validation import as_list, check_flag
from ..features._kernel_map import KernelMap, name_images
from .inputs import class_labels, place_of_samples, samples_of, tuple_samples
from .pair_judge import PairJudge

CENTER = "_center"  # the attribute: one array of shape (n_m, n'_m) per block
N_SAMPLES = "_n_samples"  # the attribute: the number of different samples
NEGLIGIBLE = 1e-50  # weights of samples, relative to the largest
MANY = 3  # samples per row of a block that span all rows, unless nearly all of them are repeated


class LearntMetric:
    """The learnt distance as a function of two samples, returned by `get_metric`.

    It has its own copy of the components, so refitting the estimator does not change it. For many
    pairs `pair_distance` is much faster, and for nearest neighbours `transform` is.
    """

    def __init__(
        self,
        components: Sequence[Factor],
        shapes: Sequence[tuple[int, int]],
        kernel_map: KernelMap | None = None,
        cells: Sequence[Doubles] | None = None,
    ):
        self.components = [
            factor if isinstance(factor, SpanFactor) else np.array(factor, ndmin=2)
            for factor in components
        ]
        self.shapes = list(shapes)
        if kernel_map is None:  # users may have replaced `components_`, as metric-learn's tests do
            parts = zip(self.components, shapes, strict=True)
            self.shapes = [(factor.shape[1], width) for factor, (_, width) in parts]
        self.kernel_map, self.cells = kernel_map, cells

    def __call__(self, u: Any, v: Any, squared: bool = False) -> float:
        """Return the distance of two samples: vectors, matrices, or one matrix per block."""
        squared = check_flag("squared", squared)
        members = [self._sample(u), self._sample(v)]
        with np.errstate(all="ignore"):  # a total that is not finite is refused below
            total = sum(
                float(np.sum((component @ (a - b)) ** 2))
                for component, a, b in zip(self.components, *members, strict=True)
            )
        if not isfinite(total):
            raise ValueError(
                "u, v: expected finite numbers whose distance a float can hold, got samples at a "
                f"squared distance of {total}"
            )
        return total if squared else sqrt(total)

    def _sample(self, values: Any) -> list[NDArray[np.float64]]:
        parts = [values]
        if len(self.shapes) > 1:
            what = f"one matrix for each of {len(self.shapes)} blocks"
            parts = as_list("u, v", values, what)
            if len(parts) != len(self.shapes):
                raise ValueError(f"u, v: expected {what}, got {len(parts)}")
        sample = [_as_matrix(part, shape) for part, shape in zip(parts, self.shapes, strict=True)]
        if self.kernel_map is None and self.cells is None:
            return sample
        blocks = Blocks(*(matrix[None] for matrix in sample))
        if self.cells is not None:
            blocks = replace_cells(blocks, self.cells)
        if self.kernel_map is not None:
            blocks = self.kernel_map.map_blocks(blocks)
        return [array[0] for array in blocks.arrays]


def _as_matrix(values: Any, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return one sample of a block; it may be given flat, and a 1×1 sample as a number."""
    array = values
    # Neighbour searches call this often: do not convert what is an array already.
    if type(values) is not np.ndarray or values.dtype != np.float64:
        array = as_real_array(values, "u, v").astype(np.float64, copy=False)
    size = prod(shape)
    if array.shape not in {shape, (size,), (1, size)} and not array.size == size == 1:
        raise ValueError(f"u, v: expected a sample of shape {shape} as in fit, got {array.shape}")
    return array.reshape(shape)


class _NotFormed:
    """A descriptor that says why an estimator has no square matrix, if its block is too large."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        result = None if instance is None else vars(instance).get("result_")
        if instance is not None and instance._signed_scores:
            raise AttributeError(no_distance(self.name, owner))
        if isinstance(result, SpanResult):
            raise AttributeError(too_large(self.name, max(n for n, _ in instance.block_shapes_)))
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}")


def no_distance(name: str, owner: type) -> str:
    """Return why an estimator with midpoints lacks what a distance has."""
    return (
        f"{name}: {owner.__name__}(midpoint=True) learns a score of pairs, which is no distance; "
        "use pair_score or predict_pairs, search_vectors for search, or midpoint=False"
    )


def _no_score(name: str, owner: type) -> str:
    """Return why an estimator without midpoints lacks what their score has."""
    return (
        f"{name}: {owner.__name__} learns a distance without midpoint=True; search for the nearest "
        "rows of transform(X)"
    )


class _Only:
    """A descriptor that hides a method of scores, or one of distances, where there are no such."""

    def __init__(self, method: Any, of_scores: bool = False) -> None:
        self.method, self.of_scores = method, of_scores
        update_wrapper(self, method)  # type: ignore[arg-type]  # it takes any object

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self.method
        if instance._signed_scores != self.of_scores:
            reason = _no_score if self.of_scores else no_distance
            raise AttributeError(reason(self.method.__name__, owner))
        return MethodType(self.method, instance)


class NoFitTransform:
    """A descriptor that hides `fit_transform`: fit takes tuples, and transform takes samples."""

    def __init__(self, fit: str):
        self.fit = fit

    def __get__(self, instance: Any, owner: Any) -> NoReturn:
        if instance is not None and instance._signed_scores:
            raise AttributeError(no_distance("fit_transform", owner))
        raise AttributeError(
            f"fit_transform: {owner.__name__} is fitted on {owner._tuples_name} and transforms "
            f"samples; call {self.fit}, then transform(X)"
        )


class MetricEstimator(PairJudge, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of metrics with `components_`: the Euclidean distance after `transform`.

    With midpoints there is a score in place of a distance, and no `transform`.
    """

    kernel: Any = None  # of estimators without this parameter
    midpoint: Any = False
    new_classes: Any = True
    kernel_map_: KernelMap | None = None
    result_: Result
    pairs_: Indices | None
    similar_: NDArray[np.bool_] | None
    pair_weights_: Doubles | None
    # Attributes of an instance, which hide these.
    components_: Any = _NotFormed()
    prior_: Any = _NotFormed()

    def transform(self, X: Blocks | ArrayLike) -> NDArray:
        """Embed samples so that their Euclidean distance is the learnt distance.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            Samples of the same shape as in fit.

        Returns
        -------
        array of shape (n_samples, n_features_out)
            The product of `components_` and the matrix of each block, flattened, and concatenated
            over the blocks. For samples on a GPU it is computed there.
        """
        check_is_fitted(self)
        blocks = samples_of(self, X, reset=False)
        place = place_of_samples(self.preprocessor, X)
        rows = self._metric.embed(blocks, place)
        return rows if place is None else asarray(rows, place)

    def pair_distance(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Compute the learnt distance of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n) or (n_pairs, 2, n, n')
            Pairs of samples. With `X` or a preprocessor, index pairs of shape (n_pairs, 2).
        X : Blocks or array-like, optional
            The samples that index pairs refer to.

        Returns
        -------
        array of shape (n_pairs,)
            Distances, not squared: they satisfy the triangle inequality. For samples on a GPU they
            are computed there.
        """
        return self._dissimilarity(pairs, X)

    @property
    def _signed_scores(self) -> bool:
        """Whether there are midpoints: in the fitted metric if there is one, else as asked for."""
        if "result_" in vars(self):
            return "sum_factors_" in vars(self)
        return bool(self.midpoint)

    def _dissimilarity(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Return the distance of each pair, or its q."""
        check_is_fitted(self)
        blocks, index = self._pairs_of(pairs, X)
        place = place_of_samples(self.preprocessor, pairs if X is None else X)
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._metric.dissimilarities(blocks, index, place)
        found = check_distances(found, blocks, "pairs" if X is None else "X")
        return found if place is None else asarray(found, place)

    def search_vectors(self, X: Blocks | ArrayLike) -> tuple[NDArray, NDArray]:
        """Return vectors of samples whose inner products are their scores, with midpoints.

        The product of a row of the first array and a row of the second is `pair_score` of the two
        samples. So a search by inner product, such as ``faiss.IndexFlatIP``, finds the samples that
        are most alike: add the second array of known samples to the index, and search for the first
        array of new ones.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            Samples of the same shape as in fit.

        Returns
        -------
        queries, entries : arrays of shape (n_samples, n_vectors)
            For n features, ``n + 2`` numbers per sample. For samples on a GPU they are computed
            there.
        """
        check_is_fitted(self)
        blocks = samples_of(self, X, reset=False)
        place = place_of_samples(self.preprocessor, X)
        queries, entries = self._metric.search_rows(blocks, place)
        if place is not None:
            queries, entries = asarray(queries, place), asarray(entries, place)
        return queries, entries

    def enrolled_scores(
        self, X: Blocks | ArrayLike, enrolled: Blocks | ArrayLike, groups: ArrayLike
    ) -> NDArray:
        """Return the score of each sample and each identity with enrolled samples, with midpoints.

        For identities with one enrolled sample it is `pair_score`. With more of them it is the
        score that the model of the midpoint gives to all of them together: they are samples of one
        class that fit has not seen, so the mean of many tells more than one of them, and samples
        that are alike less than samples that differ. All scores are comparable with
        ``-threshold_``.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            Samples of the same shape as in fit.
        enrolled : Blocks, or array-like of shape (n_enrolled, n) or (n_enrolled, n, n')
            Samples of known identity.
        groups : array-like of shape (n_enrolled,)
            Their identities.

        Returns
        -------
        array of shape (n_samples, n_identities)
            The columns are in the order of ``numpy.unique(groups)``. For samples on a GPU they are
            computed there.

        Notes
        -----
        Along axes that do not tell classes apart by this model, the mean of the scores of the
        enrolled samples is taken. With ``new_classes=False`` the score is that of classes which
        recur, and the method raises a `ValueError`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from tatml import TATML
        >>> X, y = load_digits(return_X_y=True)
        >>> metric = TATML(midpoint=True, new_classes=True, random_state=0).fit(X[y < 5], y[y < 5])
        >>> others, owner = X[y >= 5], y[y >= 5]
        >>> scores = metric.enrolled_scores(others[50:], others[:50], owner[:50])
        >>> scores.shape
        (846, 5)
        >>> bool(np.mean(5 + scores.argmax(axis=1) == owner[50:]) > 0.7)
        True
        """
        check_is_fitted(self)
        if not self.new_classes:
            raise ValueError(
                "enrolled_scores: expected a fit with new_classes=True, whose score is that of "
                "identities that fit has not seen, got new_classes=False"
            )
        with named_samples("enrolled"):
            known = samples_of(self, enrolled, reset=False)
        blocks, place = samples_of(self, X, reset=False), place_of_samples(self.preprocessor, X)
        _, identity = read_groups(groups, len(known))
        found = enrolled_scores(self._metric, blocks, known, identity, place)
        return found if place is None else asarray(found, place)

    def _pairs_of(self, pairs: ArrayLike, X: Any) -> tuple[Blocks, NDArray[np.intp]]:
        if X is None:
            return tuple_samples(self, pairs, "pairs", reset=False)
        blocks = samples_of(self, X, reset=False)
        return blocks, as_index(pairs, len(blocks), allow_self=True)

    def _block_distances(self, pairs: ArrayLike, X: Any = None) -> NDArray[np.float64]:
        """Return the part of each block in the squared distances, shape (n_blocks, n_pairs)."""
        return self._metric.block_distances(*self._pairs_of(pairs, X))

    def get_metric(self) -> LearntMetric:
        """Return the learnt distance as a function of two samples.

        With ``squared=True`` the function returns the squared distance. Refitting the estimator
        does not change it.
        """
        check_is_fitted(self)
        cells = vars(self).get("cell_bounds_")
        return LearntMetric(self._component_list(), self.block_shapes_, self.kernel_map_, cells)

    def get_mahalanobis_matrix(self) -> NDArray | list[NDArray]:
        """Return components_ᵀ components_: an array for one block, a list for several."""
        check_is_fitted(self)
        matrices = []
        for A in self._component_list():
            if isinstance(A, SpanFactor) or isinstance(vars(self).get("result_"), SpanResult):
                raise ValueError(too_large("get_mahalanobis_matrix", A.shape[1]))
            matrices.append(A.T @ A)
        return one_or_list(matrices)

    def _component_list(self) -> Sequence[Factor]:
        factors: list[Factor] | None = vars(self).get("factors_")
        if factors is not None:
            return factors
        return [self.components_] if len(self._inner_shapes()) == 1 else list(self.components_)

    def _inner_shapes(self) -> tuple[tuple[int, int], ...]:
        """Return the shapes of the blocks that `components_` apply to."""
        if self.kernel_map_ is None:
            return self.block_shapes_
        return self.kernel_map_.block_shapes_out_

    def _block_names(self) -> list[str]:
        """Return a name for each inner block."""
        names, n_blocks = vars(self).get("block_names_in_"), len(self.block_shapes_)
        if self.kernel_map_ is None:
            return [f"block {m}" for m in range(n_blocks)] if names is None else list(names)
        n_images = self._n_images()
        return name_images(names or n_blocks, len(self._inner_shapes()) - n_images, n_images)

    def _row_names(self) -> list[tuple[str, ...] | None]:
        """Return the names of the rows of each inner block, None where they are not known."""
        n_kept = len(self._inner_shapes()) - self._n_images()
        names = vars(self).get("row_names_in_", (None,) * n_kept)
        columns = vars(self).get("feature_names_in_")
        if columns is not None:
            names = (tuple(str(name) for name in columns),)
        return [*names[:n_kept], *[None] * self._n_images()]

    def _n_images(self) -> int:
        """Return the number of inner blocks, at the end, that are kernel images."""
        return 0 if self.kernel_map_ is None else len(self.kernel_map_.maps_)

    @property
    def _metric(self) -> Metric:
        """The fitted metric, as `_publish` took it apart; without pairs if there is no list."""
        state: Any = vars(self).get
        n_images = self._n_images()
        n_kept = len(self._inner_shapes()) - n_images
        center: Any = state("midpoint_")
        if center is None and (center := center_of(self)):  # kernel images have no mean
            center = [*center[:n_kept], *[None] * n_images]
        prior, pairs = state("prior_"), state("pairs_")
        if pairs is not None:
            pairs = Pairs(pairs, state("similar_"), state("pair_weights_"))
        if prior is not None:
            is_one = n_kept + n_images == 1 and state("sum_factors_") is None
            prior = [prior] if is_one else list(prior)
        return Metric(
            self._component_list(),
            sum_factors=state("sum_factors_", ()),
            kernel_map=self.kernel_map_,
            center=center,
            result=state("result_"),
            prior=prior,
            b0=state("b0_"),
            threshold=state("threshold_"),
            threshold_factor=state("threshold_factor_"),
            threshold_shift=state("threshold_shift_"),
            likelihood_ratio=state("likelihood_ratio_"),
            pairs=pairs,
            units=state("prior_units_"),
            cells=state("cell_bounds_"),
        )

    def _with_fitted(self, fitted: dict[str, Any]) -> Self:
        """Set the attributes that another fit has found, and return the estimator."""
        for name, value in fitted.items():
            setattr(self, name, value)
        return self

    def _publish(self, metric: Metric) -> None:
        """Set the fitted attributes that describe a metric, and delete those of an earlier fit."""
        result, pairs = metric.result, metric.pairs
        as_factors = any(isinstance(A, SpanFactor) for A in metric.factors) or metric.has_midpoint
        ratio = metric.likelihood_ratio
        found: dict[str, Any] = {
            "factors_": list(metric.factors) if as_factors else None,
            "sum_factors_": list(metric.sum_factors) or None,
            "midpoint_": list(metric.center) if metric.has_midpoint else None,
            "components_": None if as_factors else one_or_list(metric.factors),
            "prior_": None if metric.prior is None else one_or_list(metric.prior),
            "result_": result,
            "n_iter_": None if result is None else max(1, result.n_iter),
            "threshold_": metric.threshold,
            "b0_": metric.b0,
            "threshold_factor_": metric.threshold_factor,
            "threshold_shift_": metric.threshold_shift,
            "prior_units_": metric.units,
            "cell_bounds_": metric.cells,
            "likelihood_ratio_": ratio,
            "same_rate_": None if ratio is None else 0.5,
        }
        self._forget("kernel_map_", "likelihood_table_", *found)
        self.__dict__ |= {name: value for name, value in found.items() if value is not None}
        if result is not None:
            self.kernel_map_ = metric.kernel_map
        if isinstance(pairs, Pairs):
            self.pairs_, self.similar_, self.pair_weights_ = (
                pairs.index,
                pairs.similar,
                pairs.weights,
            )
        elif pairs is not None:  # they were summed in tiles, without a list of them
            self.pairs_ = self.similar_ = self.pair_weights_ = None

    def _keep_facts(self, blocks: Blocks) -> None:
        """Store what a fit keeps of its samples: shapes, names, number and mean.

        The mean is subtracted before distances are computed; samples far from the origin, compared
        to their differences, would lose digits otherwise. Sparse samples, and rows of a kernel
        matrix, have none here. The number says what a saved model reveals (see `revealed_samples`).
        """
        self._keep_shapes(blocks)
        self._forget(CENTER)
        sparse = any(isinstance(array, SparseBlock) for array in blocks.arrays)
        few = any(len(blocks) * width < MANY * n for n, width in blocks.block_shapes)
        facts: dict[str, Any] = {N_SAMPLES: len(blocks)}
        if few and not sparse:  # which are compared with each other
            each = zip(*blocks.arrays, strict=True)
            facts[N_SAMPLES] = len({b"".join((a + 0.0).tobytes() for a in one) for one in each})
        if not sparse and not self._has_kernel_values():
            facts[CENTER] = [np.mean(array, axis=0, dtype=np.float64) for array in blocks.arrays]
        self.__dict__ |= facts

    def _read_samples(self, X: Any, y: Any = None, min_samples: int = 1) -> Blocks:
        """Read the samples of a fit, and store what is kept of them."""
        self._forget("feature_names_in_", "_fitted_to_sparse")
        blocks = samples_of(self, X, reset=True, min_samples=min_samples, y=y)
        if any(isinstance(array, SparseBlock) for array in blocks.arrays):
            self._fitted_to_sparse = True
        self._keep_facts(blocks)
        return blocks

    def _settings(self, parameters: SimpleNamespace, *samples: Any, **others: Any) -> Settings:
        """Return the settings of a fit, whose problem is solved on the device of the `samples`."""
        place = place_of_samples(self.preprocessor, *samples)
        if not isinstance(getattr(parameters, "solver", None), Newton):
            place = None
        warm = getattr(parameters, "warm_start", False)
        init = vars(self).get("result_") if warm else None
        return Settings.of(parameters, place=place, init=init, **others)

    def _has_kernel_values(self) -> bool:
        """Return whether the samples are rows of a kernel matrix."""
        kernel = getattr(self.kernel, "kernel", self.kernel)
        return isinstance(kernel, str) and kernel == "precomputed"

    def __sklearn_tags__(self) -> Any:
        """Return tags that say whether the samples are rows of a kernel matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._has_kernel_values()
        return tags

    @property
    def _n_features_out(self) -> int:
        shapes = zip(self._component_list(), self._inner_shapes(), strict=True)
        return sum(len(A) * width for A, (_, width) in shapes)


for _name in ("transform", "pair_distance", "get_metric", "get_mahalanobis_matrix"):
    setattr(MetricEstimator, _name, _Only(vars(MetricEstimator)[_name]))
for _name in ("search_vectors", "enrolled_scores"):
    setattr(MetricEstimator, _name, _Only(vars(MetricEstimator)[_name], of_scores=True))
for _name in ("fit_transform", "get_feature_names_out"):
    setattr(MetricEstimator, _name, _Only(getattr(MetricEstimator, _name)))


class LabelEstimator(MetricEstimator):
    """Base class of metrics that are learnt from samples with class labels."""

    def _read_labelled(self, X: Any, y: Any, groups: Any, sample_weight: Any) -> LabelledSamples:
        """Read the samples of a fit with the numbers of their classes and groups, and weights."""
        blocks = self._read_samples(X, y, min_samples=2)
        _, labels = class_labels(self, y, len(blocks))
        weights = self._read_weights(sample_weight, len(blocks))
        if weights is not None and len(np.unique(labels[weights > 0])) < 2:
            raise ValueError(
                "sample_weight: expected positive weights in at least two classes, got them in one"
            )
        return LabelledSamples(blocks, labels, group_labels(groups, len(blocks)), weights)

    def _read_weights(self, sample_weight: Any, n_samples: int) -> Doubles | None:
        """Return the weights of samples; None if there are none.

        What is negligible beside the largest is 0, as products of three weights may underflow.
        """
        if sample_weight is None:
            return None
        weights = as_sample_weight(sample_weight, n_samples, of="sample")
        weights = np.where(weights < NEGLIGIBLE * weights.max(), 0.0, weights)
        if self._has_kernel_values() and not weights.all():
            raise ValueError(
                "sample_weight: expected positive weights with a precomputed kernel, got 0 for "
                f"sample {int(np.argmin(weights))}; leave out its row and its column"
            )
        return weights

    def __sklearn_tags__(self) -> Any:
        """Return tags that require labels and allow matrices as samples."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        return tags


def center_of(estimator: Any) -> list[NDArray[np.float64]]:
    """Return the mean of the samples of fit, one array per block; an empty list if unknown."""
    return vars(estimator).get(CENTER, [])
