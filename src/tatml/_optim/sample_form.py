"""When sums over pairs are computed by products over samples, and how: a part of `PairSums`.

These sums take fewer operations where there are many pairs per sample. They cancel where samples
are far from the origin compared with the distances of the pairs; there, differences are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from .._array import Array, on_gpu, sum_at
from .layout import multiply_rows, row_products, saved_by_samples
from .pair_graph import PairGraph

DENSE_SHARE = 0.7  # if a smaller share of the s_k is nonzero, a scatter selects these pairs first
# How many times the squared norms of the samples may exceed the squared distances, on average, for
# sums over samples: these lose as many digits.
LARGEST_NORMS = 1e3
LARGEST_NORMS_IN_SINGLE = 10.0  # for sums in float32 whose errors nothing corrects
LOOKED_AT = 4096  # number of pairs from which that ratio is estimated
# Multiplications that sums over samples have to save, on a CPU (False) and on a GPU (True); see
# benchmarks/pair_forms.py.
OVERHEAD = {False: 3e6, True: 6e9}


class SampleForm:
    """Sums over pairs by products over samples, for a class with features and a graph."""

    graph: PairGraph | None
    features: tuple[Array, ...]
    factors: Sequence[Array] | None
    _reach: Array | None = None

    @cached_property
    def by_samples(self: Any) -> bool:
        """Whether sums over the samples take fewer operations than sums over the pairs."""
        if self.graph is None or self.factors is not None:
            return False
        if self.limits.by_samples is not None:
            return self.limits.by_samples
        shapes, first = zip(self.sizes, self.widths, strict=True), self.features[0]
        return saved_by_samples(shapes, self.n_pairs, first.shape[0]) > OVERHEAD[on_gpu(first)]

    @cached_property
    def _norms(self: Any) -> Array:
        """‖z_i‖/√M of the samples, shape (n_samples,)."""
        squares = sum(row_products(block, block) for block in self.features)
        return self.xp.sqrt(squares / self.n_blocks)

    @property
    def largest_norms(self: Any) -> float:
        """The largest ratio of norms and distances for sums whose errors nothing corrects."""
        precise = self.features[0].dtype == self.xp.float64
        return LARGEST_NORMS if precise else LARGEST_NORMS_IN_SINGLE

    def _norms_of_pairs(self: Any) -> Array:
        """‖z_i‖ + ‖z_j‖ of each pair, over √M."""
        take = self.xp.take
        return take(self._norms, self.first, axis=0) + take(self._norms, self.second, axis=0)

    def _is_accurate(
        self: Any, norms: Array, distances: Array, weights: Array | float, largest: float
    ) -> bool:
        """Return whether sums over samples with these weights lose few digits."""
        xp = self.xp
        return bool(xp.sum(weights * norms * norms) <= largest * xp.sum(weights * distances))

    @cached_property
    def _by_accurate_samples(self: Any) -> bool:
        """Whether sums over samples cost less, and are accurate for some of the pairs."""
        if not self.by_samples:
            return False
        step = -(-self.n_pairs // LOOKED_AT)
        places = self.xp.arange(0, self.n_pairs, step, device=self.features[0].device)
        some = self.take(places)
        return some._is_accurate(some._norms_of_pairs(), some.distances(), 1.0, LARGEST_NORMS)

    def _quadratic_by_samples(self: Any, V: Sequence[Array], expand: bool = False) -> Array:
        """Compute ⟨A_k, V⟩ by one product over the samples.

        With `expand`, squares are expanded: faster, and accurate enough for products of conjugate
        gradients where `_by_accurate_samples`.
        """
        images, graph = multiply_rows(self.features, V), self.graph
        compute = graph.expanded_products if expand else graph.inner_products
        inner = compute(self.features, images, self.limits.chunk_at(self.features[0]))
        return graph.unsort(inner) / self.n_blocks

    def distances_at(self: Any) -> Array:
        """Compute D_k for a scatter; `reach` tells how, for error bounds.

        Where sums over samples are accurate, they come from inner products of samples, except those
        of near pairs.
        """
        if not self._by_accurate_samples:
            return self.distances()
        xp, norms, room = self.xp, self._norms_of_pairs(), self.limits.chunk_at(self.features[0])
        squares = self.graph.expanded_products(self.features, self.features, room)
        squares = self.graph.unsort(squares) / self.n_blocks
        cancels = self.largest_norms * squares <= norms * norms
        near = xp.nonzero(cancels)[0]
        if near.shape[0] > 0:
            exact = sum_at(near, self.take(near).distances(), self.n_pairs)
            squares = xp.where(cancels, exact, squares)
            norms = xp.where(cancels, xp.sqrt(exact), norms)
        self._reach = norms
        return squares

    def _scatter_by_samples(self: Any, s: Array) -> list[Array]:
        """Compute S_m by the Laplacian of the pairs."""
        graph, room = self.graph, self.limits.chunk_at(self.features[0])
        s = graph.sort(s) / self.n_blocks
        return [graph.scatter(block, s, room) for block in self.features]

    def scatter_at(self: Any, s: Array, distances: Array) -> list[Array]:
        """Compute S_m as exactly as from differences; `reach` tells how, for error bounds."""
        if self.by_samples:
            norms = self._norms_of_pairs()
            if self._is_accurate(norms, distances, self.xp.abs(s), self.largest_norms):
                self._reach, used = norms, self.xp.nonzero(s)[0]
                if used.shape[0] < DENSE_SHARE * s.shape[0]:
                    return self.take(used)._scatter_by_samples(self.xp.take(s, used, axis=0))
                return self._scatter_by_samples(s)
        return self._by_pairs(s)
