"""Other shapes of the same numbers: matrices as vectors, and tensors as one matrix per mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from math import prod
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._array import Floats
from .._data.blocks import Blocks, RowNames, as_blocks
from .._svec import svec, unsvec
from .._validation import as_list
from ._inputs import SampleReader, StatelessTransformer, as_tensors, write_samples
from ._symmetric import check_square, check_symmetric, is_symmetric


@dataclass(eq=False, repr=False)
class Vectorize(SampleReader):
    """Vectors of matrices, with the same distances.

    A symmetric matrix becomes its upper triangle, row by row, with the entries off the diagonal
    multiplied by √2, since each occurs twice in the matrix (svec). Any other matrix becomes the
    vector of all its entries, row by row (vec). In both cases the Euclidean distance of two vectors
    is the Frobenius distance of the matrices, and the inner products agree as well.

    Parameters
    ----------
    join : bool, default=False
        Whether Blocks become one 2-D array with all blocks side by side, which scikit-learn's
        estimators need, rather than Blocks of vectors. The squared distance of joined vectors is
        the *sum* over the M blocks; that of Blocks is the mean, which is M times smaller.
    symmetric : "auto" or bool, default="auto"
        Whether the matrices are symmetric. "auto" decides in `fit`: a block counts as symmetric if
        all its matrices are. True refuses matrices that are not symmetric, False keeps all
        entries.

    Attributes
    ----------
    symmetric_ : tuple of bool
        Per block, whether only the upper triangle is kept.
    block_shapes_in_ : tuple of (int, int)
        The shapes of the matrices seen in `fit`.
    n_features_in_ : int
        The total number of entries per sample.
    feature_names_in_ : array of str
        The names of the columns, if `fit` saw a data frame.
    block_names_in_, row_names_in_ : tuples, or None
        The names of the blocks and of their rows, if `fit` saw Blocks with names.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import Blocks
    >>> from tatml.features import Vectorize
    >>> X = np.array([[[1.0, 2.0], [2.0, 3.0]]])
    >>> vectorize = Vectorize().fit(X)
    >>> vectorize.transform(X).round(3)
    array([[1.   , 2.828, 3.   ]])
    >>> vectorize.get_feature_names_out()
    array(['x0_0', 'x0_1', 'x1_1'], dtype=object)
    >>> Vectorize().fit_transform(Blocks(X, np.ones((1, 2, 3))))
    Blocks(n_samples=1, blocks=[3×1, 6×1], dtype=float64)
    >>> Vectorize(join=True).fit_transform(Blocks(X, np.ones((1, 2, 3)))).shape
    (1, 9)
    """

    join: bool = False
    _: KW_ONLY
    symmetric: Literal["auto"] | bool = "auto"

    def fit(self, X: Blocks | ArrayLike, y: Any = None) -> Vectorize:
        """Store the shapes, and determine which blocks are symmetric.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n') or (n_samples, n)
            Matrices; vectors do not change.
        y : ignored

        Returns
        -------
        self
        """
        _check_option("symmetric", self.symmetric, "auto")
        _check_option("join", self.join)
        blocks, self._form = self._read(X, reset=True)
        self.block_names_in_, self.row_names_in_ = blocks.names, blocks.row_names
        if self.symmetric == "auto":
            self.symmetric_ = tuple(bool(np.all(is_symmetric(array))) for array in blocks.arrays)
        else:
            self.symmetric_ = (bool(self.symmetric),) * blocks.n_blocks
            self._check_symmetric(blocks)
        return self

    def transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Turn each matrix into a vector.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n') or (n_samples, n)
            Matrices of the shapes seen in `fit`.

        Returns
        -------
        array of shape (n_samples, n_features), or Blocks of vectors
            Blocks if `fit` saw Blocks, unless `join`.
        """
        check_is_fitted(self)
        blocks, _ = self._read(X, reset=False)
        self._check_symmetric(blocks)
        vectors = [
            svec(array) if symmetric else array.reshape(len(array), -1)
            for array, symmetric in zip(blocks.arrays, self.symmetric_, strict=True)
        ]
        if self._gives_columns():
            return np.hstack(vectors)
        return Blocks(*vectors, names=blocks.names, row_names=self._entry_names(blocks.row_names))

    def inverse_transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Turn each vector into a matrix.

        Parameters
        ----------
        X : Blocks of vectors, or array-like of shape (n_samples, n_features)
            The result of `transform`.

        Returns
        -------
        Blocks, or array of shape (n_samples, n, n') or (n_samples, n)
            The matrices, in the form that `fit` saw.
        """
        check_is_fitted(self)
        arrays = [
            unsvec(vectors, shape[0]) if symmetric else vectors.reshape(len(vectors), *shape)
            for vectors, shape, symmetric in zip(
                self._read_vectors(X), self.block_shapes_in_, self.symmetric_, strict=True
            )
        ]
        if self._form == "blocks":
            return Blocks(*arrays, names=self.block_names_in_, row_names=self.row_names_in_)
        return write_samples(arrays, self._form)

    def _gives_columns(self) -> bool:
        """Return whether the result is one 2-D array, whose columns can have names."""
        return self.join or getattr(self, "_form", None) != "blocks"

    @available_if(_gives_columns)
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the name of each column: the block, then x, the row and the column of the entry.

        Blocks and rows that have names are called by them.

        Parameters
        ----------
        input_features : array-like of str, optional
            The names of the columns if `fit` saw vectors; ignored if it saw matrices.

        Returns
        -------
        array of str of shape (n_features,)
        """
        check_is_fitted(self)
        if self._form == "vectors":
            return OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return np.array([name for names in self._names() for name in names], dtype=object)

    def _names(self) -> list[list[str]]:
        """Return the names of the entries that are kept, one list per block."""
        blocks = self.block_names_in_ or [f"block{m}" for m in range(len(self.symmetric_))]
        prefixes = [f"{block}_" if self._form == "blocks" else "" for block in blocks]
        entries = self._entry_names(self.row_names_in_, words_for_all=True)
        return [
            [f"{prefix}{word}" for word in words or ()]
            for prefix, words in zip(prefixes, entries, strict=True)
        ]

    def _entry_names(
        self, row_names: RowNames, words_for_all: bool = False
    ) -> list[list[str] | None]:
        """Return the names of the entries of each block: row_row, row_column or xrow_column.

        Blocks without names have None, unless there are to be `words_for_all`.
        """
        named = row_names or [None] * len(self.symmetric_)
        result: list[list[str] | None] = []
        for words, shape, symmetric in zip(
            named, self.block_shapes_in_, self.symmetric_, strict=True
        ):
            places = [(i, j) for i, j in np.ndindex(*shape) if i <= j or not symmetric]
            if words is None:
                result.append([f"x{i}_{j}" for i, j in places] if words_for_all else None)
            elif shape[1] == 1:
                result.append(list(words))
            else:
                columns = words if symmetric else [str(j) for j in range(shape[1])]
                result.append([f"{words[i]}_{columns[j]}" for i, j in places])
        return result

    def _read_vectors(self, X: Any) -> list[Floats]:
        """Return the vectors of each block from the result of `transform`."""
        sizes = [len(names) for names in self._names()]
        expected = [sum(sizes)] if self._gives_columns() else sizes
        blocks = as_blocks(X)
        if blocks.block_shapes != tuple((size, 1) for size in expected):
            raise ValueError(
                f"X: expected vectors of {' and '.join(map(str, expected))} entries, as "
                f"transform returns them, got {blocks!r}"
            )
        side_by_side = np.hstack([array[:, :, 0] for array in blocks.arrays])
        return np.split(side_by_side, np.cumsum(sizes)[:-1], axis=1)

    def _check_symmetric(self, blocks: Blocks) -> None:
        for m, array in enumerate(blocks.arrays):
            if self.symmetric_[m]:
                check_square(blocks.block_shapes[m], m)
                check_symmetric(array, m)


def _check_option(name: str, value: Any, *words: str) -> None:
    """Raise an error unless the value is a boolean or one of the words."""
    if not isinstance(value, bool | np.bool_) and not (isinstance(value, str) and value in words):
        listed = "".join(f"{word!r}, " for word in words)
        raise ValueError(f"{name}: expected {listed}True or False, got {value!r}")


@dataclass(eq=False, repr=False)
class Unfold(StatelessTransformer):
    """Unfoldings of tensors: one matrix per mode.

    The mode-m unfolding of a d_0 × … × d_{k−1} tensor is a matrix with d_m rows. Its columns run
    over all other modes in their order, the first of them varying fastest (Kolda and Bader, Tensor
    decompositions and applications, SIAM Review 2009; their mode 1 is mode 0 here). Each unfolding
    has all entries of the tensor, hence the same Frobenius norm. A metric learnt on the blocks has
    one d_m × d_m matrix per mode instead of one matrix for the whole tensor. Only the shape is
    learnt; `transform` works without `fit`.

    Parameters
    ----------
    modes : sequence of int, optional
        The modes to unfold, from 0 to k − 1, in the order of the blocks; None means all.

    Attributes
    ----------
    sample_shape_in_ : tuple of int
        The shape (d_0, …, d_{k−1}) of the tensors seen in `fit`.
    n_features_in_ : int
        The number of entries per tensor.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.features import Unfold
    >>> X = np.arange(24.0).reshape(1, 2, 3, 4)
    >>> blocks = Unfold().fit_transform(X)
    >>> blocks
    Blocks(n_samples=1, blocks=[2×12, 3×8, 4×6], dtype=float64)
    >>> blocks.arrays[0][0, 0]
    array([ 0.,  4.,  8.,  1.,  5.,  9.,  2.,  6., 10.,  3.,  7., 11.])
    """

    modes: Sequence[int] | None = None

    def fit(self, X: ArrayLike, y: Any = None) -> Unfold:
        """Check the modes, and store the shape of the tensors.

        Parameters
        ----------
        X : array-like of shape (n_samples, d_0, ..., d_{k−1})
            Tensors of k ≥ 2 modes.
        y : ignored

        Returns
        -------
        self
        """
        shape = as_tensors(X).shape[1:]
        _check_modes(self.modes, len(shape))
        self.sample_shape_in_ = shape
        self.n_features_in_ = prod(shape)
        return self

    def transform(self, X: ArrayLike) -> Blocks:
        """Unfold each tensor.

        Parameters
        ----------
        X : array-like of shape (n_samples, d_0, ..., d_{k−1})
            Tensors.

        Returns
        -------
        Blocks
            One block per mode, of matrices with d_m rows, with the names "mode 0", "mode 1", ….
        """
        tensors = as_tensors(X)
        shape = tensors.shape[1:]
        expected = getattr(self, "sample_shape_in_", shape)
        if shape != expected:
            raise ValueError(f"X: expected tensors of shape {expected} as in fit, got {shape}")
        modes = _check_modes(self.modes, len(shape))
        names = [f"mode {mode}" for mode in modes]
        return Blocks(*(_unfold(tensors, mode) for mode in modes), names=names)

    def inverse_transform(self, X: Blocks | ArrayLike) -> Floats:
        """Restore the tensors from the first block; the others have the same entries.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, d_m, n_columns)
            The result of `transform`, or its first block.

        Returns
        -------
        array of shape (n_samples, d_0, ..., d_{k−1})
        """
        check_is_fitted(self, "sample_shape_in_")
        mode = _check_modes(self.modes, len(self.sample_shape_in_))[0]
        n_rows = self.sample_shape_in_[mode]
        expected = (n_rows, self.n_features_in_ // n_rows)
        blocks = as_blocks(X)
        if blocks.block_shapes[0] != expected:
            raise ValueError(
                f"X: expected unfoldings of shape {expected}, as transform returns in the first "
                f"block, got {blocks.block_shapes[0]}"
            )
        return _fold(blocks.arrays[0], mode, self.sample_shape_in_)


def _unfold(tensors: Floats, mode: int) -> Floats:
    """Return the unfoldings; in Fortran order, the first of the other modes varies fastest."""
    moved = np.moveaxis(tensors, mode + 1, 1)  # axis 0 counts the samples
    return np.ascontiguousarray(moved.reshape(*moved.shape[:2], -1, order="F"))


def _fold(matrices: Floats, mode: int, shape: tuple[int, ...]) -> Floats:
    """Return the tensors of these unfoldings."""
    others = [size for axis, size in enumerate(shape) if axis != mode]
    moved = matrices.reshape(*matrices.shape[:2], *others, order="F")
    return np.ascontiguousarray(np.moveaxis(moved, 1, mode + 1))


def _check_modes(modes: Any, n_modes: int) -> list[int]:
    """Return the modes as a list of distinct integers from 0 to n_modes − 1."""
    if modes is None:
        return list(range(n_modes))
    listed = as_list("modes", modes, "a sequence of integers or None")
    if any(not isinstance(mode, Integral) or isinstance(mode, bool) for mode in listed):
        raise TypeError(f"modes: expected a sequence of integers or None, got {modes!r}")
    if not all(0 <= mode < n_modes for mode in listed):
        raise ValueError(f"modes: expected integers from 0 to {n_modes - 1}, got {modes!r}")
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(f"modes: expected at least one mode and no mode twice, got {modes!r}")
    return [int(mode) for mode in listed]
