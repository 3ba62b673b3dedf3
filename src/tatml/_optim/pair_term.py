"""The term of pairs in memory, with one distance, slope and curvature per pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from .._array import (
    Array,
    as_double,
    asarray,
    draw_indices,
    inner,
    namespace,
    placed,
    to_numpy,
    total,
)
from .certificate import PairTotals, pair_totals
from .hessian import (
    PAIRS_PER_DIMENSION,
    ActivePairs,
    SvecRows,
    Turned,
    congruent,
    dimension,
)
from .layout import Evaluation
from .losses import PairLoss, SmoothedHinge, SquaredHinge, zeta_at
from .sums import Sums, n_roundings, row_errors
from .terms import Line, Totals


@dataclass(frozen=True)
class PairTerm:
    """Σ_k φ_k(D_k − γ_k b0 − o_k) over pairs in memory, or over comparisons, or over both.

    Parameters
    ----------
    sums : Sums
        The pairs in the coordinates where the prior is the identity.
    loss : PairLoss
        φ, with its γ and its offset o.
    given : Sums or None
        The pairs in the user's coordinates; None where they are `sums`.
    given_loss : PairLoss or None
        φ before it was rounded to the precision of the computation; None where it is `loss`.
    pairs_per_dimension : int
        Pairs in a sampled Hessian, per dimension.
    rows : SvecRows
        The svec(A_k) of `sums`, which few pairs keep; made here if not given.
    """

    sums: Sums
    loss: PairLoss
    given: Sums | None = None
    given_loss: PairLoss | None = None
    pairs_per_dimension: int = PAIRS_PER_DIMENSION
    rows: SvecRows = field(default=None, repr=False)  # type: ignore[assignment]

    # Facts of the sums and of the loss: see `Term`
    block_shapes: tuple[tuple[int, int], ...] = field(init=False, repr=False)
    n_pairs: int = field(init=False, repr=False)
    quadratic: bool = field(init=False, repr=False)
    compares: bool = field(init=False, repr=False)
    like: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sums, loss = self.sums, self.loss
        vars(self).update(
            rows=self.rows if self.rows and self.rows.sums is sums else SvecRows(sums),
            block_shapes=sums.features.shapes,
            n_pairs=sums.n_pairs,
            quadratic=loss.quadratic,
            # a hinge with offsets, which are the margins of comparisons
            compares=loss.quadratic and loss.offset is not None,
            like=sums.features.like,
        )

    def whitened(self, factors: Sequence[Array]) -> PairTerm:
        """Return the term of the features CᵀΦ, for a term in the user's coordinates."""
        return replace(self, sums=self.sums.transformed(factors), given=self.sums)

    def with_loss(self, loss: PairLoss) -> PairTerm:
        """Return the term of the same pairs with another loss."""
        return replace(self, loss=loss, given_loss=None)

    def smoothed(self, smoothing: float) -> PairTerm:
        """Return the term with smoothed losses, for the squared hinge."""
        loss = self.loss
        hinge = loss.sign, loss.weight, loss.gamma, loss.offset
        return self.with_loss(SmoothedHinge(*hinge, smoothing))

    def placed(self, like: Array, blocks: Sequence[Array] | None = None) -> PairTerm:
        """Copy the term to the device of `like`; `blocks` are its features if they are there."""
        sums, given, loss = self.sums, self.given, self.given_loss
        return replace(
            self,
            sums=sums.with_pairs(sums.pairs.placed(like, blocks)),
            loss=self.loss.placed(like),
            given=None if given is None else given.with_pairs(given.pairs.placed(like)),
            given_loss=None if loss is None else loss.placed(like),
        )

    def at(self, L: Sequence[Array], b0: float) -> PairsAtPoint:
        """Return the view from W = L Lᵀ and b0, which computes its members when they are used."""
        return PairsAtPoint(self, tuple(L), b0)

    def take(self, pairs: Array, scale: float) -> PairTerm:
        """Return the term of the pairs with these indices, their losses multiplied by `scale`."""
        return replace(
            self,
            sums=self.sums.take(pairs),
            loss=self.loss.take(pairs, scale),
            given=None if self.given is None else self.given.take(pairs),
            given_loss=None if self.given_loss is None else self.given_loss.take(pairs, scale),
        )

    def sample(self, size: int, rng: Any) -> PairTerm:
        """Draw `size` pairs, with losses scaled to represent all pairs."""
        some = draw_indices(rng, self.n_pairs, size, like=self.loss.gamma)
        return self.take(some, self.n_pairs / size)

    def for_start(self) -> PairTerm:
        """Return the whole term: one more pass over pairs in memory is cheap."""
        return self

    def mean_scatter(self, share: Array | None) -> list[Array]:
        """Compute the mean of ΔΔᵀ in each block, with these weights of the pairs."""
        given, weight = self.sums if self.given is None else self.given, self.loss.weight
        share = weight / total(weight) if share is None else asarray(share, self.like)
        return [to_numpy(given.features.n_blocks * S) for S in given.pairs.scatter(share)]

    def certify(self, L: Sequence[Array], b0: float, s: Array | None = None) -> PairTotals:
        """Compute the sums and their rounding errors in float64, at the user's coordinates."""
        given = self.sums if self.given is None else self.given
        loss = self.loss if self.given_loss is None else self.given_loss
        return totals_at(given, loss.placed(L[0]), L, b0, self.n_pairs, s)


