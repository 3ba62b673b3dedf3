"""Symmetric positive definite matrices: logarithms, powers, and logarithms at their own mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._array import Floats, Indices
from .._data.blocks import Blocks
from .._data.labels import read_groups
from .._messages import shown
from .._validation import check_choice, check_count, check_finite, check_positive
from .._warnings import warn_user
from ._inputs import (
    MatrixTransformer,
    SampleForm,
    StatelessTransformer,
    write_samples,
)
from ._spd_means import MEANS, Mean, MeanKind, compute_mean, congruence, power
from ._symmetric import check_posdef, map_eigenvalues


class _SPDMap(StatelessTransformer):
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
        self._read_square(X, reset=True)
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
        blocks, form = self._read_square(X, reset=False)
        arrays = [
            map_eigenvalues(
                array, function, m, takes_posdef=takes_posdef, gives_posdef=gives_posdef
            )
            for m, array in enumerate(blocks.arrays)
        ]
        return write_samples(arrays, form, blocks)


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


class TangentSpace(MatrixTransformer):
    """The logarithm of symmetric positive definite matrices at their own mean.

    Each block is whitened by the mean M of its training matrices before the logarithm is taken:
    a matrix A becomes log(M^-½ A M^-½). With the geometric mean, a change of coordinates of all
    matrices, B A Bᵀ, only rotates the result: for covariances of signals, the mixture of the
    sources, the reference and the gains of the channels do not matter. `LogEuclidean` takes the
    logarithm at the identity, and changes under all of these.

    With groups, such as subjects or recordings, each group is whitened by its own mean, which
    removes what is constant within a group and differs between groups.

    Parameters
    ----------
    mean : {"geometric", "log-euclidean", "arithmetic"}, default="geometric"
        The mean. "geometric" minimises the sum of squared affine-invariant distances; it is
        computed by iteration. "log-euclidean" is exp of the mean logarithm.
    tol : float, default=1e-12
        The tolerance of the geometric mean: its distance from the exact one is at most `tol` times
        the root mean squared distance of the matrices from it, or what rounding errors allow.
    max_iter : int, default=200
        The largest number of iterations of the geometric mean.

    Attributes
    ----------
    means_ : tuple of arrays of shape (n_groups, n, n)
        The means of each block, one per group; a single one if `fit` saw no groups.
    groups_ : array of shape (n_groups,), or None
        The groups seen in `fit`, in the order of the means.
    n_iter_ : int
        The largest number of iterations of a mean in `fit`; 0 if all have a closed form.
    block_shapes_in_ : tuple of (int, int)
        The shapes of the matrices seen in `fit`.
    n_features_in_ : int
        The total number of entries per sample.

    See Also
    --------
    LogEuclidean : The logarithm at the identity; its notes say which matrices count as positive
        definite.
    Vectorize : Turns the logarithms into vectors.

    Notes
    -----
    Which mean whitens a sample depends on its group:

    - Without groups in `fit` and `transform`, it is the mean of the training matrices.
    - A group that `fit` saw has the mean of its training matrices, whatever else is transformed.
    - A group that `fit` did not see has the mean of its matrices *in this call* of `transform`: the
      result depends on them, so transform all matrices of a new subject together. No label is used.
    - If `fit` saw groups, `transform` needs them too; there is no mean for samples without a group.

    A group of one matrix is its own mean: the result is zero, and a warning says so.

    With scikit-learn's metadata routing, a pipeline passes the groups on after
    ``set_fit_request(groups=True)`` and ``set_transform_request(groups=True)``.

    ``Vectorize().fit_transform(TangentSpace().fit_transform(X))`` equals the result of
    pyRiemann's ``TangentSpace(metric="riemann")`` up to the tolerance of its mean. Its metrics for
    the other means are ``{"mean": "logeuclid", "map": "riemann"}`` and
    ``{"mean": "euclid", "map": "riemann"}``.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.features import TangentSpace
    >>> X = np.array([[[1.0, 0.0], [0.0, 1.0]], [[4.0, 0.0], [0.0, 9.0]]])
    >>> space = TangentSpace().fit(X)
    >>> space.means_[0][0].round(6) + 0.0
    array([[2., 0.],
           [0., 3.]])
    >>> space.transform(X).round(4)[1] + 0.0
    array([[0.6931, 0.    ],
           [0.    , 1.0986]])
    >>> np.allclose(space.inverse_transform(space.transform(X)), X)
    True

    Two recordings of the same trials with different gains become the same:

    >>> both, recording = np.concatenate([X, 100 * X]), ["a", "a", "b", "b"]
    >>> logs = TangentSpace().fit_transform(both, groups=recording)
    >>> np.allclose(logs[:2], logs[2:])
    True
    """

    def __init__(
        self, mean: MeanKind = "geometric", *, tol: float = 1e-12, max_iter: int = 200
    ) -> None:
        self.mean = mean
        self.tol = tol
        self.max_iter = max_iter

    def fit(
        self, X: Blocks | ArrayLike, y: Any = None, groups: ArrayLike | None = None
    ) -> TangentSpace:
        """Compute the mean of each block, per group if there are groups.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n)
            Symmetric positive definite matrices.
        y : ignored
        groups : array-like of shape (n_samples,), optional
            The group of each sample, such as a subject or a recording.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a matrix is not symmetric or not positive definite; the message names the block, the
            sample and its smallest eigenvalue.

        Warns
        -----
        ConvergenceWarning
            If a geometric mean does not reach its tolerance.
        """
        self._fit(X, groups)
        return self

    def fit_transform(
        self, X: Blocks | ArrayLike, y: Any = None, groups: ArrayLike | None = None
    ) -> Blocks | Floats:
        """Compute the means, and the logarithms of the same matrices at them.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n)
            Symmetric positive definite matrices.
        y : ignored
        groups : array-like of shape (n_samples,), optional
            The group of each sample.

        Returns
        -------
        Blocks, or array of shape (n_samples, n, n)
            Symmetric matrices, in the same form as X.
        """
        blocks, form, codes = self._fit(X, groups)
        return write_samples(_logarithms(blocks, self.means_, codes), form, blocks)

    def transform(self, X: Blocks | ArrayLike, groups: ArrayLike | None = None) -> Blocks | Floats:
        """Compute the logarithm of each matrix at the mean of its group.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n)
            Symmetric positive definite matrices.
        groups : array-like of shape (n_samples,), optional
            The group of each sample. A group that `fit` did not see is whitened by the mean of its
            matrices in X. Required if `fit` saw groups.

        Returns
        -------
        Blocks, or array of shape (n_samples, n, n)
            Symmetric matrices, in the same form as X.
        """
        check_is_fitted(self)
        blocks, form = self._read_square(X, reset=False)
        for m, array in enumerate(blocks.arrays):
            check_posdef(array, m)
        names, numbers, codes = self._find_groups(groups, len(blocks))
        _warn_if_single(names, codes, [number is None for number in numbers])
        means = self._means_of(blocks, numbers, codes)
        return write_samples(_logarithms(blocks, means, codes), form, blocks)

    def inverse_transform(
        self, X: Blocks | ArrayLike, groups: ArrayLike | None = None
    ) -> Blocks | Floats:
        """Compute the matrices whose logarithms at the mean are given.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n, n)
            Symmetric matrices.
        groups : array-like of shape (n_samples,), optional
            The group of each sample, which `fit` must have seen. Required if `fit` saw groups.

        Returns
        -------
        Blocks, or array of shape (n_samples, n, n)
            Symmetric positive definite matrices.
        """
        check_is_fitted(self)
        blocks, form = self._read_square(X, reset=False)
        names, numbers, codes = self._find_groups(groups, len(blocks))
        if None in numbers:
            raise ValueError(
                "groups: expected groups whose means are known from fit, got "
                f"{shown(names[numbers.index(None)])}"
            )
        means = self._means_of(blocks, numbers, codes)
        arrays = [
            _exponentials(array, known, codes, m)
            for m, (array, known) in enumerate(zip(blocks.arrays, means, strict=True))
        ]
        return write_samples(arrays, form, blocks)

    def _fit(self, X: Any, groups: Any) -> tuple[Blocks, SampleForm, Indices]:
        """Set the fitted attributes; return the samples, their form and their groups."""
        check_choice("mean", self.mean, MEANS)
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        blocks, form = self._read_square(X, reset=True)
        names, codes = None, np.zeros(len(blocks), dtype=np.intp)
        if groups is not None:
            names, codes = read_groups(groups, len(blocks))
            _warn_if_single(names.tolist(), codes, [True] * len(names))
        for m, array in enumerate(blocks.arrays):
            check_posdef(array, m)
        found = [self._compute_means(blocks[codes == group]) for group in range(codes.max() + 1)]
        self._warn_if_inaccurate(found)
        self.means_ = _stack([[mean.matrix for mean in means] for means in found])
        self.n_iter_ = max(mean.n_iter for means in found for mean in means)
        self.groups_ = names
        return blocks, form, codes

    def _compute_means(self, blocks: Blocks) -> list[Mean]:
        """Return the mean of each block."""
        return [
            compute_mean(array, self.mean, tol=self.tol, max_iter=self.max_iter, block=m)
            for m, array in enumerate(blocks.arrays)
        ]

    def _warn_if_inaccurate(self, found: Sequence[Sequence[Mean]]) -> None:
        """Warn once if a mean has not converged, with the numbers of the worst one."""
        failed = [
            (mean.error, m, mean.n_iter)
            for means in found
            for m, mean in enumerate(means)
            if not mean.converged
        ]
        if failed:
            error, m, n_iter = max(failed)
            warn_user(
                f"TangentSpace: the geometric mean of block {m} may be off by {error:.3g} times "
                f"the spread of the matrices after {n_iter} iterations, expected tol={self.tol:g} "
                f"({len(failed)} such means); increase max_iter, or use mean='log-euclidean'",
                ConvergenceWarning,
            )

    def _find_groups(self, groups: Any, n_samples: int) -> tuple[list[Any], list[Any], Indices]:
        """Return the distinct groups, their numbers in `groups_` or None, and those of samples."""
        if groups is None:
            if self.groups_ is not None:
                raise ValueError("groups: expected the group of each sample as in fit, got None")
            return [None], [0], np.zeros(n_samples, dtype=np.intp)
        names, codes = read_groups(groups, n_samples)
        seen = [] if self.groups_ is None else self.groups_.tolist()
        numbers = {name: number for number, name in enumerate(seen)}
        return names.tolist(), [numbers.get(name) for name in names.tolist()], codes

    def _means_of(
        self, blocks: Blocks, numbers: list[int | None], codes: Indices
    ) -> tuple[Floats, ...]:
        """Return the means of the groups like `means_`; those of new groups are computed."""
        found = {
            group: self._compute_means(blocks[codes == group])
            for group, number in enumerate(numbers)
            if number is None
        }
        self._warn_if_inaccurate(list(found.values()))
        return _stack(
            [
                [mean.matrix for mean in found[group]]
                if number is None
                else [means[number] for means in self.means_]
                for group, number in enumerate(numbers)
            ]
        )


def _stack(means: Sequence[Sequence[Floats]]) -> tuple[Floats, ...]:
    """Return one array (n_groups, n, n) per block from the means of each group."""
    return tuple(np.stack(block) for block in zip(*means, strict=True))


def _logarithms(blocks: Blocks, means: Sequence[Floats], codes: Indices) -> list[Floats]:
    """Return log(M^-½ A M^-½) for each matrix A, with M the mean of its group."""
    arrays = []
    for m, (array, block) in enumerate(zip(blocks.arrays, means, strict=True)):
        white = _map_groups(array, block, -0.5, codes)
        try:
            logarithms = map_eigenvalues(white, np.log, m, takes_posdef=True)
        except ValueError as error:  # the matrices are positive definite, but unlike the mean
            reason = str(error).removeprefix("X: ")
            raise ValueError(f"X: after whitening by the mean, {reason}") from error
        arrays.append(logarithms.astype(array.dtype, copy=False))
    return arrays


def _exponentials(array: Floats, means: Floats, codes: Indices, block: int) -> Floats:
    """Return M^½ exp(S) M^½ for each matrix S, with M the mean of its group."""
    double = array.astype(np.float64, copy=False)
    matrices = map_eigenvalues(double, np.exp, block, gives_posdef=True)
    with np.errstate(over="ignore"):
        result = _map_groups(matrices, means, 0.5, codes).astype(array.dtype, copy=False)
    finite = np.isfinite(result).all(axis=(1, 2))
    if not finite.all():
        raise ValueError(
            f"X: expected a result that {array.dtype} can represent, got entries of up to "
            f"{np.max(np.abs(array)):.3g} in block {block}, sample {int(np.argmin(finite))}"
        )
    return result


def _map_groups(array: Floats, means: Floats, exponent: float, codes: Indices) -> Floats:
    """Return M^p A M^p for each matrix A, in double precision."""
    result = np.empty(array.shape)
    for group, mean in enumerate(means):
        rows = codes == group
        result[rows] = congruence(power(mean, exponent), array[rows].astype(np.float64, copy=False))
    return result


def _warn_if_single(names: Sequence[Any], codes: Indices, new: Sequence[bool]) -> None:
    """Warn if a group whose mean is computed has a single sample."""
    single = np.flatnonzero(np.array(new) & (np.bincount(codes, minlength=len(new)) == 1))
    if len(single):
        warn_user(
            f"groups: group {shown(names[single[0]])} has one sample ({len(single)} such groups), "
            "which is its own mean: its logarithm is zero"
        )
