"""Nyström's method for one block: the projection on landmarks, and checks of kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.spatial
from numpy.typing import NDArray
from sklearn.metrics.pairwise import additive_chi2_kernel

from .._array import Array, Doubles, Floats, agree, asarray, namespace
from .._data.blocks import Blocks

LEAST_EIGENVALUE = 1e-12  # relative to the largest; smaller ones are rounding errors
# Kernels that are computed from inner products, or given: wherever the samples are.
OF_PRODUCTS = ("rbf", "polynomial", "linear", "precomputed")
SYMMETRIC = 1e-8  # largest relative difference of K and its transpose


@dataclass(frozen=True)
class BlockMap:
    """The map of one block: x to (k(x, landmarks), centred) · projection.

    Parameters
    ----------
    landmarks : array of shape (n_landmarks, n_columns)
        In the units of the kernel; for a precomputed kernel, the numbers of the landmarks.
    center, scale : arrays of shape (n_columns,)
        A sample x is (x − center)/scale in the units of the kernel.
    gamma : float
        The parameter γ of the kernel.
    means : array of shape (n_landmarks,)
        The means of the columns of the kernel matrix of the landmarks.
    projection : array of shape (n_landmarks, rank)
    """

    landmarks: NDArray
    center: Doubles
    scale: Doubles
    gamma: float
    means: Doubles
    projection: Doubles

    def placed(self, like: Array) -> BlockMap:
        """Return the map with its arrays on the device of `like`."""
        arrays = {name: asarray(v, like) for name, v in vars(self).items() if name != "gamma"}
        return replace(self, **arrays)


def product_kernel(
    kernel: str, rows: Array, landmarks: Array, *, gamma: float, degree: float, coef0: float
) -> Array:
    """Return the values of a kernel that depends on inner products, for arrays of any package."""
    xp, inner = namespace(rows), rows @ landmarks.T
    if kernel == "linear":
        return inner
    if kernel == "polynomial":
        return (gamma * inner + coef0) ** degree
    squares = xp.linalg.vecdot(rows, rows)[:, None] + xp.linalg.vecdot(landmarks, landmarks)
    return xp.exp(-gamma * xp.clip(squares - 2 * inner, min=0.0))


def find_units(rows: Doubles, per_column: bool) -> tuple[Doubles, Doubles]:
    """Return the mean and the unit of each column."""
    center = rows.mean(axis=0)
    constant = agree(rows.min(axis=0), rows.max(axis=0))  # their variance may be rounding errors
    variances = np.where(constant, 0.0, np.mean((rows - center) ** 2, axis=0))
    varies = variances > np.finfo(float).eps ** 2 * variances.max()
    if not per_column:
        total = float(np.mean(variances))
        return center, np.full_like(center, np.sqrt(total) if total > 0 else 1.0)
    return center, np.sqrt(np.where(varies, variances, 1.0))


def landmark_distances(kernel: str, landmarks: Doubles) -> Doubles:
    """Return the distances of all pairs of landmarks: minus the logarithm of k for γ = 1."""
    if kernel == "rbf":
        return scipy.spatial.distance.pdist(landmarks, "sqeuclidean")
    if kernel == "laplacian":
        return scipy.spatial.distance.pdist(landmarks, "cityblock")
    first, second = np.triu_indices(len(landmarks), k=1)
    return -additive_chi2_kernel(landmarks)[first, second]


def project(K: Doubles, m: int) -> tuple[Doubles, Doubles]:
    """Return the means of the columns of K, and the projection on the span of the landmarks.

    The projection divides the eigenvectors of the centred kernel matrix by the roots of their
    eigenvalues; those of at most 1e-12 of the largest are left out.
    """
    means = K.mean(axis=0)
    centred = K - means - means[:, None] + means.mean()
    values, vectors = scipy.linalg.eigh((centred + centred.T) / 2)
    if not values[-1] > 0:
        raise ValueError(
            f"X: expected landmarks with different kernel images in block {m}, got equal ones"
        )
    kept = values > LEAST_EIGENVALUE * values[-1]
    vectors = vectors[:, kept] - vectors[:, kept].mean(axis=0)
    return means, vectors / np.sqrt(values[kept])


def check_precomputed(blocks: Blocks) -> None:
    """Raise an error unless X is a symmetric positive semidefinite kernel matrix."""
    n_samples = len(blocks)
    if blocks.block_shapes != ((n_samples, 1),):
        raise ValueError(
            "X: expected the values of a precomputed kernel, of shape (n_samples, n_samples), got "
            f"{blocks!r}"
        )
    K = blocks.arrays[0][:, :, 0].astype(np.float64, copy=False)
    size = float(np.max(np.abs(K)))
    different = np.abs(K - K.T) > SYMMETRIC * size
    if np.any(different):
        row, column = (int(i) for i in np.argwhere(different)[0])
        raise ValueError(
            f"X: expected a symmetric kernel matrix, got {K[row, column]:g} for samples {row}, "
            f"{column} and {K[column, row]:g} for samples {column}, {row}"
        )
    least = float(scipy.linalg.eigh((K + K.T) / 2, eigvals_only=True, subset_by_index=[0, 0])[0])
    if least < -SYMMETRIC * size * n_samples:
        raise ValueError(
            "X: expected a positive semidefinite kernel matrix, got one with the smallest "
            f"eigenvalue {least:g}"
        )


def check_not_negative(rows: Floats, m: int) -> None:
    negative = np.argwhere(rows < 0)
    if len(negative):
        sample, entry = (int(i) for i in negative[0])
        raise ValueError(
            f"X: expected numbers of at least 0 for kernel='chi2', got {rows[sample, entry]:g} in "
            f"block {m}, sample {sample}, entry {entry}"
        )