@dataclass(frozen=True)
class PairsAtPoint:
    """The pairs at one point (W, b0): arrays of shape (n_pairs,), each computed once."""

    term: PairTerm
    L: tuple[Array, ...]
    b0: float

    @cached_property
    def sums(self) -> Sums:
        """Sums over the differences LᵀΔ."""
        return self.term.sums.transformed(self.L)

    @cached_property
    def evaluation(self) -> Evaluation:
        """D_k, s_k = φ'_k(ζ_k) and LᵀS(s)L, computed in one pass over the pairs."""
        slope = partial(_slope, self.term.loss, self.b0)
        return self.term.rows.evaluate(self.L, slope) or self.sums.evaluate(slope)

    @cached_property
    def zeta(self) -> Array:
        """ζ_k = D_k − γ_k b0 − o_k."""
        return zeta_at(self.term.loss, self.evaluation.distances, self.b0)

    @cached_property
    def curvature(self) -> Array:
        """h_k = φ''_k(ζ_k)."""
        return self.term.loss.curvature(self.zeta)

    @cached_property
    def active(self) -> Array:
        """Indices of the pairs with positive curvature."""
        return namespace(self.curvature).nonzero(self.curvature > 0)[0]

    @cached_property
    def totals(self) -> Totals:
        """The sums over the pairs."""
        loss, s = self.term.loss, self.evaluation.s
        if type(loss) is SquaredHinge:  # φ(ζ) = φ*(s) = s ζ/2
            value = conjugate = inner(s, self.zeta) / 2
        else:
            value, conjugate = total(loss.value(self.zeta)), total(loss.conjugates(s))
        return Totals(
            loss=value,
            force=inner(loss.gamma, s),
            conjugate=conjugate,
            shift=0.0 if loss.offset is None else total(loss.offset * s),
            n_active=self.active.shape[0],
            scatter=self.evaluation.scatter,
        )

    def conjugate(self, theta: float) -> float:
        """Compute Σ_k φ*_k(θ s_k) + θ oᵀs."""
        shift = theta * self.totals.shift
        if self.term.quadratic:
            return theta**2 * self.totals.conjugate + shift
        return total(self.term.loss.conjugates(theta * self.evaluation.s)) + shift

    def along(self, V: Sequence[Array], change: float) -> Line:
        """Return the losses along the direction V while b0 changes by `change`."""
        loss, zeta, s = self.term.loss, self.zeta, self.evaluation.s
        u = self.sums.quadratic(V) - loss.gamma * change  # the change of each ζ_k
        return Line(  # theory (LS)
            slope=lambda t: total(u * (loss.slope(zeta + t * u) - s)),
            increase=lambda t: total(loss.increase(zeta, t * u)),
        )

    def active_pairs(
        self,
        factors: Sequence[Array] | None,
        c0: float,
        some: Array | None = None,
        scale: float = 1.0,
    ) -> ActivePairs:
        """Return the h_k and z_k of the active pairs, in the coordinates of further factors.

        `some` selects active pairs by their indices among these; `scale` multiplies the h_k.
        """
        take = namespace(self.active).take
        active = self.active if some is None else take(self.active, some, axis=0)
        sums = self.sums.take(active)
        if factors is not None:
            sums = sums.transformed(factors)
        curvature = take(self.curvature, active, axis=0)
        gamma = take(self.term.loss.gamma, active, axis=0)
        return ActivePairs(sums, scale * curvature, gamma, c0)

    def hessian(self, factors: Sequence[Array], c0: float, rng: Any = None) -> Array:
        """Assemble Σ_k h_k z_k z_kᵀ, from a sample of very many active pairs if `rng` is given.

        If there are few pairs, the term keeps their svec(A_k): the Gram matrix of these, with the
        factors on both sides, is cheaper than transformed differences.
        """
        term, n_active = self.term, self.totals.n_active
        enough = term.pairs_per_dimension * dimension(term.sums.features.sizes)
        if rng is not None and 2 * enough < n_active:
            some = draw_indices(rng, n_active, enough, like=self.active)
            return self.active_pairs(factors, c0, some, n_active / enough).gram()
        if term.rows.kept is None:
            return self.active_pairs(factors, c0).gram()
        every = ActivePairs(term.sums, self.curvature, term.loss.gamma, c0)
        G = [L @ right for L, right in zip(self.L, factors, strict=True)]
        return congruent(every.gram(term.rows.kept), G)

    def products(self, factors: Sequence[Array], c0: float) -> ActivePairs | Turned:
        """Return Σ_k h_k z_k z_kᵀ as an operator, in the coordinates of further factors."""
        pairs = self.active_pairs(None, c0)
        if pairs.sums.pairs.form is not None:
            return Turned(pairs, factors)
        return self.active_pairs(factors, c0).held()


def _slope(loss: PairLoss, b0: float, part: slice, distances: Array) -> Array:
    """Compute φ' of a slice of the pairs, given their distances."""
    some = loss[part]
    return some.slope(zeta_at(some, distances, b0))


def totals_at(
    given: Sums,
    loss: PairLoss,
    L: Sequence[Array],
    b0: float,
    n_pairs: int,
    s: Array | None = None,
) -> PairTotals:
    """Compute sums over pairs at (L, b0) with the rounding error of each pair.

    `given` may hold only some of the `n_pairs` pairs of the problem; `s` are multipliers (None: φ'
    at the point).
    """
    exact = given.with_pairs(given.pairs.converted(as_double).over_differences())
    exact = exact.transformed(L)
    s = None if s is None else placed(s, L[0])
    found = exact.evaluate(partial(_slope, loss, b0) if s is None else lambda part, _: s[part])
    return pair_totals(
        loss,
        b0,
        found.distances,
        found.scatter,
        reach=None if found.reach is None else found.reach(),
        moved=row_errors(given, L),
        terms=n_roundings(exact, n_pairs),
        s=s,
    )
