"""Symmetric positive definite matrices: logarithm and powers, and vectors that keep distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._data.blocks import Blocks, as_blocks
from .._svec import svec, unsvec
from .._validation import check_finite
from ._inputs import MatrixTransformer, read_samples, write_samples
from ._symmetric import check_symmetric, is_symmetric, map_eigenvalues

__all__ = ["LogEuclidean", "SPDPower", "Vectorize"]

Floats = NDArray[np.floating]


class _SPDMap(MatrixTransformer):
    """A function of the eigenvalues of each matrix; nothing is learnt but the shapes."""

    def fit(self, X: Blocks | ArrayLike, y: Any = None) -> _SPDMap:
        """Check that the matrices are square, and keep their shapes.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n)
            Symmetric positive definite matrices.
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        blocks, _ = read_samples(self, X, reset=True)
        for m, shape in enumerate(blocks.block_shapes):
            _check_square(shape, m)
        return self

    def _check_parameters(self) -> None:
        """A map without parameters has nothing to check."""

    def _map(self, X: Any, function: Callable[[Floats], Floats], **promises: bool) -> Any:
        self._check_parameters()
        blocks, form = read_samples(self, X, reset=False)
        arrays = []
        for m, array in enumerate(blocks.arrays):
            _check_square(blocks.block_shapes[m], m)
            arrays.append(map_eigenvalues(array, function, m, **promises))
        return write_samples(arrays, form)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class LogEuclidean(_SPDMap):
    """The matrix logarithm of symmetric positive definite matrices.

    The logarithm takes covariance matrices into the flat space of symmetric matrices, where the
    Frobenius distance ‖log A − log B‖ is the log-Euclidean distance of A and B: it does not change
    when both are inverted, rotated or multiplied by the same number. Nothing is learnt: `fit`
    keeps the shapes, and `transform` works without it.

    Attributes
    ----------
    block_shapes_in_ : tuple of (int, int)
        The shapes of the matrices seen in `fit`.
    n_features_in_ : int
        How many entries they have together.

    See Also
    --------
    SPDPower : Another map, with less weight on small eigenvalues.
    Vectorize : Turn the logarithms into vectors.

    Notes
    -----
    A matrix counts as positive definite if its smallest eigenvalue exceeds n ε times its largest,
    with ε the precision of the data type: below that it is rounding error. The rule does not
    depend on the unit. The eigenvalues are computed in double precision whatever the data type.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.features import LogEuclidean
    >>> X = np.array([[[np.e, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]]])
    >>> logs = LogEuclidean().fit_transform(X)
    >>> logs.round(4) + 0.0
    array([[[1.    , 0.    ],
            [0.    , 0.    ]],
    <BLANKLINE>
           [[0.5493, 0.5493],
            [0.5493, 0.5493]]])
    >>> np.allclose(LogEuclidean().inverse_transform(logs), X)
    True
    """

    def transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Take the logarithm of each matrix.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n)
            Symmetric positive definite matrices.

        Returns
        -------
        Blocks, or array of shape (n_samples, n, n)
            Symmetric matrices, in the form in which X came.

        Raises
        ------
        ValueError
            If a matrix is not symmetric or not positive definite; the message names the block, the
            sample and its smallest eigenvalue.
        """
        return self._map(X, np.log, takes_posdef=True)

    def inverse_transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Take the exponential of each matrix.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n)
            Symmetric matrices.

        Returns
        -------
        Blocks, or array of shape (n_samples, n, n)
            Symmetric positive definite matrices.
        """
        return self._map(X, np.exp, gives_posdef=True)


class SPDPower(_SPDMap):
    """A power of symmetric positive definite matrices, by default the square root.

    The Frobenius distance of the powers, divided by |power|, tends to the log-Euclidean one as
    power → 0; a larger power gives less weight to small eigenvalues, which are the noisiest.
    Nothing is learnt: `fit` keeps the shapes, and `transform` works without it.

    Parameters
    ----------
    power : float, default=0.5
        The power, not zero; −1 is the inverse.

    Attributes
    ----------
    block_shapes_in_ : tuple of (int, int)
        The shapes of the matrices seen in `fit`.
    n_features_in_ : int
        How many entries they have together.

    See Also
    --------
    LogEuclidean : The logarithm, and what counts as positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.features import SPDPower
    >>> X = np.array([[[4.0, 0.0], [0.0, 9.0]]])
    >>> SPDPower().fit_transform(X)
    array([[[2., 0.],
            [0., 3.]]])
    """

    def __init__(self, power: float = 0.5) -> None:
        self.power = power

    def transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Raise each matrix to the power.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n)
            Symmetric positive definite matrices.

        Returns
        -------
        Blocks, or array of shape (n_samples, n, n)
            Symmetric positive definite matrices, in the form in which X came.
        """
        return self._map(X, lambda values: values**self.power, takes_posdef=True, gives_posdef=True)

    def inverse_transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Raise each matrix to 1/power.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n)
            What `transform` gave.

        Returns
        -------
        Blocks, or array of shape (n_samples, n, n)
            What it was made of.
        """
        return self._map(
            X, lambda values: values ** (1 / self.power), takes_posdef=True, gives_posdef=True
        )

    def _check_parameters(self) -> None:
        if check_finite("power", self.power) == 0:
            raise ValueError(f"power: expected a number other than 0, got {self.power!r}")


