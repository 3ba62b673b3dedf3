"""SoftNeighborsClassifier and SoftNeighborsRegressor: nearest neighbours with soft votes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from math import ceil, inf
from operator import itemgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import Tags, gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .._array import Floats
from .._validation import (
    check_between,
    check_count,
    check_not_negative,
    check_positive,
    check_random,
)
from .parameters import or_none

NEIGHBORS = (4, 8, 16, 32, 64, 128)
# In units of the median distance of a neighbour in excess of the nearest one.
TEMPERATURES = (*np.exp2(np.arange(-6.0, 3.0, 0.5)), inf)
PSEUDO_COUNTS = np.exp2(np.arange(-12.0, 4.0))
MOST_LEFT_OUT = 5_000  # more samples hardly change the choice
ROUNDING = 1e-12  # 0.9 · 10 is 9
CHUNK_NUMBERS = 2**22  # numbers in the largest array that a prediction makes

CHECKS = {
    "n_neighbors": or_none(check_count),
    "temperature": or_none(partial(check_positive, or_infinite=True)),
    "pseudo_count": or_none(check_not_negative),
    "random_state": lambda name, value: check_random(value),
}


class _SoftNeighbors(BaseEstimator):
    """Samples, their neighbours, and the choice of number and temperature by leaving one out."""

    def _checked(self) -> dict[str, Any]:
        names = [name for name in CHECKS if hasattr(self, name)]
        return {name: CHECKS[name](name, getattr(self, name)) for name in names}

    def _keep_samples(self, table: Floats) -> None:
        """Keep the samples for searches; their mean is subtracted, for the sake of precision."""
        with np.errstate(over="ignore"):  # _center_rows refuses what is not finite
            self._center = np.mean(table, axis=0, dtype=np.float64).astype(table.dtype)
        self._samples = self._center_rows(table)
        self._search = NearestNeighbors().fit(self._samples)

    def _center_rows(self, table: Floats) -> Floats:
        """Subtract the mean; raise an error if a squared distance may overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            rows = table - self._center
            largest = float(np.abs(rows).max())
        most = float(np.sqrt(np.finfo(rows.dtype).max / (4 * rows.shape[1])))
        if not largest <= most:
            raise ValueError(
                f"X: expected numbers within {most:.2g} of the mean of the training samples, whose "
                f"squared distances a float can hold, got {np.abs(table).max():.2g}"
            )
        return rows

    def _read(self, X: ArrayLike) -> Floats:
        check_is_fitted(self)
        return self._center_rows(validate_data(self, X, reset=False, dtype=self._samples.dtype))

    def _nearest(
        self, rows: Floats, n_neighbors: int, own: NDArray[np.intp] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return the sorted distances and the numbers of the nearest samples, but for `own`.

        The distances are computed from differences, so that those of equal samples are 0.
        """
        more = 0 if own is None else 1
        index = self._search.kneighbors(rows, n_neighbors + more, return_distance=False)
        if own is not None:
            found = index == own[:, None]
            found[~found.any(axis=1), -1] = True  # among many duplicates, own may not be found
            index = index[~found].reshape(-1, n_neighbors)
        distances = np.empty(index.shape)
        for part in gen_batches(len(rows), _rows_per_chunk(n_neighbors * rows.shape[1])):
            differences = rows[part, None] - self._samples[index[part]]
            distances[part] = np.linalg.norm(differences, axis=2)
        order = np.argsort(distances, axis=1, kind="stable")
        return np.take_along_axis(distances, order, 1), np.take_along_axis(index, order, 1)

    def _left_out(self, rng: Any) -> NDArray[np.intp]:
        """Return the numbers of the samples that are left out in turn."""
        n_samples = len(self._samples)
        if n_samples <= MOST_LEFT_OUT:
            return np.arange(n_samples)
        return np.sort(rng.choice(n_samples, MOST_LEFT_OUT, replace=False))

    def _choose(
        self, settings: dict[str, Any], make_loss: Callable[..., Callable[..., NDArray]]
    ) -> tuple[int, float, int]:
        """Return the number of neighbours, the temperature, and the column of the smallest loss.

        ``make_loss(own, index, counts)`` returns the function that turns votes (n_left_out,
        n_neighbors) into the losses (n_counts, n_columns).
        """
        n_samples, given = len(self._samples), settings["n_neighbors"]
        if None not in settings.values():
            return min(given, n_samples), settings["temperature"], 0
        candidates = NEIGHBORS if given is None else (given,)
        numbers = sorted({min(k, n_samples) for k in candidates})
        counts = np.minimum(numbers, n_samples - 1)  # all samples but the one left out
        own = self._left_out(settings["random_state"])
        distances, index = self._nearest(self._samples[own], counts[-1], own)
        loss = make_loss(own, index, counts)
        found = []
        for temperature in _temperatures(distances, settings["temperature"]):
            losses = loss(_votes(distances, temperature))
            row, column = np.unravel_index(np.argmin(losses), losses.shape)
            found.append((losses[row, column], numbers[row], temperature, int(column)))
        return min(found, key=itemgetter(0))[1:]

    def _vote(
        self, rows: Floats, n_outputs: int, sums: Callable[[NDArray, NDArray], NDArray]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ``sums(votes, index)`` (n, n_outputs), and the sums of the votes (n, 1)."""
        found, totals = np.empty((len(rows), n_outputs)), np.empty((len(rows), 1))
        for part in gen_batches(len(rows), _rows_per_chunk(max(self.n_neighbors_, n_outputs))):
            distances, index = self._nearest(rows[part], self.n_neighbors_)
            votes = _votes(distances, self.temperature_)
            found[part], totals[part] = sums(votes, index), votes.sum(axis=1, keepdims=True)
        return found, totals


@dataclass(eq=False, repr=False)
class SoftNeighborsClassifier(ClassifierMixin, _SoftNeighbors):
    """Probabilities of classes from soft votes of the nearest neighbours.

    A neighbour at distance d votes for its class with the weight exp(−(d − d_min)/t), where d_min
    is the distance of the nearest one. The probability of a class is its share of the votes, after
    a pseudo-count has been divided among all classes. Use it on an embedding, as in
    ``make_pipeline(TATML(), SoftNeighborsClassifier())``.

    Parameters
    ----------
    n_neighbors : int or None, default=None
        The number of neighbours that vote, at most the number of training samples. None: that of 4,
        8, 16, 32, 64 and 128 with the smallest log loss, each training sample being left out in
        turn.
    temperature : float or None, default=None
        The temperature t, in the units of the distance; `numpy.inf` gives all neighbours the same
        weight. None: chosen like `n_neighbors`, from 18 values, √2 apart, of 2⁻⁶ to 2^2.5 times the
        median excess d − d_min of the neighbours, and infinity.
    pseudo_count : float or None, default=None
        The number of votes that is divided among the classes in proportion to their training
        samples. With 0, a class without a neighbour has probability 0. None: chosen like
        `n_neighbors`, from powers of 2 from 2⁻¹² to 8.
    random_state : int, RandomState, Generator or None, default=None
        Draws the samples that are left out, if there are more than 5,000.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes.
    class_prior_ : array of shape (n_classes,)
        The shares of the classes in the training samples.
    n_neighbors_ : int
        The number of neighbours that vote.
    temperature_ : float
        The temperature.
    pseudo_count_ : float
        The number of votes divided among all classes.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    SoftNeighborsRegressor : The same weights, for numbers.
    sklearn.neighbors.KNeighborsClassifier : Counts votes, or weighs them by 1/d.

    Notes
    -----
    The log loss that parameters are chosen by has one sample more than were left out: one without a
    neighbour of its class. So a few samples without an error do not make the classifier certain.
    The three parameters are chosen together; those that are given stay as they are.

    A sample is left out by its number: a duplicate of it stays, and votes. Remove duplicates that
    samples of use will not have. A supervised embedding separates the samples that it was learnt
    from better than new ones; the benchmark of `benchmarks/soft_neighbors.py` shows what this
    means for the log loss.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.pipeline import make_pipeline
    >>> from tatml import TATML, SoftNeighborsClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(TATML(random_state=0), SoftNeighborsClassifier())
    >>> probabilities = model.fit(X[::2], y[::2]).predict_proba(X[1::2])
    >>> bool(log_loss(y[1::2], probabilities) < 0.2)
    True
    """

    n_neighbors: int | None = None
    _: KW_ONLY
    temperature: float | None = None
    pseudo_count: float | None = None
    random_state: Any = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the samples, and choose the parameters that are not given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The training samples, at least two.
        y : array-like of shape (n_samples,)
            Their classes.

        Returns
        -------
        self
        """
        settings = self._checked()
        table, labels = validate_data(
            self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        check_classification_targets(labels)
        self.classes_, self._codes = np.unique(labels, return_inverse=True)
        self.class_prior_ = np.bincount(self._codes) / len(labels)
        self._keep_samples(table)
        given = settings["pseudo_count"]
        candidates = PSEUDO_COUNTS if given is None else np.array([given])
        make_loss = partial(_log_losses, self._codes, self.class_prior_, candidates)
        self.n_neighbors_, self.temperature_, column = self._choose(settings, make_loss)
        self.pseudo_count_ = float(candidates[column])
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array of shape (n_samples, n_classes)
            The columns are in the order of `classes_`; the sum of each row is 1.
        """
        rows, n_classes = self._read(X), len(self.classes_)

        def votes_per_class(votes: NDArray, index: NDArray) -> NDArray:
            cells = self._codes[index] + n_classes * np.arange(len(index))[:, None]
            sums = np.bincount(cells.ravel(), votes.ravel(), minlength=len(index) * n_classes)
            return sums.reshape(-1, n_classes)

        counts, totals = self._vote(rows, n_classes, votes_per_class)
        counts += self.pseudo_count_ * self.class_prior_
        return counts / (totals + self.pseudo_count_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each sample, (n_samples,).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]


@dataclass(eq=False, repr=False)
class SoftNeighborsRegressor(RegressorMixin, _SoftNeighbors):
    """Weighted means of the targets of the nearest neighbours.

    A neighbour at distance d has the weight exp(−(d − d_min)/t), where d_min is the distance of the
    nearest one.

    Parameters
    ----------
    n_neighbors : int or None, default=None
        The number of neighbours in the mean, at most the number of training samples. None: that of
        4, 8, 16, 32, 64 and 128 with the smallest squared error, each training sample being left
        out in turn.
    temperature : float or None, default=None
        The temperature t, in the units of the distance; see `SoftNeighborsClassifier`. None: chosen
        like `n_neighbors`.
    random_state : int, RandomState, Generator or None, default=None
        Draws the samples that are left out, if there are more than 5,000.

    Attributes
    ----------
    n_neighbors_ : int
        The number of neighbours in the mean.
    temperature_ : float
        The temperature.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    SoftNeighborsClassifier : The same weights, for classes.
    sklearn.neighbors.KNeighborsRegressor : Means, or means weighted by 1/d.

    Notes
    -----
    With several targets, the squared errors are relative to the variances of the targets.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import SoftNeighborsRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = SoftNeighborsRegressor().fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[2.0]])[0] - np.sin(2.0)) < 0.01)
    True
    """

    n_neighbors: int | None = None
    _: KW_ONLY
    temperature: float | None = None
    random_state: Any = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the samples, and choose the parameters that are not given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The training samples, at least two.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.

        Returns
        -------
        self
        """
        settings = self._checked()
        table, targets = validate_data(
            self,
            X,
            y,
            dtype=[np.float64, np.float32],
            ensure_min_samples=2,
            multi_output=True,
            y_numeric=True,
        )
        self._shape = targets.shape[1:]
        self._targets = targets.reshape(len(targets), -1).astype(np.float64)
        self._keep_samples(table)
        make_loss = partial(_squared_errors, self._targets)
        self.n_neighbors_, self.temperature_, _ = self._choose(settings, make_loss)
        own = self._left_out(settings["random_state"])
        count, self._usual_variance = min(self.n_neighbors_, len(table) - 1), np.zeros(1)
        means, variances, totals = self._moments(self._samples[own], count, own)
        self._usual_variance = np.mean(variances, axis=0)
        self._scores = self._scores_of(self._targets[own], means, self._spreads(variances, totals))
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the targets, (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.
        """
        return self._moments(self._read(X), self.n_neighbors_)[0].reshape(-1, *self._shape)

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> NDArray[np.float64]:
        """Return intervals that hold the targets of new samples with a given probability.

        An interval is the prediction ± q s, where s is the spread of the targets of the neighbours,
        and q is exceeded by few of the training samples, each of which was left out in turn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.
        coverage : float, default=0.9
            The share of new samples whose target is to be inside, on average.

        Returns
        -------
        array of shape (n_samples, 2) or (n_samples, n_targets, 2)
            The lower and the upper ends. Each of several targets has its own intervals.

        Notes
        -----
        After an embedding that was learnt with the targets, training samples are predicted better
        than new ones, and the intervals are too short: call `calibrate_interval` with samples that
        nothing was learnt from.

        Examples
        --------
        >>> import numpy as np
        >>> from tatml import SoftNeighborsRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(600, 1))
        >>> y = X[:, 0] + X[:, 0] * rng.normal(size=600)  # noise that grows with X
        >>> model = SoftNeighborsRegressor().fit(X[:300], y[:300])
        >>> low, high = model.predict_interval(X[300:]).T
        >>> bool(0.85 < np.mean((low <= y[300:]) & (y[300:] <= high)) < 0.95)
        True
        """
        rows, coverage = self._read(X), check_between("coverage", coverage)
        n_scores = len(self._scores)
        rank = ceil((n_scores + 1) * coverage * (1 - ROUNDING))
        if rank > n_scores:
            raise ValueError(
                f"coverage: expected at most {n_scores / (n_scores + 1):.4g} with {n_scores} "
                f"samples, got {coverage}"
            )
        q = np.sort(self._scores, axis=0)[rank - 1]
        means, variances, totals = self._moments(rows, self.n_neighbors_)
        reach = q * self._spreads(variances, totals)
        return np.stack([means - reach, means + reach], axis=-1).reshape(-1, *self._shape, 2)

    def calibrate_interval(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Take held-out samples to find how wide the intervals of `predict_interval` have to be.

        The probability that an interval then holds the target of a new sample is at least the
        coverage, on average over such held-out samples, whatever the distribution: split conformal
        prediction. Neither this regressor nor the embedding may have been fitted to the samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The held-out samples.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        table, targets = validate_data(
            self, X, y, reset=False, dtype=self._samples.dtype, multi_output=True, y_numeric=True
        )
        if targets.shape[1:] != self._shape:
            raise ValueError(
                f"y: expected shape {(len(table), *self._shape)} as in fit, got {targets.shape}"
            )
        means, variances, totals = self._moments(self._center_rows(table), self.n_neighbors_)
        given = targets.reshape(means.shape).astype(np.float64)
        self._scores = self._scores_of(given, means, self._spreads(variances, totals))
        return self

    def _moments(
        self, rows: Floats, n_neighbors: int, own: NDArray[np.intp] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return means and variances of the neighbours' targets, and sums of the votes (n, 1)."""
        n_targets = self._targets.shape[1]
        means, variances = np.empty((2, len(rows), n_targets))
        totals = np.empty((len(rows), 1))
        for part in gen_batches(len(rows), _rows_per_chunk(n_neighbors * n_targets)):
            left_out = None if own is None else own[part]
            distances, index = self._nearest(rows[part], n_neighbors, left_out)
            votes, found = _votes(distances, self.temperature_), self._targets[index]
            totals[part] = votes.sum(axis=1, keepdims=True)
            means[part] = np.einsum("nk,nkt->nt", votes, found) / totals[part]
            squares = (found - means[part][:, None]) ** 2
            variances[part] = np.einsum("nk,nkt->nt", votes, squares) / totals[part]
        return means, variances, totals

    def _spreads(
        self, variances: NDArray[np.float64], totals: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return standard deviations of the neighbours' targets; the usual one counts as a vote."""
        return np.sqrt((totals * variances + self._usual_variance) / (totals + 1))

    def _scores_of(
        self,
        targets: NDArray[np.float64],
        means: NDArray[np.float64],
        spreads: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the errors of predictions in units of the spreads."""
        errors = np.abs(targets - means)
        least = np.finfo(float).tiny  # of constant targets
        return errors / np.maximum(spreads, least)

    def __sklearn_tags__(self) -> Tags:
        """Return tags that allow several targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _rows_per_chunk(numbers_per_row: int) -> int:
    return max(1, CHUNK_NUMBERS // numbers_per_row)


def _temperatures(distances: NDArray[np.float64], given: float | None) -> Sequence[float]:
    """Return the candidates for the temperature, in the units of the distance."""
    if given is not None:
        return [given]
    excess = distances - distances[:, :1]
    excess = excess[excess > 0]
    unit = np.median(excess) if len(excess) else 1.0  # if all are equal, any temperature will do
    return [float(unit * factor) for factor in TEMPERATURES]


def _votes(distances: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return the weights of neighbours whose distances are sorted."""
    with np.errstate(over="ignore"):  # a weight of 0 is right
        return np.exp((distances[:, :1] - distances) / temperature)


def _log_losses(
    codes: NDArray[np.intp],
    prior: NDArray[np.float64],
    pseudo_counts: NDArray[np.float64],
    own: NDArray[np.intp],
    index: NDArray[np.intp],
    counts: NDArray[np.intp],
) -> Callable[[NDArray], NDArray]:
    """Return a function from votes to the log losses of samples left out, and of one imagined.

    No neighbour votes for the class of the imagined sample. The share of its class is left out: it
    would add a constant.
    """
    same = codes[index] == codes[own, None]
    shares = prior[codes[own], None]

    def losses(votes: NDArray[np.float64]) -> NDArray[np.float64]:
        right = np.cumsum(votes * same, axis=1)[:, counts - 1]
        totals = np.cumsum(votes, axis=1)[:, counts - 1]
        found = np.empty((len(counts), len(pseudo_counts)))
        for column, pseudo in enumerate(pseudo_counts):
            imagined = pseudo / (totals.mean(axis=0) + pseudo)
            probabilities = (right + pseudo * shares) / (totals + pseudo)
            least = np.finfo(float).tiny  # without a pseudo-count, probabilities may be 0
            logs = np.log(np.maximum(np.vstack([probabilities, imagined]), least))
            found[:, column] = -logs.mean(axis=0)
        return found

    return losses


def _squared_errors(
    targets: NDArray[np.float64],
    own: NDArray[np.intp],
    index: NDArray[np.intp],
    counts: NDArray[np.intp],
) -> Callable[[NDArray], NDArray]:
    """Return a function from votes to the relative squared errors of samples left out."""
    variances = targets.var(axis=0)

    def losses(votes: NDArray[np.float64]) -> NDArray[np.float64]:
        totals = np.cumsum(votes, axis=1)[:, counts - 1]
        found = np.zeros((len(counts), 1))
        for column, variance in zip(targets.T, variances, strict=True):
            sums = np.cumsum(votes * column[index], axis=1)[:, counts - 1]
            errors = np.mean((sums / totals - column[own, None]) ** 2, axis=0)
            found[:, 0] += errors / variance if variance > 0 else 0.0
        return found

    return losses
