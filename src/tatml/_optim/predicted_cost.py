"""`predict_cost`: the seconds and the memory of a fit, before it is run.

A fit takes some steps, each with one pass over the pairs for distances and gradient, and one linear
system. `evaluation_work` and `system_work` count the operations and the bytes of both; the rates of
`machine.py` turn them into seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .._messages import shown
from .._svec import svec_size
from .._validation import check_choice, check_count
from .hessian import PAIRS_PER_DIMENSION, WORTH_SINGLE, dimension, system_costs
from .linear_systems import FIRST_PRODUCTS
from .machine import Rates, measure_rates
from .newton import GPU_SAMPLE, REHEARSAL_GAIN, SAMPLE
from .sample_form import pair_form_cost, sample_form_cost
from .sums import DEFAULT_LIMITS

LONG = 60.0  # seconds from which a fit says how long it will take
LARGE_WORK = 2e10  # operations of a fit that is predicted though it is not verbose
WIDE_BLOCK = 32  # rows from which a message proposes smaller blocks
ACTIVE_SHARE = 0.8  # of the pairs, typical of a step
STEPS = 4.0  # of a fit from the prior to a gap of 1e-6
STEPS_AFTER = 2.0  # of a fit that starts from the solution of a sample of the pairs
PRODUCTS = 7.0  # of conjugate gradients per step
CALLS = 2000  # operations on small arrays per step
FIXED_CALLS = 1500  # operations on small arrays per fit: checks and certificate
DECOMPOSITIONS = 5.0  # time of the n × n factorisations of a step, in singular value decompositions
LOSS_BYTES = 2400  # bytes per pair that the losses, their slopes and their sums read and write
VECTORS = 24  # arrays of one number per pair that are held at a time
WIDE = 128  # rows of a matrix whose products run at about the rate of larger ones
SVEC_BYTES = 190  # time to form one entry of svec(A_k), in bytes of an operation on vectors
# Rows per pair that a product over samples reads, on a CPU (False) and on a GPU (True).
PRODUCT_READS = {False: 2.0, True: 3.0}
GATHERED_ROW = 0.65  # share of the time of a difference that a CPU takes to read such a row
SINGLE = 0.7  # time of products in float32, checks in float64 included, in those of float64
OUTER = 3.5  # time of the operations in products of single samples, in those of whole chunks


class Work(NamedTuple):
    """What a part of a fit has to do."""

    flops: float
    """Floating-point operations of matrix products."""
    gathered: float
    """Bytes of differences that are formed from samples."""
    streamed: float
    """Bytes of arrays with one number per pair."""

    def seconds(self, rates: Rates) -> float:
        """Return how long it takes at the rates of a machine."""
        return (
            self.flops / rates.flops
            + self.gathered / rates.gathered
            + self.streamed / rates.streamed
        )


class Fit(NamedTuple):
    """The sizes of a problem that determine the time of a fit."""

    block_shapes: tuple[tuple[int, int], ...]
    n_samples: int
    n_pairs: int
    device: str | None = None
    dtype: str = "float64"
    rehearses: bool = True

    @property
    def itemsize(self) -> int:
        """The bytes of a number."""
        return 8 if self.dtype == "float64" else 4

    @property
    def numbers(self) -> int:
        """Σ n_m n'_m, the numbers of a sample."""
        return sum(n * width for n, width in self.block_shapes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""
        return tuple(n for n, _ in self.block_shapes)

    @property
    def widths(self) -> tuple[int, ...]:
        """n'_m of each block."""
        return tuple(width for _, width in self.block_shapes)


@dataclass(frozen=True)
class PredictedCost:
    """The expected time and memory of a fit.

    Examples
    --------
    >>> from tatml.solvers import PredictedCost
    >>> print(PredictedCost(seconds=75.0, memory=3 * 2**30))
    about 75 s and 3.0 GiB
    """

    seconds: float
    memory: int
    """Bytes, beside the samples and pairs that were given."""

    def __str__(self) -> str:
        return f"about {shown_seconds(self.seconds)} and {shown_bytes(self.memory)}"


def predict_cost(
    block_shapes: Sequence[tuple[int, int]] | int,
    n_samples: int,
    n_pairs: int,
    *,
    device: str | None = None,
    dtype: Literal["float64", "float32"] = "float64",
) -> PredictedCost:
    """Predict the seconds and the memory of a fit by `Newton`, with its default settings.

    The first call for a shape of blocks measures for some milliseconds how fast the machine is.
    The prediction is for data in memory, or on a GPU, with weights C of usual size: it was right
    within a factor of 2 on the grid of ``benchmarks/predicted_cost.py``. Stiff problems take more
    steps.

    Parameters
    ----------
    block_shapes : list of (int, int), or int
        The shape (n, n') of each block, as in ``Blocks.block_shapes``; n for vectors.
    n_samples, n_pairs : int
        The numbers of samples and of pairs.
    device : str or None, default=None
        A device of PyTorch, such as "cuda". Default: NumPy.
    dtype : {"float64", "float32"}, default="float64"
        The precision.

    Returns
    -------
    PredictedCost
        ``seconds``, and ``memory`` in bytes.

    Examples
    --------
    >>> from tatml.solvers import predict_cost
    >>> small, large = (predict_cost(64, 10_000, n_pairs) for n_pairs in (10_000, 1_000_000))
    >>> small.seconds < large.seconds, small.memory < large.memory
    (True, True)
    """
    shapes = [(block_shapes, 1)] if isinstance(block_shapes, int) else block_shapes
    checked = tuple(
        (check_count("block_shapes", n), check_count("block_shapes", w)) for n, w in shapes
    )
    if device is not None and not isinstance(device, str):
        raise TypeError(f"device: expected a str or None, got {shown(device)}")
    check_choice("dtype", dtype, ("float64", "float32"))
    samples, pairs = check_count("n_samples", n_samples), check_count("n_pairs", n_pairs)
    return predict_fit(Fit(checked, samples, pairs, device, dtype))


def predict_fit(fit: Fit) -> PredictedCost:
    """Predict the cost of a fit whose sizes have been checked."""
    least = GPU_SAMPLE if fit.device is not None else SAMPLE
    rates = [measure_rates(n, width, fit.dtype, fit.device) for n, width in fit.block_shapes]
    seconds, steps = FIXED_CALLS * rates[0].call, STEPS
    size = max(least, fit.n_pairs // 8)
    saves_time = REHEARSAL_GAIN * min(form_costs(fit, size)) <= min(form_costs(fit, fit.n_pairs))
    if fit.rehearses and fit.n_pairs > 4 * least and saves_time:
        rehearsal = fit._replace(n_pairs=size)
        seconds += (STEPS + 1) * step_seconds(rehearsal, rates)
        steps = STEPS_AFTER
    certificate = evaluation_seconds(fit, rates)
    return PredictedCost(seconds + steps * step_seconds(fit, rates) + certificate, memory_of(fit))


def is_worth_predicting(fit: Fit) -> bool:
    """Return whether a fit may be so long that a measurement of the machine does not matter."""
    k = int(ACTIVE_SHARE * fit.n_pairs) + 1
    costs = system_costs(
        fit.sizes, fit.widths, k, fit.rehearses, FIRST_PRODUCTS, n_samples=fit.n_samples
    )
    passes = 2 * min(form_costs(fit, fit.n_pairs))
    return STEPS * (passes + min(costs.values())) > LARGE_WORK


def describe_long_fit(fit: Fit, cost: PredictedCost) -> str:
    """Return one line about a long fit: how long it will take, and what would shorten it."""
    largest = max(fit.sizes)
    smaller = tuple((min(n, max(1, largest // 2)), width) for n, width in fit.block_shapes)
    ways = {f"{fit.n_pairs // 4:,} pairs": fit._replace(n_pairs=fit.n_pairs // 4)}
    if largest >= WIDE_BLOCK:
        ways[f"blocks of at most {largest // 2} rows (PCA)"] = fit._replace(block_shapes=smaller)
    if fit.dtype == "float64":
        ways["dtype='float32'"] = fit._replace(dtype="float32")
    faster = [
        f"{name} (about {shown_seconds(seconds)})"
        for name, way in ways.items()
        if (seconds := predict_fit(way).seconds) < 0.8 * cost.seconds
    ]
    faster += [] if fit.device is not None else ["a GPU"]
    return (
        f"This fit of {fit.n_pairs:,} pairs with blocks of up to {largest} rows will take {cost}. "
        f"Faster: {', '.join(faster)}, a larger tol."
    )


def step_seconds(fit: Fit, rates: Sequence[Rates]) -> float:
    """Predict the time of one step: a pass over the pairs, a linear system, small matrices."""
    small = CALLS * rates[0].call + DECOMPOSITIONS * sum(rate.decomposition for rate in rates)
    return evaluation_seconds(fit, rates) + system_seconds(fit, rates) + small


def evaluation_seconds(fit: Fit, rates: Sequence[Rates]) -> float:
    """Predict the time of distances, losses and gradient at one point."""
    shapes = zip(fit.block_shapes, rates, strict=True)
    seconds = sum(evaluation_work(fit, n, width).seconds(rate) for (n, width), rate in shapes)
    return seconds + LOSS_BYTES * fit.n_pairs / rates[0].streamed


def evaluation_work(fit: Fit, n: int, width: int) -> Work:
    """Count what one pass over the pairs does for one block: transform, subtract, D, scatter."""
    active, rows = ACTIVE_SHARE * fit.n_pairs, min(fit.n_samples, fit.n_pairs)
    size, over_samples = fit.itemsize * n * width, 2 * rows * n * n * width
    if by_samples(fit, fit.n_pairs):
        reads = (fit.n_pairs + active) * size
        return _reading(fit, 2 * over_samples, reads)
    flops = over_samples + 2 * active * n * n * width
    return Work(flops, fit.n_pairs * size, (2 * fit.n_pairs + 3 * active) * size)


def form_costs(fit: Fit, k: int) -> tuple[float, float]:
    """Estimate the cost of a product of k pairs as a sum over pairs, and as one over samples."""
    gpu = fit.device is not None
    by_pairs = pair_form_cost(fit.block_shapes, k, gpu)
    return by_pairs, sample_form_cost(fit.block_shapes, k, fit.n_samples, gpu)


def by_samples(fit: Fit, k: int) -> bool:
    """Return whether sums over k pairs are likely to be products over samples."""
    by_pairs, over_samples = form_costs(fit, k)
    return over_samples < by_pairs


def _reading(fit: Fit, flops: float, size: float) -> Work:
    """Return the work of products over samples; a GPU reads rows without copies."""
    if fit.device is not None:
        return Work(flops, 0.0, size)
    return Work(flops, GATHERED_ROW * size, 0.0)


def system_seconds(fit: Fit, rates: Sequence[Rates]) -> float:
    """Predict the time to assemble and to solve the linear system of one step."""
    k, d = int(ACTIVE_SHARE * fit.n_pairs) + 1, dimension(fit.sizes)
    way = _system(fit, k)
    # Matrices of d or k rows multiply as fast as blocks of a moderate size.
    wide = measure_rates(min(d if way == "dense" else k, WIDE), 1, fit.dtype, fit.device)
    if way == "woodbury":
        return 2 * system_costs(fit.sizes, fit.widths, k, True, 0)["woodbury"] / wide.flops
    if way == "cg":
        blocks = zip(fit.block_shapes, rates, strict=True)
        product = sum(product_work(fit, k, *shape).seconds(rate) for shape, rate in blocks)
        in_single = fit.dtype == "float64" and min(form_costs(fit, k)) >= WORTH_SINGLE
        return PRODUCTS * product * (SINGLE if in_single else 1.0)
    enough = PAIRS_PER_DIMENSION * d
    assembled = enough if fit.rehearses and k > 2 * enough else k
    blocks = zip(fit.block_shapes, rates, strict=True)
    formed = sum(svec_work(fit, assembled, *shape).seconds(rate) for shape, rate in blocks)
    if kept_bytes(fit) > 0:  # formed once per fit
        assembled, formed = fit.n_pairs, formed / STEPS
    gram = Work(assembled * d**2 + 5 * d**3, 0.0, 4 * assembled * d * fit.itemsize)
    return formed + gram.seconds(wide)


def product_work(fit: Fit, k: int, n: int, width: int) -> Work:
    """Count what one product with the Hessian does for one block of k active pairs."""
    size = fit.itemsize * n * width
    if by_samples(fit, k):
        reads = PRODUCT_READS[fit.device is not None] * k * size
        return _reading(fit, 4 * fit.n_samples * n * n * width, reads)
    return Work(4 * k * n * n * width, k * size, 5 * k * size)


def svec_work(fit: Fit, k: int, n: int, width: int) -> Work:
    """Count what it takes to form svec(A_k) of one block of k pairs."""
    outer = 0.0 if width == 1 else OUTER * 2 * k * n * n * width
    return Work(outer, k * fit.itemsize * n * width, SVEC_BYTES * k * svec_size(n))


def kept_bytes(fit: Fit) -> int:
    """Return the bytes of the svec(A_k) that are kept for the whole fit."""
    width = sum(map(svec_size, fit.sizes))
    size = 8 * width * fit.n_pairs
    small = width <= DEFAULT_LIMITS.svec_width and size <= DEFAULT_LIMITS.svec_bytes
    return size if small else 0


def _system(fit: Fit, k: int) -> str:
    """Return the way in which the linear systems of a fit are likely to be solved."""
    costs = system_costs(
        fit.sizes, fit.widths, k, fit.rehearses, FIRST_PRODUCTS, n_samples=fit.n_samples
    )
    return min(costs, key=lambda way: costs[way])


def memory_of(fit: Fit) -> int:
    """Predict the largest memory of a fit, beside its arguments."""
    k, d = int(ACTIVE_SHARE * fit.n_pairs) + 1, dimension(fit.sizes)
    way, size = _system(fit, k), fit.itemsize * fit.numbers
    rows = min(fit.n_samples, fit.n_pairs)
    eager = 8 * rows * fit.numbers <= DEFAULT_LIMITS.eager_bytes
    samples = (4 if eager else 1) * rows * size
    matrix = {"dense": 4 * d**2, "woodbury": 3 * k**2 + 2 * k * fit.numbers, "cg": 0}[way]
    chunk = DEFAULT_LIMITS.gpu_chunk_bytes if fit.device else DEFAULT_LIMITS.chunk_bytes
    chunks = 6 * min(chunk, fit.n_pairs * size)
    vectors = VECTORS * fit.itemsize * fit.n_pairs
    return samples + vectors + kept_bytes(fit) + matrix * fit.itemsize + chunks


def shown_seconds(seconds: float) -> str:
    """Return a time for people.

    >>> shown_seconds(0.042), shown_seconds(75), shown_seconds(720)
    ('0.04 s', '75 s', '12 min')
    """
    if seconds < 100:
        return f"{seconds:.1g} s" if seconds < 9.5 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def shown_bytes(size: float) -> str:
    """Return a number of bytes for people.

    >>> shown_bytes(2_000_000), shown_bytes(3 * 2**30)
    ('2 MiB', '3.0 GiB')
    """
    return f"{size / 2**20:.0f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"
