"""The prior of TATMLNeighbors: the one with the most neighbours of the same class.

The neighbours of held-out samples are found among the samples of the other folds, from which the
priors are computed. No solver is needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._array import to_numpy
from .._data.blocks import Blocks
from .._data.sampling import nearest_rows
from .embedding import embed_blocks
from .places import host_if_wide
from .prepare import prior_from_samples
from .priors import PriorName
from .within import within_classes

CANDIDATES: tuple[PriorName, ...] = (
    "discriminant",
    "auto",
    "scaled",
)  # of equally good ones, the first is taken
N_FOLDS = 5


def choose_prior(
    blocks: Blocks, labels: NDArray[np.intp], n_neighbors: int, n_images: int = 0
) -> PriorName:
    """Return the candidate with the most neighbours of the own class; the first in a tie.

    The neighbours are the `n_neighbors` nearest samples of the other folds. They are counted: their
    votes are often equally good for two candidates. The last `n_images` blocks are images of a
    kernel.
    """
    fold = _folds(labels)
    right = dict.fromkeys(CANDIDATES, 0)
    for held_out in range(N_FOLDS):
        known, other = np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out)
        if len(other) == 0 or len(np.unique(labels[known])) < 2 or len(known) <= n_neighbors:
            continue
        samples, others = host_if_wide(blocks[known], blocks[other])
        classes = np.unique(labels[known], return_inverse=True)[1]
        within = within_classes(samples, classes, n_images=n_images)
        try:
            priors = [prior_from_samples(name, samples, within) for name in CANDIDATES]
        except ValueError:  # a block is constant in this part
            continue
        for name, prior in zip(CANDIDATES, priors, strict=True):
            factors = prior.own_factors()
            rows, queries = (to_numpy(embed_blocks(factors, b)) for b in (samples, others))
            nearest = nearest_rows(rows, queries, n_neighbors)
            right[name] += int(np.sum(labels[known][nearest] == labels[other][:, None]))
    return max(CANDIDATES, key=lambda name: right[name])


def _folds(labels: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the fold of each sample: the samples of each class in turn."""
    fold = np.empty(len(labels), dtype=np.intp)
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        fold[own] = np.arange(len(own)) % N_FOLDS
    return fold
