"""Logarithms and powers of symmetric positive definite matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from .._array import Floats
from .._data.blocks import Blocks
from .._validation import check_finite
from ._inputs import MatrixTransformer, read_samples, write_samples
from ._symmetric import check_square, map_eigenvalues


class _SPDMap(MatrixTransformer):
    """Base class of maps of the eigenvalues; only the shapes are learnt."""

    def fit(self, X: Blocks | ArrayLike, y: Any = None) -> _SPDMap:
        """Check that the matrices are square, and store their shapes.

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
            check_square(shape, m)
        return self

    def _check_parameters(self) -> None:
        """Raise an error for wrong parameters; by default there are none."""

    def _map(
        self,
        X: Any,
        function: Callable[[Floats], Floats],
        *,
        takes_posdef: bool = False,
        gives_posdef: bool = False,
    ) -> Any:
        """Apply the function to the eigenvalues of each matrix; see `map_eigenvalues`."""
        self._check_parameters()
        blocks, form = read_samples(self, X, reset=False)
        arrays = []
        for m, array in enumerate(blocks.arrays):
            check_square(blocks.block_shapes[m], m)
            mapped = map_eigenvalues(
                array, function, m, takes_posdef=takes_posdef, gives_posdef=gives_posdef
            )
            arrays.append(mapped)
        return write_samples(arrays, form, blocks)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class LogEuclidean(_SPDMap):
    """The matrix logarithm of symmetric positive definite matrices.

    The logarithm maps covariance matrices to the vector space of symmetric matrices, where the
    Frobenius distance ‖log A − log B‖ is the log-Euclidean distance of A and B: it does not change
    when both are inverted, rotated or multiplied by the same number. Only the shapes are learnt;
    `transform` works without `fit`.

    Attributes
    ----------
    block_shapes_in_ : tuple of (int, int)
        The shapes of the matrices seen in `fit`.
    n_features_in_ : int
        The total number of entries per sample.

    See Also
    --------
    SPDPower : Gives less weight to small eigenvalues.
    Vectorize : Turns the logarithms into vectors.

    Notes
    -----
    A matrix counts as positive definite if its smallest eigenvalue exceeds n ε times its largest,
    with ε the precision of the data type. The rule does not depend on the unit. The eigenvalues are
    computed in double precision for every data type.

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
        """Compute the logarithm of each matrix.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n)
            Symmetric positive definite matrices.

        Returns
        -------
        Blocks, or array of shape (n_samples, n, n)
            Symmetric matrices, in the same form as X.

        Raises
        ------
        ValueError
            If a matrix is not symmetric or not positive definite; the message names the block, the
            sample and its smallest eigenvalue.
        """
        return self._map(X, np.log, takes_posdef=True)

    def inverse_transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Compute the exponential of each matrix.

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

    The Frobenius distance of the powers, divided by |power|, tends to the log-Euclidean distance as
    power → 0. A larger power gives less weight to small eigenvalues, which are the noisiest. Only
    the shapes are learnt; `transform` works without `fit`.

    Parameters
    ----------
    power : float, default=0.5
        The exponent, not zero; −1 gives the inverse.

    Attributes
    ----------
    block_shapes_in_ : tuple of (int, int)
        The shapes of the matrices seen in `fit`.
    n_features_in_ : int
        The total number of entries per sample.

    See Also
    --------
    LogEuclidean : The logarithm; its notes say which matrices count as positive definite.

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
            Symmetric positive definite matrices, in the same form as X.
        """
        return self._map(X, lambda values: values**self.power, takes_posdef=True, gives_posdef=True)

    def inverse_transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Raise each matrix to the power 1/power.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n)
            The result of `transform`.

        Returns
        -------
        Blocks, or array of shape (n_samples, n, n)
            The original matrices.
        """
        return self._map(
            X, lambda values: values ** (1 / self.power), takes_posdef=True, gives_posdef=True
        )

    def _check_parameters(self) -> None:
        if check_finite("power", self.power) == 0:
            raise ValueError(f"power: expected a number other than 0, got {self.power!r}")
