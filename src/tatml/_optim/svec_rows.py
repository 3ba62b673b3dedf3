"""The rows svec(A_k)/M of sums over pairs or comparisons: chunk by chunk, or kept if they are few.

A Hessian is a sum of outer products of these rows. Where all of them are kept, the distances and
the scatter at a point are one product with them each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from .._array import Array, eye, inner
from .._svec import svec, svec_size, unsvec_all
from .layout import joined
from .sample_form import largest_norms
from .sums import Evaluation, Sums


def svec_chunks(sums: Sums, numbers_per_row: int) -> Iterator[tuple[slice, Array]]:
    """Yield (rows, svec(A_k)/M of these rows), for work on so many numbers per row."""
    links, pairs = sums.links, sums.pairs
    if links is None:
        for part in pairs.parts(numbers_per_row):
            yield part, pairs.svec_rows(part)
        return
    for part in pairs.parts(2 * numbers_per_row, sums.n_pairs):
        sides = [pairs.take(side[part]) for side in links]
        plus, minus = (side.svec_rows(slice(0, side.n_pairs)) for side in sides)
        yield part, plus - minus


class SvecRows:
    """svec(A_k)/M of all rows of some sums, which are kept where they fit into memory."""

    def __init__(self, sums: Sums):
        self.sums = sums

    @cached_property
    def kept(self) -> Array | None:
        """svec(A_k)/M of all rows, shape (n_pairs, Σ n_m(n_m+1)/2); None above the limits."""
        features, n_pairs = self.sums.features, self.sums.n_pairs
        width, limits = sum(map(svec_size, features.sizes)), features.limits
        if width > limits.svec_width or 8 * width * n_pairs > limits.svec_bytes:
            return None
        return joined([rows for _, rows in svec_chunks(self.sums, width)])

    @cached_property
    def _traces(self) -> Array:
        """Σ_m tr A_{m,k}/M of all rows that are kept, shape (n_pairs,)."""
        features = self.sums.features
        return self.kept @ features.xp.concat([svec(eye(n, features.like)) for n in features.sizes])

    def evaluate(
        self, L: Sequence[Array], slope: Callable[[slice, Array], Array]
    ) -> Evaluation | None:
        """Compute the distances, and LᵀS(s)L for s = slope(all rows, distances), at W = L Lᵀ.

        None where no rows are kept, for comparisons, and where too many digits would cancel: W has
        large and small eigenvalues, and the difference of a pair is along the small ones.
        """
        features = self.sums.features
        if self.sums.links is not None or self.kept is None:
            return None
        xp, sizes = features.xp, features.sizes
        distances = self.kept @ joined([svec(factor @ factor.T) for factor in L])
        # tr A_k tr W/M bounds the sum of the absolute values of the terms of D_k.
        reach = self._traces * sum(inner(factor, factor) for factor in L)
        if not xp.all(reach <= largest_norms(features) * distances):
            return None
        S = unsvec_all(self.kept.T @ slope(slice(0, self.sums.n_pairs), distances), sizes)
        scatter = [factor.T @ block @ factor for factor, block in zip(L, S, strict=True)]
        more_terms = 2 * (sum(map(svec_size, sizes)) + 1)
        return Evaluation(distances, scatter, lambda: xp.sqrt(reach), more_terms)
