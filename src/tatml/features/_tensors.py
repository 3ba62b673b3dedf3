"""Tensors as samples: one matrix per mode."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._array import Floats
from .._data.blocks import Blocks, as_blocks
from .._validation import as_list
from ._inputs import StatelessTransformer, as_tensors


class Unfold(StatelessTransformer):
    """Unfoldings of tensors: one matrix per mode.

    The mode-m unfolding of a d_0 × … × d_{k−1} tensor is a matrix with d_m rows. Its columns run
    over all other modes in their order, the first of them varying fastest (Kolda and Bader, Tensor
    decompositions and applications, SIAM Review 2009; their mode 1 is mode 0 here). Each unfolding
    has all entries of the tensor, hence the same Frobenius norm. A metric learnt on the blocks has
    one d_m × d_m matrix per mode instead of one matrix for the whole tensor. Only the shape is
    learnt; `transform` works without `fit`.

    Parameters
    ----------
    modes : sequence of int, optional
        The modes to unfold, from 0 to k − 1, in the order of the blocks; None means all.

    Attributes
    ----------
    sample_shape_in_ : tuple of int
        The shape (d_0, …, d_{k−1}) of the tensors seen in `fit`.
    n_features_in_ : int
        The number of entries per tensor.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.features import Unfold
    >>> X = np.arange(24.0).reshape(1, 2, 3, 4)
    >>> blocks = Unfold().fit_transform(X)
    >>> blocks
    Blocks(n_samples=1, blocks=[2×12, 3×8, 4×6], dtype=float64)
    >>> blocks.arrays[0][0, 0]
    array([ 0.,  4.,  8.,  1.,  5.,  9.,  2.,  6., 10.,  3.,  7., 11.])
    """

    def __init__(self, modes: Sequence[int] | None = None) -> None:
        self.modes = modes

    def fit(self, X: ArrayLike, y: Any = None) -> Unfold:
        """Check the modes, and store the shape of the tensors.

        Parameters
        ----------
        X : array-like of shape (n_samples, d_0, ..., d_{k−1})
            Tensors of k ≥ 2 modes.
        y : ignored

        Returns
        -------
        self
        """
        shape = as_tensors(X).shape[1:]
        _check_modes(self.modes, len(shape))
        self.sample_shape_in_ = shape
        self.n_features_in_ = prod(shape)
        return self

    def transform(self, X: ArrayLike) -> Blocks:
        """Unfold each tensor.

        Parameters
        ----------
        X : array-like of shape (n_samples, d_0, ..., d_{k−1})
            Tensors.

        Returns
        -------
        Blocks
            One block per mode, of matrices with d_m rows, with the names "mode 0", "mode 1", ….
        """
        tensors = as_tensors(X)
        shape = tensors.shape[1:]
        expected = getattr(self, "sample_shape_in_", shape)
        if shape != expected:
            raise ValueError(f"X: expected tensors of shape {expected} as in fit, got {shape}")
        modes = _check_modes(self.modes, len(shape))
        names = [f"mode {mode}" for mode in modes]
        return Blocks(*(_unfold(tensors, mode) for mode in modes), names=names)

    def inverse_transform(self, X: Blocks | ArrayLike) -> Floats:
        """Restore the tensors from the first block; the others have the same entries.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, d_m, n_columns)
            The result of `transform`, or its first block.

        Returns
        -------
        array of shape (n_samples, d_0, ..., d_{k−1})
        """
        check_is_fitted(self, "sample_shape_in_")
        mode = _check_modes(self.modes, len(self.sample_shape_in_))[0]
        n_rows = self.sample_shape_in_[mode]
        expected = (n_rows, self.n_features_in_ // n_rows)
        blocks = as_blocks(X)
        if blocks.block_shapes[0] != expected:
            raise ValueError(
                f"X: expected unfoldings of shape {expected}, as transform returns in the first "
                f"block, got {blocks.block_shapes[0]}"
            )
        return _fold(blocks.arrays[0], mode, self.sample_shape_in_)


def _unfold(tensors: Floats, mode: int) -> Floats:
    moved = np.transpose(tensors, (0, *_order(mode, len(tensors.shape) - 1)))
    return moved.reshape(len(tensors), tensors.shape[mode + 1], -1)


def _fold(matrices: Floats, mode: int, shape: tuple[int, ...]) -> Floats:
    order = _order(mode, len(shape))
    moved = matrices.reshape(len(matrices), *(shape[axis - 1] for axis in order))
    return np.ascontiguousarray(np.transpose(moved, np.argsort((0, *order))))


def _order(mode: int, n_modes: int) -> tuple[int, ...]:
    """Return the axes of the tensors with the mode first and the others in reverse order.

    In C order the last axis varies fastest, which is then the first of the other modes.
    """
    axis = mode + 1  # axis 0 counts the samples
    return (axis, *(other for other in range(n_modes, 0, -1) if other != axis))


def _check_modes(modes: Any, n_modes: int) -> list[int]:
    """Return the modes as a list of distinct integers from 0 to n_modes − 1."""
    if modes is None:
        return list(range(n_modes))
    listed = as_list("modes", modes, "a sequence of integers or None")
    if any(not isinstance(mode, Integral) or isinstance(mode, bool) for mode in listed):
        raise TypeError(f"modes: expected a sequence of integers or None, got {modes!r}")
    if not all(0 <= mode < n_modes for mode in listed):
        raise ValueError(f"modes: expected integers from 0 to {n_modes - 1}, got {modes!r}")
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(f"modes: expected at least one mode and no mode twice, got {modes!r}")
    return [int(mode) for mode in listed]
