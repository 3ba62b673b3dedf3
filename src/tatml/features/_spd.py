"""Symmetric positive definite matrices: logarithms, powers, means, and logarithms at the mean.

The geometric mean M of X_1, …, X_N minimises f(M) = ½ mean_i d(M, X_i)², where d is the
affine-invariant distance, d(M, X) = ‖log(M^-½ X M^-½)‖_F. With M = A Aᵀ and Z_i = A⁻¹ X_i A⁻ᵀ, the
negative gradient of f is the mean J of the log Z_i, in the coordinates S ↦ A S Aᵀ of tangent
vectors. f is strongly convex along geodesics with modulus 1; hence the distance of M from the
minimiser is at most ‖J‖_F, which bounds the error of the result. The curvature of f is at most the
mean of h(log c_i), with c_i the condition number of Z_i and h(t) = (t/2) coth(t/2).

A step goes along the geodesic from M in the direction J: A becomes A exp(step J/2). These
coordinates are transported in parallel, so that gradients of successive points can be subtracted,
as the step lengths of Barzilai and Borwein need. They stay between 1/curvature and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._array import Floats, Indices, symmetrised
from .._data.arrays import read_groups
from .._data.blocks import Blocks
from .._messages import shown
from .._validation import check_choice, check_count, check_finite, check_positive
from .._warnings import warn_user
from ._inputs import MatrixTransformer, SampleForm, StatelessTransformer, write_samples
from ._symmetric import check_posdef, for_each_chunk, map_eigenvalues

MeanKind = Literal["geometric", "log-euclidean", "arithmetic"]
MEANS: tuple[MeanKind, ...] = get_args(MeanKind)
EPS = float(np.finfo(np.float64).eps)
PATIENCE = 10  # iterations without a smaller gradient after which rounding errors prevail


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

    def _map(self, X: Any, function: Callable[[Floats], Floats], **checks: Any) -> Any:
        """Apply the function to the eigenvalues of each matrix; see `map_eigenvalues`."""
        self._check_parameters()
        blocks, form = self._read_square(X, reset=False)
        arrays = [map_eigenvalues(A, function, m, **checks) for m, A in enumerate(blocks.arrays)]
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


@dataclass(eq=False, repr=False)
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

    power: float = 0.5

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


@dataclass(eq=False, repr=False)
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

    mean: MeanKind = "geometric"
    _: KW_ONLY
    tol: float = 1e-12
    max_iter: int = 200

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
        new, codes = self._find_groups(groups, len(blocks))
        n_known = len(self.means_[0])
        _warn_if_single(new, codes, n_known)
        of_new, _ = self._compute_means(blocks, codes, n_known)
        means = [np.concatenate(both) for both in zip(self.means_, of_new, strict=True)]
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
        new, codes = self._find_groups(groups, len(blocks))
        if new:
            raise ValueError(
                f"groups: expected groups whose means are known from fit, got {shown(new[0])}"
            )
        arrays = [
            _exponentials(array, means, codes, m)
            for m, (array, means) in enumerate(zip(blocks.arrays, self.means_, strict=True))
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
            _warn_if_single(names.tolist(), codes)
        for m, array in enumerate(blocks.arrays):
            check_posdef(array, m)
        self.means_, self.n_iter_ = self._compute_means(blocks, codes)
        self.groups_ = names
        return blocks, form, codes

    def _compute_means(
        self, blocks: Blocks, codes: Indices, first: int = 0
    ) -> tuple[tuple[Floats, ...], int]:
        """Return the means of each block, of the groups from `first` on, and the most iterations.

        Warns once if a mean has not converged, with the numbers of the worst one.
        """
        options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        found = [
            [
                compute_mean(array[codes == group], self.mean, block=m, **options)
                for group in range(first, codes.max() + 1)
            ]
            for m, array in enumerate(blocks.arrays)
        ]
        failed = [
            (mean.error, m, mean.n_iter)
            for m, means in enumerate(found)
            for mean in means
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

        stacked = tuple(
            np.array([mean.matrix for mean in means]).reshape(-1, *array.shape[1:])
            for means, array in zip(found, blocks.arrays, strict=True)
        )
        return stacked, max((mean.n_iter for means in found for mean in means), default=0)

    def _find_groups(self, groups: Any, n_samples: int) -> tuple[list[Any], Indices]:
        """Return the groups that `fit` did not see, and the group of each sample.

        The groups of `groups_` keep their numbers, and the others follow.
        """
        if groups is None:
            if self.groups_ is not None:
                raise ValueError("groups: expected the group of each sample as in fit, got None")
            return [], np.zeros(n_samples, dtype=np.intp)
        names, codes = read_groups(groups, n_samples)
        seen = [None] if self.groups_ is None else self.groups_.tolist()
        known = dict.fromkeys([*seen, *names.tolist()])
        numbers = dict(zip(known, range(len(known)), strict=True))
        return [*known][len(seen) :], np.array([numbers[name] for name in names.tolist()])[codes]


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
    for group in np.unique(codes):
        rows, root = codes == group, power(means[group], exponent)
        result[rows] = congruence(root, array[rows].astype(np.float64, copy=False))
    return result


def _warn_if_single(names: Sequence[Any], codes: Indices, first: int = 0) -> None:
    """Warn of the groups, numbered from `first` on, that have a single sample."""
    single = np.flatnonzero(np.bincount(codes)[first:] == 1)
    if len(single):
        warn_user(
            f"groups: group {shown(names[single[0]])} has one sample ({len(single)} such groups), "
            "which is its own mean: its logarithm is zero"
        )


# ---- Means: arrays (n_matrices, n, n) in, one matrix out ----


@dataclass(frozen=True)
class Mean:
    """A mean and how accurate it is.

    Attributes
    ----------
    matrix : array of shape (n, n)
    n_iter : int
        The number of iterations; 0 for a closed form.
    error : float
        A bound of the distance from the exact mean, in units of the root mean squared distance of
        the matrices from it.
    converged : bool
        Whether the error is at most the tolerance or what rounding errors allow.
    """

    matrix: Floats
    n_iter: int = 0
    error: float = 0.0
    converged: bool = True


def compute_mean(
    array: Floats, kind: MeanKind, *, tol: float, max_iter: int, block: int = 0
) -> Mean:
    """Return a mean of positive definite matrices; an error names the `block`."""
    array = array.astype(np.float64, copy=False)
    if kind == "arithmetic":
        return Mean(arithmetic_mean(array))
    if kind == "log-euclidean":
        logarithm = map_eigenvalues(array, np.log, 0).mean(axis=0)
        return Mean(_exponential(1.0, logarithm))
    return geometric_mean(array, tol=tol, max_iter=max_iter, block=block)


def arithmetic_mean(array: Floats) -> Floats:
    """Return the mean of the matrices; their sum may exceed the largest float."""
    return symmetrised(np.sum(array / len(array), axis=0))


def geometric_mean(array: Floats, *, tol: float, max_iter: int, block: int = 0) -> Mean:
    """Return the geometric mean of positive definite matrices.

    The first point is the geometric mean of the arithmetic and the harmonic mean, which is the
    solution for one and for two matrices. The matrices are whitened by the arithmetic mean once:
    what is iterated on is as well conditioned as the matrices are alike.
    """
    centre = arithmetic_mean(array)
    white = congruence(power(centre, -0.5), array)
    inverse = arithmetic_mean(_inverses(white, block))
    whitener, factor = power(inverse, 0.25), power(inverse, -0.25)
    last = best = _Gradient.at(white, whitener)
    best_factor, step, n_iter, waited = factor, 2 / (1 + last.curvature), 0, 0
    while not best.is_small(tol) and n_iter < max_iter and waited < PATIENCE:
        whitener = _exponential(-step / 2, last.descent) @ whitener
        factor = factor @ _exponential(step / 2, last.descent)
        new = _Gradient.at(white, whitener)
        if not np.isfinite(new.norm):
            break
        step, last = new.next_step(last, step), new
        n_iter, waited = n_iter + 1, waited + 1
        if new.norm < best.norm:
            best, best_factor, waited = new, factor, 0
    half = power(centre, 0.5) @ best_factor
    error = best.norm / best.spread if best.spread > 0 else 0.0
    # A gradient may be no larger than the rounding errors of the logarithms.
    converged = best.is_small(tol) or best.norm <= best.rounding * best.condition
    return Mean(symmetrised(half @ half.T), n_iter, error, converged)


def _inverses(white: Floats, block: int) -> Floats:
    """Return the inverses of the whitened matrices; raise an error if one has none."""
    try:
        return map_eigenvalues(white, np.reciprocal, block, takes_posdef=True)
    except ValueError as error:
        raise ValueError(
            "X: expected matrices whose geometric mean double precision can compute, got one that "
            f"is singular compared with the arithmetic mean in block {block}; use "
            "mean='log-euclidean', or rescale the matrices"
        ) from error


@dataclass(frozen=True)
class _Gradient:
    """The negative gradient of f at a point, and what the eigenvalues there tell about f.

    Attributes
    ----------
    descent : array of shape (n, n)
        J, the mean of the logarithms.
    norm : float
        The norm of the gradient, a bound of the distance from the mean.
    spread : float
        The root mean squared distance of the matrices from the point.
    curvature : float
        The upper bound of the curvature of f.
    condition : float
        The largest condition number of a whitened matrix.
    """

    descent: Floats
    norm: float
    spread: float
    curvature: float
    condition: float

    @classmethod
    def at(cls, white: Floats, whitener: Floats) -> _Gradient:
        """Return the gradient at the point that `whitener` maps to the identity."""
        n_matrices, n, _ = white.shape
        logarithms = np.empty((n_matrices, n))
        sums: dict[int, Floats] = {}

        def add_chunk(rows: slice) -> None:
            values, vectors = np.linalg.eigh(congruence(whitener, white[rows]))
            with np.errstate(all="ignore"):
                logarithms[rows] = np.log(values)
            columns = vectors.transpose(1, 0, 2).reshape(n, -1)
            sums[rows.start] = (columns * logarithms[rows].ravel()) @ columns.T

        for_each_chunk(add_chunk, white)
        range_ = logarithms[:, -1] - logarithms[:, 0]
        descent = symmetrised(sum(sums[start] for start in sorted(sums)) / n_matrices)
        return cls(
            descent=descent,
            norm=float(np.linalg.norm(descent)),
            spread=float(np.sqrt(np.sum(logarithms**2) / n_matrices)),
            curvature=float(np.mean(_curvature(range_))),
            condition=float(np.exp(min(np.max(range_), 700.0))),
        )

    @property
    def rounding(self) -> float:
        """The rounding error of the eigenvalues of matrices that are well conditioned."""
        return 10 * len(self.descent) * EPS

    def is_small(self, tol: float) -> bool:
        """Return whether the point is the mean up to the tolerance."""
        return self.norm <= max(tol * self.spread, self.rounding)

    def next_step(self, last: _Gradient, step: float) -> float:
        """Return the step of Barzilai and Borwein, after a step from `last` to here."""
        along = np.sum(last.descent * (last.descent - self.descent))
        with np.errstate(divide="ignore", over="ignore"):
            length = step * last.norm**2 / along if along > 0 else 0.0
        return float(np.clip(length, 1 / self.curvature, 1.0))


def _curvature(t: Floats) -> Floats:
    """Return h(t) = (t/2) coth(t/2), with h(0) = 1."""
    half = np.maximum(t / 2, 1e-8)
    return half / np.tanh(half)


def congruence(matrix: Floats, array: Floats) -> Floats:
    """Return the exactly symmetric B X Bᵀ for each matrix X."""
    return symmetrised(matrix @ array @ matrix.T)


def power(matrix: Floats, exponent: float) -> Floats:
    """Return a power of one positive definite matrix."""
    return _map_one(lambda values: values**exponent, matrix)


def _exponential(scale: float, matrix: Floats) -> Floats:
    """Return exp(scale S) of one symmetric matrix S."""
    return _map_one(lambda values: np.exp(scale * values), matrix)


def _map_one(function: Callable[[Floats], Floats], matrix: Floats) -> Floats:
    return map_eigenvalues(matrix[None], function, 0)[0]
