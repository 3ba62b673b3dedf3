"""One product with the Hessian: sums over pairs compared with products over samples.

Prints, for each size, the seconds of a product in both forms, in float64 and float32, as ratios to
the pair form in float64, and which form is chosen. `OVERHEAD` in `_optim/sums.py` is from here.

    python benchmarks/pair_forms.py --device cuda
"""

from __future__ import annotations

import argparse
from time import perf_counter, process_time

import numpy as np
from common import describe_machine
from threadpoolctl import threadpool_limits

from tatml._array import asarray, namespace, on_gpu
from tatml._optim.layout import Limits
from tatml._optim.sums import PairSums

SIZES = [
    (n, 1, n_samples, n_pairs)
    for n in (8, 16, 32, 64, 128, 256, 512)
    for n_samples, n_pairs in ((20_000, 20_000), (20_000, 100_000), (5_000, 100_000))
]
LARGE = [
    (512, 1, 20_000, 1_000_000),
    (9, 9, 20_000, 100_000),
    (9, 9, 20_000, 1_000_000),
    (32, 32, 2_000, 40_000),
]
GPU = [
    (n, 1, n_samples, n_pairs)
    for n in (16, 64, 256, 768)
    for n_samples, n_pairs in ((50_000, 100_000), (50_000, 1_000_000), (200_000, 1_000_000))
] + [(768, 1, 200_000, 10_000_000), (32, 32, 20_000, 400_000)]


def synchronise(array) -> None:
    if getattr(getattr(array, "device", None), "type", "cpu") == "cuda":
        import torch

        torch.cuda.synchronize()


def seconds(function, array, repeats: int) -> float:
    """Return the smallest time of a call after one that warms up; processor time on a CPU."""
    times, clock = [], perf_counter if on_gpu(array) else process_time
    for _ in range(repeats + 1):
        synchronise(array)
        start = clock()
        function()
        synchronise(array)
        times.append(clock() - start)
    return min(times[1:])


def measure(size: tuple[int, int, int, int], like, repeats: int) -> None:
    n, width, n_samples, n_pairs = size
    rng = np.random.default_rng(0)
    Z, V = rng.standard_normal((n_samples, width, n)), rng.standard_normal((n, n))
    index, h = rng.integers(n_samples, size=(2, n_pairs)), rng.random(n_pairs)
    times, found = {}, {}
    for dtype in ("float64", "float32"):
        kind = getattr(namespace(like), dtype)
        features, image, weights = (asarray(a, like, kind) for a in (Z, V + V.T, h))
        first, second = (asarray(rows, like) for rows in index)
        for by_samples in (False, True):
            sums = PairSums.of(
                [features], first, second, limits=Limits(by_samples=by_samples)
            ).held()
            call = lambda s=sums, V=image, w=weights: s.product([V], w, 0 * w)[1][0]  # noqa: E731
            times[dtype, by_samples] = seconds(call, like, repeats)
            found[dtype, by_samples] = np.asarray(asarray(call(), np.zeros(1), float))
            del sums
    chosen = "pairs" if PairSums.of([features], first, second).form is None else "samples"
    best = times["float64", False]
    exact = found["float64", False]
    errors = [np.abs(S - exact).max() / np.abs(exact).max() for S in found.values()]
    print(
        f"{n:5d}{width:4d}{n_samples:9,}{n_pairs:11,}{1e3 * best:10.1f} ms"
        + "".join(f"{best / times[key]:9.2f}" for key in list(times)[1:])
        + f"  {chosen:8s}"
        + "".join(f"{error:9.0e}" for error in errors[1:]),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="a device of PyTorch; by default NumPy is used")
    parser.add_argument("--quick", action="store_true", help="the small sizes only")
    options = parser.parse_args()
    print(describe_machine())
    like = np.zeros(1)
    if options.device:
        import torch

        like = torch.zeros(1, dtype=torch.float64, device=options.device)
    columns = ("pairs f64", "samples f64", "pairs f32", "samples f32", "chosen", "errors")
    print("    n  n'  samples      pairs", *columns)
    sizes = GPU if on_gpu(like) else SIZES + ([] if options.quick else LARGE)
    with threadpool_limits(1):
        for size in sizes:
            measure(size, like, repeats=3 if on_gpu(like) or size[3] <= 100_000 else 1)


if __name__ == "__main__":
    main()
