"""Coordinates of samples in the feature space of a kernel, by Nyström's method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import scipy.linalg
import scipy.spatial
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import additive_chi2_kernel, pairwise_kernels
from sklearn.utils import Tags, gen_batches
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._array import (
    Array,
    Doubles,
    Floats,
    Indices,
    agree,
    as_double,
    asarray,
    foreign_kind,
    namespace,
    to_numpy,
    zeros,
)
from .._data.blocks import Blocks
from .._validation import (
    check_between,
    check_choice,
    check_count,
    check_flag,
    check_not_negative,
    check_number_or,
    check_positive,
    check_random,
    generator_of,
)
from ._inputs import SampleReader

LEAST_EIGENVALUE = 1e-12  # relative to the largest; smaller ones are rounding errors
# Kernels that are computed from inner products, or given: wherever the samples are.
OF_PRODUCTS = ("rbf", "polynomial", "linear", "precomputed")
SYMMETRIC = 1e-8  # largest relative difference of K and its transpose
Kernel = Literal["rbf", "laplacian", "polynomial", "linear", "chi2", "precomputed"]
KERNELS = get_args(Kernel)
Units = Literal["auto", "columns", "common"]
UNITS = get_args(Units)

USUAL_LANDMARKS = 300
CHUNK_NUMBERS = 2**22  # numbers in a temporary array of kernel values: 32 MB


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
    if not per_column:
        variances = np.full_like(center, np.mean(variances))
    varies = variances > np.finfo(float).eps ** 2 * variances.max()
    return center, np.sqrt(np.where(varies, variances, 1.0))


def landmark_distances(kernel: str, landmarks: Doubles) -> Doubles:
    """Return the distances of all pairs of landmarks: minus the logarithm of k for γ = 1."""
    metrics = {"rbf": "sqeuclidean", "laplacian": "cityblock"}
    if kernel in metrics:
        return scipy.spatial.distance.pdist(landmarks, metrics[kernel])
    return -additive_chi2_kernel(landmarks)[np.triu_indices(len(landmarks), k=1)]


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


@dataclass(eq=False, repr=False)
class KernelMap(SampleReader):
    """Coordinates of samples in the feature space of a kernel, by landmarks (Nyström's method).

    A kernel k(x, z) is the inner product of two samples in a feature space. The samples are
    projected on the span of some of the training samples, the landmarks, and given by their
    coordinates there. The Euclidean distance of the coordinates of two landmarks is their exact
    distance in the feature space, k(x, x) + k(z, z) − 2 k(x, z) squared; other samples lose the
    part that lies outside the span. A linear metric of the coordinates is a curved metric of the
    samples. The estimators of tatml take a KernelMap as `kernel`.

    Parameters
    ----------
    kernel : {"rbf", "laplacian", "polynomial", "linear", "chi2", "precomputed"}, default="rbf"
        The kernel, as in scikit-learn: exp(−γ‖x − z‖²), exp(−γ‖x − z‖₁), (γ xᵀz + coef0)^degree,
        xᵀz, or exp(−γ Σ (x_i − z_i)²/(x_i + z_i)) for numbers of at least 0. "precomputed": X
        contains kernel values; its columns belong to the training samples.
    gamma : "auto" or float, default="auto"
        The parameter γ, in the units of the kernel. "auto": `gamma_factor` over the median squared
        distance ("rbf"), over the median distance ("laplacian", "chi2"), or 1 over the mean squared
        norm ("polynomial"); of the landmarks, in each block.
    gamma_factor : float, default=1.0
        For ``gamma="auto"``: a larger number bends the space more.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1.0
        Constant of the polynomial kernel, at least 0.
    n_landmarks : "auto", int or float, default="auto"
        Number of training samples that become landmarks, at random. "auto": 300, or all if there
        are fewer. A float between 0 and 1: this share of the samples, at least 2 and at most 300.
        With all samples as landmarks, the distances of training pairs are exact; with few, a metric
        has fewer entries to learn, which suits few samples.
    keep_features : bool, default=True
        Whether the samples themselves stay, as blocks before those of their kernel images. A
        metric then learns how much each counts. A precomputed kernel has no features to keep.
    units : {"auto", "columns", "common"}, default="auto"
        The units of the kernel. "columns": each column is divided by its standard deviation.
        "common": one unit for all columns of a block. "auto": "columns" for vectors, whose features
        may have different units, and "common" for matrices; an estimator with `kernel` chooses by
        held-out pairs. Unless the kernel is "chi2", the mean is subtracted as well.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the choice of the landmarks.

    Attributes
    ----------
    maps_ : list of BlockMap
        The map of each block, with its landmarks. They are training samples.
    gamma_ : array of shape (n_blocks,)
        The γ of each block.
    landmark_rows_ : int array of shape (n_landmarks,)
        The numbers of the training samples that are landmarks.
    block_shapes_in_ : tuple of (int, int)
        The shapes of the matrices seen in `fit`.
    block_shapes_out_ : tuple of (int, int)
        The shapes of the blocks that `transform` returns.
    n_features_in_ : int
        The total number of entries per sample.
    feature_names_in_ : array of str
        The names of the columns, if `fit` saw a data frame.

    See Also
    --------
    sklearn.kernel_approximation.Nystroem : One 2-D array, without centring and without units.

    Notes
    -----
    Kernel matrices are centred, and eigenvalues below 1e-12 of the largest are left out. So neither
    small nor shifted data lose digits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from tatml import TATML
    >>> from tatml.features import KernelMap
    >>> X, y = load_iris(return_X_y=True)
    >>> KernelMap(n_landmarks=50, random_state=0).fit_transform(X)
    Blocks(n_samples=150, blocks=[4×1, 49×1], dtype=float64)
    >>> metric = TATML(kernel="rbf", random_state=0).fit(X, y)
    >>> metric.transform(X).shape[0]
    150
    """

    kernel: Kernel = "rbf"
    _: KW_ONLY
    gamma: Literal["auto"] | float = "auto"
    gamma_factor: float = 1.0
    degree: int = 3
    coef0: float = 1.0
    n_landmarks: Literal["auto"] | float = "auto"
    keep_features: bool = True
    units: Units = "auto"
    random_state: Any = None

    def fit(self, X: Blocks | ArrayLike, y: Any = None) -> KernelMap:
        """Choose the landmarks, and compute the projections on their span.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The training samples; for a precomputed kernel, its values (n_samples, n_samples).
        y : ignored

        Returns
        -------
        self
        """
        blocks, self._form = self._read(X, reset=True)
        if len(blocks) < 2:
            raise ValueError(f"X: expected at least 2 samples, got n_samples = {len(blocks)}")
        self.check_settings()
        n_landmarks = self.count_landmarks(blocks)
        return self.fit_blocks(blocks, n_landmarks=n_landmarks)

    def transform(self, X: Blocks | ArrayLike) -> Blocks | Floats:
        """Return the coordinates of the kernel images, with the features if they are kept.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            Samples of the shapes seen in `fit`; for a precomputed kernel, its values for the
            training samples (n_samples, n_training_samples).

        Returns
        -------
        Blocks, or array of shape (n_samples, rank)
            The features, if they are kept, and one block of coordinates per block of X. An array if
            that is one block.
        """
        check_is_fitted(self)
        blocks, _ = self._read(X, reset=False)
        mapped = self.map_blocks(blocks)
        return mapped.arrays[0][:, :, 0] if self._gives_columns() else mapped

    def count_landmarks(self, blocks: Blocks) -> int:
        """Return the number of landmarks; raise an error if it does not fit the samples."""
        if self.kernel == "precomputed":
            check_precomputed(blocks)
        if isinstance(self.n_landmarks, str):
            return min(USUAL_LANDMARKS, len(blocks))
        if isinstance(self.n_landmarks, float):
            return min(USUAL_LANDMARKS, max(2, int(self.n_landmarks * len(blocks))))
        if self.n_landmarks > len(blocks):
            raise ValueError(
                f"n_landmarks: expected at most the number of samples, {len(blocks)}, got "
                f"{self.n_landmarks}"
            )
        return int(self.n_landmarks)

    def check_settings(self) -> None:
        """Raise an error unless all parameters are valid."""
        check_choice("kernel", self.kernel, KERNELS)
        check_choice("units", self.units, UNITS)
        check_flag("keep_features", self.keep_features)
        check_number_or("gamma", self.gamma, "auto")
        check_positive("gamma_factor", self.gamma_factor)
        check_count("degree", self.degree)
        check_not_negative("coef0", self.coef0)
        if isinstance(self.n_landmarks, str):
            check_choice("n_landmarks", self.n_landmarks, ("auto",))
        elif isinstance(self.n_landmarks, float):
            check_between("n_landmarks", self.n_landmarks)
        else:
            check_count("n_landmarks", self.n_landmarks, least=2)
        check_random(self.random_state)

    def fit_blocks(
        self,
        blocks: Blocks,
        *,
        n_landmarks: int,
        units: Units | None = None,
        columns: Indices | None = None,
        random_state: Any = None,
    ) -> KernelMap:
        """Fit to checked samples, as estimators do.

        Parameters
        ----------
        blocks : Blocks
            The training samples.
        n_landmarks : int
            The number of landmarks; all samples if they are fewer.
        units : {"columns", "common"}, optional
            The units of the kernel, in place of the parameter "auto".
        columns : int array of shape (n_samples,), optional
            For a precomputed kernel, the columns of the training samples; by default all.
        random_state : optional
            In place of the parameter None.
        """
        seed = random_state if self.random_state is None else self.random_state
        rng = generator_of(seed)
        n_samples = len(blocks)
        chosen = rng.permutation(n_samples)[:n_landmarks]
        self.landmark_rows_ = np.sort(chosen)
        wanted = units if self.units == "auto" and units is not None else self.units
        if self.kernel == "precomputed":
            columns = np.arange(n_samples) if columns is None else columns
            self.maps_ = [self._fit_precomputed(to_numpy(blocks.arrays[0])[:, :, 0], columns)]
        else:
            self._check_signs(blocks)
            self.maps_ = [
                self._fit_block(array, wanted, m) for m, array in enumerate(blocks.arrays)
            ]
        self.gamma_ = np.array([block_map.gamma for block_map in self.maps_])
        kept = blocks.block_shapes if self._keeps_features() else ()
        images = tuple((block_map.projection.shape[1], 1) for block_map in self.maps_)
        self.block_shapes_out_ = (*kept, *images)
        return self

    def among_rows(self, rows: Indices) -> KernelMap:
        """Name the landmarks by numbers of other samples, of which `rows` were those of fit."""
        self.landmark_rows_ = rows[self.landmark_rows_]
        return self

    def map_blocks(self, blocks: Blocks) -> Blocks:
        """Return the features, if they are kept, and the coordinates of the kernel images."""
        self._check_signs(blocks)
        images = [
            self._map_block(array, block_map)
            for array, block_map in zip(blocks.arrays, self.maps_, strict=True)
        ]
        kept = blocks.arrays if self._keeps_features() else ()
        names = name_images(blocks.names or blocks.n_blocks, len(kept), len(images))
        kept_names = (blocks.row_names or [None] * len(kept))[: len(kept)]
        row_names = [*kept_names, *[None] * len(images)]
        return Blocks(*kept, *images, names=names, row_names=row_names)

    def _fit_block(self, array: Array, units: str, m: int) -> BlockMap:
        """Return the map of one block of samples."""
        rows = to_numpy(array).reshape(array.shape[0], -1).astype(np.float64, copy=False)
        of_vectors = units == "auto" and array.shape[2] == 1
        center, scale = find_units(rows, units == "columns" or of_vectors)
        if self.kernel == "chi2":
            center = np.zeros_like(center)
        landmarks = (rows[self.landmark_rows_] - center) / scale
        gamma = self._find_gamma(landmarks)
        K = self._kernel_values(landmarks, landmarks, gamma)
        means, projection = project(K, m)
        return BlockMap(landmarks, center, scale, gamma, means, projection)

    def _fit_precomputed(self, values: Floats, columns: Indices) -> BlockMap:
        chosen = columns[self.landmark_rows_]
        means, projection = project(values[self.landmark_rows_][:, chosen].astype(np.float64), 0)
        nothing = np.zeros(0)
        return BlockMap(chosen, nothing, nothing, 1.0, means, projection)

    def _map_block(
        self, array: Array, block_map: BlockMap, chunk_numbers: int = CHUNK_NUMBERS
    ) -> Array:
        """Return the coordinates of samples, computed in chunks where the samples are."""
        if foreign_kind(array) is not None and self.kernel not in OF_PRODUCTS:
            return asarray(self._map_block(to_numpy(array), block_map), array)
        xp, n_samples = namespace(array), array.shape[0]
        placed = block_map.placed(array)
        result = zeros((n_samples, placed.projection.shape[1]), placed.projection)
        for part in gen_batches(n_samples, max(1, chunk_numbers // len(block_map.means))):
            rows = xp.reshape(array[part, ...], (part.stop - part.start, -1))
            if self.kernel == "precomputed":
                values = as_double(xp.take(rows, placed.landmarks, axis=1))
            else:
                rows = (as_double(rows) - placed.center) / placed.scale
                values = self._kernel_values(rows, placed.landmarks, placed.gamma)
            values -= placed.means
            values -= xp.mean(values, axis=1, keepdims=True)
            result[part, ...] = values @ placed.projection
        return result

    def _kernel_values(self, rows: Array, landmarks: Array, gamma: float) -> Array:
        given = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        if foreign_kind(rows) is not None:
            return product_kernel(self.kernel, rows, landmarks, **given)
        return pairwise_kernels(rows, landmarks, metric=self.kernel, filter_params=True, **given)

    def _find_gamma(self, landmarks: Doubles) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.kernel == "linear":
            return 1.0
        if self.kernel == "polynomial":
            usual = float(np.mean(np.sum(landmarks**2, axis=1)))
            return 1.0 / usual if usual > 0 else 1.0
        # The logarithm of the kernel with γ = 1 is minus the distance, squared for "rbf".
        distances = landmark_distances(self.kernel, landmarks)
        usual = float(np.median(distances)) if len(distances) else 0.0
        return self.gamma_factor / usual if usual > 0 else 1.0

    def _check_signs(self, blocks: Blocks) -> None:
        for m, array in enumerate(blocks.arrays if self.kernel == "chi2" else ()):
            rows = to_numpy(array).reshape(array.shape[0], -1)
            for sample, entry in np.argwhere(rows < 0)[:1]:
                raise ValueError(
                    "X: expected numbers of at least 0 for kernel='chi2', got "
                    f"{rows[sample, entry]:g} in block {m}, sample {sample}, entry {entry}"
                )

    def _keeps_features(self) -> bool:
        return bool(self.keep_features) and self.kernel != "precomputed"

    def _gives_columns(self) -> bool:
        """Return whether the result is one 2-D array, whose columns can have names."""
        return len(getattr(self, "block_shapes_out_", ())) == 1

    @available_if(_gives_columns)
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names kernelmap0, kernelmap1, … of the coordinates.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        array of str of shape (rank,)
        """
        check_is_fitted(self)
        n_columns, _ = self.block_shapes_out_[0]
        return np.array([f"kernelmap{k}" for k in range(n_columns)], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.positive_only = self.kernel == "chi2"
        return tags


def name_images(names: Sequence[str] | int, n_kept: int, n_images: int) -> list[str]:
    """Return the names of the blocks that are kept, and of the kernel images of all blocks.

    `names` are those of the blocks, or their number if they have none.
    """
    if isinstance(names, int):
        if names == 1:
            return ["features"] * n_kept + ["kernel image"] * n_images
        names = [f"block {m}" for m in range(names)]
    return [*names[:n_kept], *(f"kernel image of {name}" for name in names[:n_images])]
