"""Unions of transformers, and scaling of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import _BaseComposition, available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from .._array import Floats
from .._data.blocks import Blocks, as_blocks
from ._inputs import MatrixTransformer, SampleReader, write_samples

FITTED_NAMES = ("row_names_", "pixel_feature_names_")  # attributes with the names of rows


@dataclass(eq=False, repr=False)
class BlockUnion(MatrixTransformer, _BaseComposition):
    """Union of transformers, whose results are joined as Blocks.

    It is the counterpart of scikit-learn's `FeatureUnion` for Blocks. A transformer that returns a
    3-D array adds one block of matrices, one that returns a 2-D array adds one block of vectors,
    and one that returns Blocks adds all of them. X is passed on unchanged: images, signals, Blocks.

    Parameters
    ----------
    transformer_list : list of (str, transformer)
        Names and transformers. Instead of a transformer, "passthrough" adds X itself and "drop"
        adds nothing, so that a grid search can leave one out: ``union.set_params(name="drop")``.
        The parameters of a transformer are set as ``name__parameter``.
    n_jobs : int, optional
        How many transformers run in parallel; None means one, -1 means one per processor.

    Attributes
    ----------
    transformers_ : list of (str, transformer)
        Fitted copies of the transformers that are not dropped.

    See Also
    --------
    BlockScaler : Scales the blocks, so that none dominates the distance.

    Notes
    -----
    The blocks are named after the transformers, and after the blocks of transformers that name
    their own; the rows keep their names.

    The squared distance of two samples is the *mean* over the M blocks of the union. Therefore a
    transformer that returns several blocks has more weight than one that returns a single block.

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

    transformer_list: Sequence[tuple[str, Any]]
    _: KW_ONLY
    n_jobs: int | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, including those of the transformers if `deep`.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of the transformers, as ``name__parameter``.

        Returns
        -------
        dict
        """
        return self._get_params("transformer_list", deep=deep)

    def set_params(self, **params: Any) -> BlockUnion:
        """Set parameters, replace a transformer, or set a parameter ``name__parameter`` of one.

        Parameters
        ----------
        **params : dict
            Names and values; `get_params` returns the names.

        Returns
        -------
        self
        """
        return self._set_params("transformer_list", **params)

    def fit(self, X: Any, y: Any = None) -> BlockUnion:
        """Fit a copy of each transformer.

        Parameters
        ----------
        X : any input that the transformers accept
            The samples.
        y : array-like, optional
            Passed to each transformer.

        Returns
        -------
        self
        """
        self._fit(X, y, transforms=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Blocks:
        """Fit a copy of each transformer, transform X, and join the results.

        Parameters
        ----------
        X : any input that the transformers accept
            The samples.
        y : array-like, optional
            Passed to each transformer.

        Returns
        -------
        Blocks
        """
        results = self._fit(X, y, transforms=True)
        return _join(self.transformers_, results)

    def transform(self, X: Any) -> Blocks:
        """Apply each transformer, and join the results.

        Parameters
        ----------
        X : any input that the transformers accept
            The samples.

        Returns
        -------
        Blocks
            The blocks in the order of the transformers.
        """
        check_is_fitted(self)
        tasks = (delayed(transformer.transform)(X) for _, transformer in self.transformers_)
        return _join(self.transformers_, Parallel(n_jobs=self.n_jobs)(tasks))

    def _fit(self, X: Any, y: Any, transforms: bool) -> list[Any]:
        """Fit a copy of each transformer; return what they make of X, if wanted."""
        names, transformers = zip(*self._check_transformers(), strict=True)
        tasks = (delayed(_fit_copy)(transformer, X, y, transforms) for transformer in transformers)
        fitted, results = zip(*Parallel(n_jobs=self.n_jobs)(tasks), strict=True)
        self.transformers_ = list(zip(names, fitted, strict=True))
        return list(results)

    def _check_transformers(self) -> list[tuple[str, Any]]:
        """Return the transformers that are not dropped; raise an error if one is invalid."""
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


class _Passthrough(MatrixTransformer):
    """A transformer that returns its input."""

    def fit(self, X: Any, y: Any = None) -> _Passthrough:
        return self

    def transform(self, X: Any) -> Any:
        return X


def _fit_copy(transformer: Any, X: Any, y: Any, transforms: bool) -> tuple[Any, Any]:
    """Return a fitted copy of a transformer, and what it makes of X, if wanted."""
    copy = _Passthrough() if transformer == "passthrough" else clone(transformer)
    if transforms and hasattr(copy, "fit_transform"):
        return copy, copy.fit_transform(X, y)
    copy = copy.fit(X, y)
    return copy, copy.transform(X) if transforms else None


def _join(named: list[tuple[str, Any]], results: list[Any]) -> Blocks:
    """Join the results of the transformers as Blocks; an error names the transformer."""
    parts = [
        as_blocks(result, f"result of {name!r}")
        for (name, _), result in zip(named, results, strict=True)
    ]
    if len({len(part) for part in parts}) > 1:
        counts = ", ".join(
            f"{len(part)} from {name!r}" for (name, _), part in zip(named, parts, strict=True)
        )
        raise ValueError(
            f"BlockUnion: expected as many samples from each transformer, got {counts}"
        )
    names = [name for name, _ in named]
    rows = [_row_names(*both) for both in zip(parts, [t for _, t in named], strict=True)]
    return Blocks(
        *(array for part in parts for array in part.arrays),
        names=[word for both in zip(names, parts, strict=True) for word in _names_in_union(*both)],
        row_names=[words for part in rows for words in part],
    )


def _names_in_union(name: str, part: Blocks) -> list[str]:
    """Return the names of the blocks of one transformer."""
    if part.names is not None:
        return [f"{name}, {word}" for word in part.names]
    return [name] if part.n_blocks == 1 else [f"{name} {m}" for m in range(part.n_blocks)]


def _row_names(part: Blocks, transformer: Any) -> Sequence[Sequence[str] | None]:
    """Return the names of the rows of each block of one transformer."""
    if part.row_names is not None:
        return part.row_names
    if part.n_blocks > 1:
        return [None] * part.n_blocks
    steps = [step for _, step in getattr(transformer, "steps", [("", transformer)])]
    # Of transformers that return an array, which has no names.
    known = [getattr(step, name, None) for step in steps[::-1] for name in FITTED_NAMES]
    words = next((words for words in known if words is not None), None)
    if words is None and part.block_shapes[0][1] == 1:
        words = _column_names(transformer)
    return [words if words is not None and len(words) == part.block_shapes[0][0] else None]


def _column_names(transformer: Any) -> list[str] | None:
    """Return the names of the columns of a transformer of vectors, or None if it has none."""
    try:
        return [str(word) for word in transformer.get_feature_names_out()]
    except Exception:  # a transformer of another library may have no such method, or need names
        return None


class BlockScaler(SampleReader):
    """Common scale of blocks, so that none dominates the distance.

    Each block is divided by one number: the root mean squared Frobenius distance of two different
    training samples, which is √(2v) with v the sum of the variances of its entries. Then the mean
    squared distance of two training samples is 1 in each block and in total, whatever the units of
    the blocks. Nothing is subtracted, and all entries of a block have the same scale.

    Attributes
    ----------
    scale_ : array of shape (n_blocks,)
        The divisor of each block; 1 if all samples of the block are equal.
    block_shapes_in_ : tuple of (int, int)
        The shapes of the matrices seen in `fit`.
    n_features_in_ : int
        The total number of entries per sample.
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
        """Compute the scale of each block.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n') or (n_samples, n)
            The training samples.
        y : ignored

        Returns
        -------
        self
        """
        blocks, self._form = self._read(X, reset=True)
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
            The scaled samples, in the form that `fit` saw.
        """
        return self._apply(np.divide, X)

    def inverse_transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Multiply each block by its scale.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n') or (n_samples, n)
            The result of `transform`.

        Returns
        -------
        Blocks, or array of the shape of X
        """
        return self._apply(np.multiply, X)

    def _apply(self, operation: Callable[[Floats, np.floating], Floats], X: Any) -> Any:
        check_is_fitted(self)
        blocks, _ = self._read(X, reset=False)
        arrays = [
            operation(array, array.dtype.type(scale))
            for array, scale in zip(blocks.arrays, self.scale_, strict=True)
        ]
        return write_samples(arrays, self._form, blocks)

    def _keeps_columns(self) -> bool:
        """Return whether the samples are rows of one 2-D array, whose columns can have names."""
        return getattr(self, "_form", "vectors") == "vectors"

    @available_if(_keeps_columns)
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns of the input, if the samples are vectors.

        Parameters
        ----------
        input_features : array-like of str, optional
            The names, if `fit` saw none.

        Returns
        -------
        array of str of shape (n_features,)
        """
        return OneToOneFeatureMixin.get_feature_names_out(self, input_features)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _root_mean_square_distance(array: Floats) -> float:
    """Return √(2v), where v is the sum of the variances of the entries (divisor n_samples − 1)."""
    deviation = array.astype(np.float64) - array.mean(axis=0, dtype=np.float64)
    largest = float(np.max(np.abs(deviation)))
    rounding = 10 * np.finfo(array.dtype).eps * float(np.max(np.abs(array)))
    if largest <= rounding:  # all samples are equal up to rounding of the mean
        return 1.0
    deviation /= largest  # prevents overflow and underflow of the squares
    return largest * float(np.sqrt(2 * np.sum(deviation**2) / (len(array) - 1)))
