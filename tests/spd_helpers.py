"""Random symmetric and positive definite matrices."""

import numpy as np
from helpers import random_spd

SIZES = (1, 2, 5, 9, 20)


def stack(n, n_samples=12, seed=0, spread=3.0):
    rng = np.random.default_rng([n, n_samples, seed])
    return np.stack([random_spd(rng, n, spread) for _ in range(n_samples)])


def symmetric_stack(n, n_samples=12, seed=0):
    array = np.random.default_rng([n, seed]).normal(size=(n_samples, n, n))
    return array + array.transpose(0, 2, 1)
