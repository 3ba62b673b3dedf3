"""Several transformers side by side, and blocks on a common scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import _BaseComposition, available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from .._data.blocks import Blocks, as_blocks
from ._inputs import MatrixTransformer, read_samples, write_samples

__all__ = ["BlockScaler", "BlockUnion"]

Floats = NDArray[np.floating]


class BlockUnion(TransformerMixin, _BaseComposition):
    """Several transformers applied to the same samples, their results joined as Blocks.

    It is to Blocks what scikit-learn's `FeatureUnion` is to columns. A transformer that gives a 3-D
    array adds one block of matrices, one that gives a 2-D array one block of vectors, one that
    gives Blocks all of them. The transformers see X as it is: images, signals, Blocks.

    Parameters
    ----------
    transformer_list : list of (str, transformer)
        Names and transformers. In place of a transformer, "passthrough" takes X itself and "drop"
        nothing, so that a grid search can try without one: ``union.set_params(name="drop")``.
        Parameters inside are reached as ``name__parameter``.
    n_jobs : int, optional
        How many transformers work at a time; None is one, -1 is one for each processor.

    Attributes
    ----------
    transformers_ : list of (str, transformer)
        Fitted copies of the transformers, without those that are dropped.

    See Also
    --------
    BlockScaler : Keeps a block with large entries from drowning the others.

    Notes
    -----
    The squared distance of two samples is the *mean* over the M blocks of the union, so that a
    transformer that gives several blocks has more weight than one that gives a single block.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.features import BlockUnion, LogEuclidean, SPDPower
    >>> X = np.stack([np.eye(2), 4 * np.eye(2)])
    >>> union = BlockUnion([("log", LogEuclidean()), ("power", SPDPower())])
    >>> union.fit_transform(X)
    Blocks(n_samples=2, blocks=[2×2, 2×2], dtype=float64)
    >>> union.set_params(power__power=-1.0).fit_transform(X).arrays[1][1, 0, 0]
    np.float64(0.25)
    """

    def __init__(
        self, transformer_list: Sequence[tuple[str, Any]], *, n_jobs: int | None = None
    ) -> None:
        self.transformer_list = transformer_list
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, with those of the transformers if `deep`.

        Parameters
        ----------
        deep : bool, default=True
            Whether to list the parameters of the transformers, as ``name__parameter``.

        Returns
        -------
        dict
        """
        return self._get_params("transformer_list", deep=deep)

    def set_params(self, **params: Any) -> BlockUnion:
        """Set parameters, replace a transformer by its name, or set ``name__parameter``.

        Parameters
        ----------
        **params : dict
            Names as `get_params` lists them.

        Returns
        -------
        self
        """
        return self._set_params("transformer_list", **params)

    def set_output(self, *, transform: str | None = None) -> BlockUnion:
        """Change nothing: Blocks stay Blocks, so that a pipeline can ask for data frames."""
        return self

    def fit(self, X: Any, y: Any = None) -> BlockUnion:
        """Fit a copy of each transformer.

        Parameters
        ----------
        X : whatever the transformers take
            The samples.
        y : array-like, optional
            Given to each transformer.

        Returns
        -------
        self
        """
        named = self._check_transformers()
        fitted = self._parallel(delayed(_fit)(transformer, X, y) for _, transformer in named)
        self.transformers_ = _with_names(named, fitted)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Blocks:
        """Fit a copy of each transformer, and join their results.

        Parameters
        ----------
        X : whatever the transformers take
            The samples.
        y : array-like, optional
            Given to each transformer.

        Returns
        -------
        Blocks
        """
        named = self._check_transformers()
        both = self._parallel(
            delayed(_fit_transform)(transformer, X, y) for _, transformer in named
        )
        self.transformers_ = _with_names(named, [fitted for fitted, _ in both])
        return _join(self.transformers_, [result for _, result in both])

    def transform(self, X: Any) -> Blocks:
        """Apply each transformer, and join their results.

        Parameters
        ----------
        X : whatever the transformers take
            The samples.

        Returns
        -------
        Blocks
            The blocks of the first transformer, of the second, and so on.
        """
        check_is_fitted(self)
        named = self.transformers_
        results = self._parallel(delayed(_transform)(transformer, X) for _, transformer in named)
        return _join(named, results)

    def _parallel(self, tasks: Any) -> list[Any]:
        return Parallel(n_jobs=self.n_jobs)(tasks)

    def _check_transformers(self) -> list[tuple[str, Any]]:
        """Those that are not dropped, once all are known to be named transformers."""
        try:
            named = [(name, transformer) for name, transformer in self.transformer_list]
        except (TypeError, ValueError) as error:
            raise TypeError(
                "transformer_list: expected a list of pairs (name, transformer), got "
                f"{self.transformer_list!r}"
            ) from error
        self._validate_names([name for name, _ in named])
        for name, transformer in named:
            if transformer not in ("drop", "passthrough") and not hasattr(transformer, "transform"):
                raise TypeError(
                    "transformer_list: expected transformers, 'passthrough' or 'drop', got "
                    f"{transformer!r} for {name!r}"
                )
        kept = [(name, transformer) for name, transformer in named if transformer != "drop"]
        if not kept:
            raise ValueError("transformer_list: expected at least one transformer, got none")
        return kept

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


