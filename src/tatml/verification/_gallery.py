"""A gallery: several enrolled samples per identity, and one probe against one or many of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.utils import gen_batches

from .._array import Doubles, Indices, to_numpy
from .._data.arrays import read_groups
from .._data.blocks import Blocks, as_blocks
from .._data.sparse import SparseBlock
from .._estimators.inputs import check_has, samples_of
from .._learning.metric import CHUNK_NUMBERS
from .._messages import shown
from .._validation import check_between, check_choice, check_count, check_finite
from .._verification.identification import (
    IdentificationCalibration,
    expected_rate,
    find_few_identities,
    find_share,
    find_threshold,
)
from .._verification.targets import GUARANTEES, Guarantee
from .._warnings import warn_user

Rule = Literal["auto", "model", "mean_embedding", "mean_score"]
RULES = ("auto", "model", "mean_embedding", "mean_score")


class Identified(NamedTuple):
    """What `Gallery.identify` returns.

    Parameters
    ----------
    identity : object array of shape (n_samples,)
        The best identity of each sample, None where its score is not above the threshold.
    score : array of shape (n_samples,)
        The score of the best identity, whether it is above the threshold or not.

    Examples
    --------
    >>> from tatml import Euclidean
    >>> from tatml.verification import Gallery
    >>> judge = Euclidean().fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    >>> gallery = Gallery(judge).enrol([[0.0], [4.0]], ["ann", "ben"])
    >>> gallery.identify([[0.5], [4.1], [9.0]], threshold=-1.0).identity.tolist()
    ['ann', 'ben', None]
    """

    identity: NDArray[Any]
    score: Doubles


class Gallery:
    """Enrolled identities with samples, to verify a sample against one or to find it among all.

    Any fitted judge of pairs can be used: a metric, with or without midpoints, or `PairThreshold`
    with samples. With one enrolled sample per identity each score is its `pair_score`.

    Parameters
    ----------
    estimator : fitted estimator
        Gives the scores. It is not copied: if it is fitted again, make a new gallery.
    rule : {"auto", "model", "mean_embedding", "mean_score"}, default="auto"
        The score of an identity with several samples:

        - "model": `enrolled_scores`, the closed form for several samples of a midpoint for new
          classes;
        - "mean_embedding": minus the distance to the mean of the rows of `transform`. Without
          `transform` it is `pair_score` with the mean of the samples themselves;
        - "mean_score": the mean of the scores of its samples;
        - "auto": the first of these that the estimator has; "mean_score" if its metric is a
          function, for which a mean of samples may make no sense.

    Attributes
    ----------
    identities : list
        The enrolled identities, in the order in which they were enrolled.
    threshold_ : float
        What `identify` compares the best score with. Set by `calibrate`.
    calibration_ : IdentificationCalibration
        How it was found.

    Notes
    -----
    The gallery has copies of the samples, and nothing that is computed from them is kept. `remove`
    overwrites the copies with zeros and drops them, so that they are in no file that is saved
    afterwards. What the user or the estimator holds, such as a `preprocessor`, is not touched.

    `pickle` and `joblib` save a gallery with its estimator; `tatml.io.save_model` saves models
    only, and refuses it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from tatml import TATML
    >>> from tatml.verification import Gallery
    >>> X, y = load_digits(return_X_y=True)
    >>> metric = TATML(midpoint=True, new_classes=True, random_state=0).fit(X[y < 5], y[y < 5])
    >>> later = y >= 5
    >>> new, digit = X[later], y[later]
    >>> gallery = Gallery(metric).enrol(new[:50], digit[:50])
    >>> found = gallery.identify(new[50:], threshold=-np.inf)
    >>> bool(np.mean(found.identity == digit[50:]) > 0.7)
    True
    >>> gallery.remove(7).identities
    [5, 6, 8, 9]
    """

    def __init__(self, estimator: Any, *, rule: Rule = "auto"):
        check_choice("rule", rule, RULES)
        check_has(estimator, "pair_score")
        if not hasattr(estimator, "block_shapes_"):
            raise ValueError(
                "estimator: expected one that was fitted to samples, got "
                f"{type(estimator).__name__} with scores of pairs only"
            )
        has_model = hasattr(estimator, "enrolled_scores") and estimator.new_classes
        if rule == "auto":
            any_metric = callable(getattr(estimator, "metric", None))
            rule = "model" if has_model else "mean_score" if any_metric else "mean_embedding"
        if rule == "model" and not has_model:
            raise ValueError(
                "rule: expected 'mean_embedding' or 'mean_score', got 'model', which needs "
                f"midpoint=True and new_classes=True, for {type(estimator).__name__}"
            )
        self.estimator, self.rule = estimator, rule
        self._enrolled: dict[Hashable, Blocks] = {}
        self._later: set[Hashable] = set()  # enrolled after the calibration

    def __repr__(self) -> str:
        name = type(self.estimator).__name__
        return f"Gallery({name}, rule={self.rule!r}, {len(self._enrolled)} identities)"

    @property
    def identities(self) -> list[Any]:
        """The enrolled identities, in the order in which they were enrolled."""
        return list(self._enrolled)

    # Who is enrolled

    def enrol(self, X: Blocks | ArrayLike, groups: ArrayLike) -> Self:
        """Enrol identities that are not enrolled yet; copies of their samples are kept.

        After `calibrate`, a warning says what the additional identities do to the promised rate.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            One or more samples of each identity, of the same shape as in fit.
        groups : array-like of shape (n_samples,)
            Their identities: numbers or words.

        Returns
        -------
        self
        """
        blocks = self._read(X)
        names, number = read_groups(groups, len(blocks))
        rows = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
        new: dict[Any, Any] = dict(
            sorted(zip(names.tolist(), rows, strict=True), key=lambda pair: pair[1][0])
        )
        for name in new:
            if name in self._enrolled:
                raise ValueError(
                    f"groups: expected identities that are not enrolled, got {shown(name)}; to "
                    "replace its samples, remove it first"
                )
        for name, chosen in new.items():
            self._enrolled[name] = blocks[chosen]  # a copy, since `chosen` is an array of rows
        if hasattr(self, "calibration_"):
            self._later.update(new)
            warn_user(self._promise_of_more())
        return self

    def remove(self, identity: Hashable) -> Self:
        """Overwrite the samples of an identity with zeros, and drop them and its name.

        A promised rate holds for fewer identities, too.
        """
        self._check_enrolled(identity)
        for array in self._enrolled.pop(identity).arrays:
            array.fill(0)
        self._later.discard(identity)
        return self

    def _promise_of_more(self) -> str:
        n, found = len(self._later), self.calibration_
        expected, most = self.expected_fpir(found.n_enrolled + n)
        return (
            f"groups: the threshold was calibrated to a false positive identification rate of "
            f"{found.max_fpir:g} for the {found.n_enrolled} identities that were enrolled; {n} of "
            f"the {len(self._enrolled)} now enrolled came later. With {found.n_enrolled + n} the "
            f"rate is about {expected:.2g}, on average at most {most:.2g} if they are like the "
            "others; calibrate again for a promise"
        )

    # Scores

    def scores(self, X: Blocks | ArrayLike, identity: Hashable = None) -> Doubles:
        """Return the scores of samples with the enrolled identities; higher is more alike.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            Samples of the same shape as in fit.
        identity : optional
            One identity. Default: all.

        Returns
        -------
        array of shape (n_samples, n_identities), or (n_samples,) for one identity
            The columns are in the order of `identities`.
        """
        if identity is not None:
            self._check_enrolled(identity)
            return self._score(self._read(X), [identity])[:, 0]
        return self._score(self._read(X), self.identities)

    def verify(
        self, X: Blocks | ArrayLike, identity: Hashable, threshold: float | None = None
    ) -> NDArray[np.bool_]:
        """Return which samples are those of an identity: the score is above a threshold.

        Parameters
        ----------
        X
            As for `scores`.
        identity
            The identity that is claimed for all of them.
        threshold : float, optional
            Default: −`threshold_` of the estimator. A rate that this promises for pairs of samples
            is promised for one enrolled sample only.

        Returns
        -------
        bool array of shape (n_samples,)
        """
        if threshold is None:
            check_has(self.estimator, "threshold_")
            threshold = -self.estimator.threshold_
        return self.scores(X, identity) > _check_threshold(threshold)

    def identify(self, X: Blocks | ArrayLike, threshold: float | None = None) -> Identified:
        """Return the best identity of each sample, None if its score is not above a threshold.

        Parameters
        ----------
        X
            As for `scores`.
        threshold : float, optional
            Default: `threshold_`, which `calibrate` sets. With −∞ somebody is found always.

        Returns
        -------
        Identified
            Arrays of `identity` and `score`, one entry for each sample.
        """
        if threshold is None:
            if not hasattr(self, "threshold_"):
                raise ValueError(
                    "threshold: expected a number before the gallery is calibrated, got None; call "
                    "calibrate with probes of others, or give -inf to find somebody always"
                )
            threshold = self.threshold_
        threshold = _check_threshold(threshold)
        best, rows = self._best(self._read(X))[:2]
        names = np.empty(len(self._enrolled), dtype=object)
        names[:] = self.identities
        found = names[rows]
        found[best <= threshold] = None
        return Identified(found, best)

    # The promised rate

    def calibrate(
        self,
        X: Blocks | ArrayLike,
        groups: ArrayLike,
        *,
        max_fpir: float,
        confidence: float | None = 0.95,
        guarantee: Guarantee = "approximate",
    ) -> Self:
        """Set the threshold of `identify` to a promised false positive identification rate.

        The FPIR is the share of samples of people who are not enrolled that `identify` takes for
        somebody. The promise is one for the identities that are enrolled now, and for any part of
        them. It assumes that the people of the probes are a random sample of those who will come
        without being enrolled; a person with more samples counts more.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_probes, n) or (n_probes, n, n')
            Probes: samples of people who are not enrolled and whom the metric was not learnt from.
        groups : array-like of shape (n_probes,)
            Their identities. Probes of one identity are dependent, also because each gives the
            largest of all its scores.
        max_fpir : float
            The largest rate that is allowed, between 0 and 1. If N identities are enrolled, and
            n will be, ``max_fpir * N / n`` leaves room for them, see `expected_fpir`.
        confidence : float or None, default=0.95
            The confidence that the true rate is at most `max_fpir`. None sets the plain quantile.
        guarantee : {"approximate", "proved"}, default="approximate"
            "proved" uses one probe of each identity, drawn at random: the promise is a theorem.
            "approximate" uses all and estimates what they are worth, as `calibrate_threshold` does
            for false non-matches. With one probe per identity both are exact.

        Returns
        -------
        self
            With `threshold_` and `calibration_`.
        """
        check_between("max_fpir", max_fpir)
        if confidence is not None:
            check_between("confidence", confidence)
        check_choice("guarantee", guarantee, GUARANTEES)
        blocks = self._read(X)
        names, identity = read_groups(groups, len(blocks))
        for name in names.tolist():
            if name in self._enrolled:
                raise ValueError(
                    f"groups: expected probes of people who are not enrolled, got {shown(name)}"
                )
        best = self._best(blocks)[0]
        threshold, method, worth = find_threshold(best, identity, max_fpir, confidence, guarantee)
        matches = self._best(blocks, threshold)[2]
        self.threshold_, self._later = threshold, set()
        self.calibration_ = IdentificationCalibration(
            method=method,
            n_enrolled=len(self._enrolled),
            max_fpir=float(max_fpir),
            confidence=None if confidence is None else float(confidence),
            n_errors=int(np.sum(best > threshold)),
            n_probes=len(best),
            n_effective=worth,
            vouched_share=find_share(identity, method, confidence),
            match_counts=tuple(np.bincount(matches).tolist()),
        )
        if confidence is not None and method == "approximate":
            warning = find_few_identities(identity, confidence)
            if warning:
                warn_user(warning)
        return self

    def expected_fpir(self, n_enrolled: int) -> tuple[float, float]:
        """Return what FPIR to expect at the threshold with another number of identities.

        Parameters
        ----------
        n_enrolled : int
            How many identities are enrolled.

        Returns
        -------
        expected : float
            An estimate. For fewer identities than in `calibrate` it is the mean of the observed
            rate over all parts of the gallery of this size; for more, that increase continued.
        most : float
            `max_fpir` for at most the N identities of `calibrate`, and ``max_fpir * n / N`` for n
            of them. For more than N it is no promise. It is an upper limit for a given threshold,
            on average over which N of the n identities are enrolled first, if that is independent
            of their scores: a probe that matches somebody among n identities does so among a random
            N of them in at least N/n of the cases. The calibrated threshold depends on who the
            first N are, so that the limit may be exceeded, above all if N is small.
        """
        n_enrolled = check_count("n_enrolled", n_enrolled)
        if not hasattr(self, "calibration_"):
            raise ValueError("n_enrolled: expected a calibrated gallery; call calibrate first")
        found = self.calibration_
        counts = np.array(found.match_counts)
        expected = expected_rate(counts, found.n_enrolled, n_enrolled)
        return expected, min(1.0, found.max_fpir * max(1.0, n_enrolled / found.n_enrolled))

    # How scores are computed

    def _read(self, X: Any) -> Blocks:
        blocks = samples_of(self.estimator, X, reset=False)
        if any(isinstance(array, SparseBlock) for array in blocks.arrays):
            raise TypeError("X: expected dense samples in a gallery, got a sparse table")
        return as_blocks(blocks)

    def _check_enrolled(self, identity: Any) -> None:
        try:
            is_known = identity in self._enrolled
        except TypeError:  # a list or an array
            is_known = False
        if not is_known:
            raise ValueError(
                f"identity: expected one of the {len(self._enrolled)} that are enrolled, got "
                f"{shown(identity)}"
            )

    def _best(self, blocks: Blocks, above: float = np.inf) -> tuple[Doubles, Indices, Indices]:
        """Return the best score of each sample, its column, and how many are above a number."""
        parts = []
        for part in gen_batches(len(blocks), max(1, CHUNK_NUMBERS // max(1, len(self._enrolled)))):
            found = self._score(blocks[part], self.identities)
            parts.append((found.max(axis=1), found.argmax(axis=1), (found > above).sum(axis=1)))
        best, rows, n_above = (np.concatenate(each) for each in zip(*parts, strict=True))
        return best, rows, n_above

    def _score(self, blocks: Blocks, identities: list[Any]) -> Doubles:
        """Return the scores of samples with some of the identities, by the rule."""
        if not identities:
            raise ValueError("identity: expected somebody to be enrolled, got an empty gallery")
        parts = [self._enrolled[name] for name in identities]
        owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        columns = zip(*(part.arrays for part in parts), strict=True)
        known = parts[0]._with_arrays(np.concatenate(arrays) for arrays in columns)
        if self.rule == "model":
            return to_numpy(self.estimator.enrolled_scores(blocks, known, owner))
        shares = (1 / np.bincount(owner)[owner], (owner, np.arange(len(owner))))
        means: Any = csr_array(shares)
        if self.rule == "mean_score":
            return (means @ self._score_pairs(blocks, known).T).T
        if hasattr(self.estimator, "transform"):
            rows = means @ self.estimator.transform(known)
            return -cdist(self.estimator.transform(blocks), rows)
        flat = (means @ array.reshape(len(array), -1) for array in known.arrays)
        shaped = zip(flat, known.block_shapes, strict=True)
        mean = known._with_arrays(rows.reshape(-1, *shape) for rows, shape in shaped)
        return self._score_pairs(blocks, mean)

    def _score_pairs(self, blocks: Blocks, known: Blocks) -> Doubles:
        """Return `pair_score` of every sample with every known one."""
        estimator, n, m = self.estimator, len(blocks), len(known)
        if hasattr(estimator, "search_vectors"):
            return estimator.search_vectors(blocks)[0] @ estimator.search_vectors(known)[1].T
        if hasattr(estimator, "transform"):
            return -cdist(estimator.transform(blocks), estimator.transform(known))
        both = zip(blocks.arrays, known.arrays, strict=True)
        samples = blocks._with_arrays(np.concatenate(arrays) for arrays in both)
        pairs = np.stack([np.repeat(np.arange(n), m), np.tile(n + np.arange(m), n)], axis=1)
        return estimator.pair_score(pairs, samples).reshape(n, m)


def _check_threshold(value: Any) -> float:
    return value if value == -np.inf else check_finite("threshold", value)
