"""`pairs_from_chunks`: pairs for `TATMLPairs` from groups of samples that are known to be alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import check_count, check_random
from .arrays import read_array

NAME = "chunks"


def pairs_from_chunks(
    chunks: ArrayLike, n_dissimilar: int | None = None, random_state: Any = None
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return pairs for `TATMLPairs` from chunks: small groups of samples that are alike.

    All pairs within a chunk are similar (+1). Samples of different chunks are taken to be
    dissimilar (−1), and pairs of them are drawn at random without repetition. If two of your chunks
    may be of the same class, these labels are wrong for some pairs; C then limits their influence.

    Parameters
    ----------
    chunks : array-like of int of shape (n_samples,)
        The number of the chunk of each sample; −1 for samples in no chunk, as in metric-learn's
        RCA.
    n_dissimilar : int, optional
        How many dissimilar pairs to draw. Default: as many as there are similar pairs. If there
        are fewer, all of them.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw.

    Returns
    -------
    pairs : int array of shape (n_pairs, 2)
        Sample numbers; give the samples to `TATMLPairs` as preprocessor.
    y : int array of shape (n_pairs,)
        +1 for the pairs within a chunk, −1 for the others.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import TATMLPairs, pairs_from_chunks
    >>> pairs, y = pairs_from_chunks([0, 0, 1, 1, 1, -1], random_state=0)
    >>> pairs[y == 1].tolist()
    [[0, 1], [2, 3], [2, 4], [3, 4]]
    >>> int((y == -1).sum())
    4
    >>> X = np.array([[0.0, 1], [0.1, 5], [2, 2], [2.1, 6], [1.9, 3], [5, 5]])
    >>> TATMLPairs(preprocessor=X).fit(pairs, y).predict([[0, 1], [0, 3]])
    array([ 1, -1])
    """
    values = read_array(chunks, NAME)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ValueError(
            f"{NAME}: expected integers of shape (n_samples,), −1 for samples in no chunk, got "
            f"dtype {values.dtype} of shape {values.shape}"
        )
    if values.dtype.kind == "i" and np.any(values < -1):
        raise ValueError(f"{NAME}: expected numbers of at least −1, got {values.min()}")
    members = np.flatnonzero(values != -1)
    first, second = np.triu_indices(len(members), 1)
    first, second = members[first], members[second]
    alike = values[first] == values[second]
    if not alike.any() or alike.all():
        raise ValueError(
            f"{NAME}: expected at least two chunks, one of them of two samples or more, got "
            f"{len(np.unique(values[members]))} chunks of {len(members)} samples"
        )
    wanted = int(alike.sum()) if n_dissimilar is None else check_count("n_dissimilar", n_dissimilar)
    others = np.flatnonzero(~alike)
    rng = check_random(random_state)
    drawn = others[np.sort(rng.permutation(len(others))[:wanted])]
    chosen = np.concatenate([np.flatnonzero(alike), drawn])
    pairs = np.stack([first[chosen], second[chosen]], axis=1)
    return pairs, np.where(alike[chosen], 1, -1)