class _Passthrough(MatrixTransformer):
    """Gives what it gets."""

    def fit(self, X: Any, y: Any = None) -> _Passthrough:
        return self

    def transform(self, X: Any) -> Any:
        return X


def _fit(transformer: Any, X: Any, y: Any) -> Any:
    return _copy(transformer).fit(X, y)


def _fit_transform(transformer: Any, X: Any, y: Any) -> tuple[Any, Any]:
    copy = _copy(transformer)
    if hasattr(copy, "fit_transform"):
        result = copy.fit_transform(X, y)
    else:
        result = copy.fit(X, y).transform(X)
    return copy, result


def _transform(transformer: Any, X: Any) -> Any:
    return transformer.transform(X)


def _copy(transformer: Any) -> Any:
    return _Passthrough() if transformer == "passthrough" else clone(transformer)


def _with_names(named: list[tuple[str, Any]], fitted: list[Any]) -> list[tuple[str, Any]]:
    return [(name, copy) for (name, _), copy in zip(named, fitted, strict=True)]


def _join(named: list[tuple[str, Any]], results: list[Any]) -> Blocks:
    """One Blocks from what the transformers gave; an error names the transformer."""
    parts = [
        as_blocks(result, f"result of {name!r}")
        for (name, _), result in zip(named, results, strict=True)
    ]
    if len({len(part) for part in parts}) > 1:
        counts = ", ".join(
            f"{len(part)} of {name!r}" for (name, _), part in zip(named, parts, strict=True)
        )
        raise ValueError(f"BlockUnion: expected as many samples of each transformer, got {counts}")
    return Blocks(*(array for part in parts for array in part.arrays))


class BlockScaler(TransformerMixin, BaseEstimator):
    """Blocks on a common scale, so that none drowns the others.

    Each block is divided by one number: the root mean squared Frobenius distance of two different
    training samples, which is √(2v) with v the sum of the variances of its entries. Afterwards a
    pair of training samples has a squared distance of 1 on average, in each block and over all of
    them, whatever the units of a block were. Nothing is subtracted, and a block keeps its shape:
    its entries are not scaled apart.

    Attributes
    ----------
    scale_ : array of shape (n_blocks,)
        The number that each block is divided by; 1 for a block in which all samples are equal.
    block_shapes_in_ : tuple of (int, int)
        The shapes of the matrices seen in `fit`.
    n_features_in_ : int
        How many entries they have together.
    feature_names_in_ : array of str
        The names of the columns, if `fit` saw a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import Blocks
    >>> from tatml.features import BlockScaler
    >>> X = Blocks([[0.0], [2.0]], [[0.0], [1000.0]])
    >>> BlockScaler().fit(X).scale_
    array([   2., 1000.])
    """

    def fit(self, X: Blocks | ArrayLike, y: Any = None) -> BlockScaler:
        """Find the scale of each block.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n') or (n_samples, n)
            The training samples.
        y : ignored

        Returns
        -------
        self
        """
        blocks, self._form = read_samples(self, X, reset=True)
        self.scale_ = np.array([_root_mean_square_distance(array) for array in blocks.arrays])
        return self

    def transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Divide each block by its scale.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n') or (n_samples, n)
            Samples of the shapes seen in `fit`.

        Returns
        -------
        Blocks, or array of the shape of X
            In the form that `fit` saw.
        """
        return self._apply(np.divide, X)

    def inverse_transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Multiply each block by its scale.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n') or (n_samples, n)
            What `transform` gave.

        Returns
        -------
        Blocks, or array of the shape of X
        """
        return self._apply(np.multiply, X)

    def _apply(self, operation: Callable[[Floats, np.floating], Floats], X: Any) -> Any:
        check_is_fitted(self)
        blocks, _ = read_samples(self, X, reset=False)
        arrays = [
            operation(array, array.dtype.type(scale))
            for array, scale in zip(blocks.arrays, self.scale_, strict=True)
        ]
        return write_samples(arrays, self._form)

    def _keeps_columns(self) -> bool:
        """Whether samples are vectors of one 2-D array, whose columns can have names."""
        return getattr(self, "_form", "vectors") == "vectors"

    @available_if(_keeps_columns)
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """The names of the columns, where the samples are vectors: those of the input.

        Parameters
        ----------
        input_features : array-like of str, optional
            The names, where `fit` saw none.

        Returns
        -------
        array of str of shape (n_features,)
        """
        return OneToOneFeatureMixin.get_feature_names_out(self, input_features)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _root_mean_square_distance(array: Floats) -> float:
    """Over pairs of different samples: √(2v), where v sums the variances with n_samples − 1."""
    deviation = array.astype(np.float64) - array.mean(axis=0, dtype=np.float64)
    largest = float(np.max(np.abs(deviation)))
    rounding = 10 * np.finfo(array.dtype).eps * float(np.max(np.abs(array)))
    if largest <= rounding:  # all samples are equal, as a mean of equal numbers may be rounded
        return 1.0
    deviation /= largest  # so that no square is too large or too small for a float
    return largest * float(np.sqrt(2 * np.sum(deviation**2) / (len(array) - 1)))