class Vectorize(TransformerMixin, BaseEstimator):
    """Vectors in place of matrices, with the same distances.

    Of a symmetric matrix the upper triangle is kept, row by row, with √2 times the entries off the
    diagonal, since each of them stands for two (svec). Of any other matrix all entries are kept,
    row by row (vec). In both cases the Euclidean distance of two vectors is the Frobenius distance
    of the matrices, and the inner products agree as well.

    Parameters
    ----------
    join : bool, default=False
        Whether Blocks become one 2-D array with all blocks side by side, as a classifier of
        scikit-learn wants, rather than Blocks of vectors. The squared distance of joined vectors
        is the *sum* over the M blocks; that of Blocks is their mean, M times smaller.
    symmetric : "auto" or bool, default="auto"
        Whether the matrices are symmetric. "auto" decides in `fit`, for each block: it is if all
        its matrices are. True refuses a matrix that is not, False keeps all entries.

    Attributes
    ----------
    symmetric_ : tuple of bool
        For each block, whether only the upper triangle is kept.
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

    def __init__(self, join: bool = False, *, symmetric: Literal["auto"] | bool = "auto") -> None:
        self.join = join
        self.symmetric = symmetric

    def fit(self, X: Blocks | ArrayLike, y: Any = None) -> Vectorize:
        """Keep the shapes, and decide which blocks are symmetric.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n') or (n_samples, n)
            Matrices; vectors stay as they are.
        y : ignored

        Returns
        -------
        self
        """
        _check_flag("symmetric", self.symmetric, or_auto=True)
        _check_flag("join", self.join)
        blocks, self._form = read_samples(self, X, reset=True)
        if self.symmetric == "auto":
            self.symmetric_ = tuple(bool(np.all(is_symmetric(array))) for array in blocks.arrays)
        else:
            self.symmetric_ = (bool(self.symmetric),) * blocks.n_blocks
            self._check_symmetric(blocks)
        return self

    def transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Make a vector of each matrix.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n') or (n_samples, n)
            Matrices of the shapes seen in `fit`.

        Returns
        -------
        array of shape (n_samples, n_features), or Blocks of vectors
            Blocks where `fit` saw Blocks, unless `join`.
        """
        check_is_fitted(self)
        blocks, _ = read_samples(self, X, reset=False)
        self._check_symmetric(blocks)
        vectors = [
            svec(array) if symmetric else array.reshape(len(array), -1)
            for array, symmetric in zip(blocks.arrays, self.symmetric_, strict=True)
        ]
        return np.hstack(vectors) if self._gives_columns() else Blocks(*vectors)

    def inverse_transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Make a matrix of each vector.

        Parameters
        ----------
        X : Blocks of vectors, or array-like of shape (n_samples, n_features)
            What `transform` gave.

        Returns
        -------
        Blocks, or array of shape (n_samples, n, n') or (n_samples, n)
            The matrices, in the form in which `fit` saw them.
        """
        check_is_fitted(self)
        arrays = [
            unsvec(vectors, shape[0]) if symmetric else vectors.reshape(len(vectors), *shape)
            for vectors, shape, symmetric in zip(
                self._read_vectors(X), self.block_shapes_in_, self.symmetric_, strict=True
            )
        ]
        return write_samples(arrays, self._form)

    def _gives_columns(self) -> bool:
        """Whether the result is one 2-D array, whose columns can have names."""
        return self.join or getattr(self, "_form", None) != "blocks"

    @available_if(_gives_columns)
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """The name of each column: x, the row and the column of the entry, after its block.

        Parameters
        ----------
        input_features : array-like of str, optional
            The names of the columns, where `fit` saw vectors; ignored where it saw matrices.

        Returns
        -------
        array of str of shape (n_features,)
        """
        check_is_fitted(self)
        if self._form == "vectors":
            return OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return np.array([name for names in self._names() for name in names], dtype=object)

    def _names(self) -> list[list[str]]:
        """For each block, the names of the entries that are kept."""
        prefixes = [
            f"block{m}_" if self._form == "blocks" else "" for m in range(len(self.symmetric_))
        ]
        return [
            [f"{prefix}x{i}_{j}" for i, j in np.ndindex(*shape) if i <= j or not symmetric]
            for prefix, shape, symmetric in zip(
                prefixes, self.block_shapes_in_, self.symmetric_, strict=True
            )
        ]

    def _read_vectors(self, X: Any) -> list[Floats]:
        """The vectors of each block, from what `transform` gave."""
        sizes = [len(names) for names in self._names()]
        expected = [sum(sizes)] if self._gives_columns() else sizes
        blocks = as_blocks(X)
        if blocks.block_shapes != tuple((size, 1) for size in expected):
            raise ValueError(
                f"X: expected vectors of {' and '.join(map(str, expected))} entries, as transform "
                f"gives them, got {blocks!r}"
            )
        side_by_side = np.hstack([array[:, :, 0] for array in blocks.arrays])
        return np.split(side_by_side, np.cumsum(sizes)[:-1], axis=1)

    def _check_symmetric(self, blocks: Blocks) -> None:
        for m, array in enumerate(blocks.arrays):
            if self.symmetric_[m]:
                _check_square(blocks.block_shapes[m], m)
                check_symmetric(array, m)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _check_flag(name: str, value: Any, or_auto: bool = False) -> None:
    automatic = or_auto and isinstance(value, str) and value == "auto"
    if not isinstance(value, bool) and not automatic:
        kind = "'auto', True or False" if or_auto else "True or False"
        raise ValueError(f"{name}: expected {kind}, got {value!r}")


def _check_square(shape: tuple[int, int], block: int) -> None:
    if shape[0] != shape[1]:
        raise ValueError(
            "X: expected square matrices, an array of shape (n_samples, n, n) or Blocks of such, "
            f"got {shape[0]}×{shape[1]} in block {block}; a 2-D array is read as vectors, for a "
            "single matrix write X[None]"
        )
