"""Fits on a GPU: seconds, share of the peak rate, memory, growth with K, n and M.

Embeddings are synthetic but of a realistic shape: means of identities and noise, both with a
decaying spectrum in directions of their own, scaled to length 1. Floating-point operations are
those of the matrix products that PyTorch executed, counted in a separate run. Parts are selected by
name, by default all; --quick is a small version for a CPU.

    python benchmarks/gpu.py --parts rate large --json gpu.json
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from time import perf_counter

import numpy as np
import torch
from common import describe_machine, draw_pairs, make_classes
from torch.utils.flop_counter import FlopCounterMode

from tatml import Blocks, Compute, Newton, learn_metric

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SETTINGS = {"solver": Newton(random_state=0), "tol": 1e-6}
LONGEST_GROWTH = 12.0  # seconds of a fit after which no larger one is tried


def embeddings(n_samples: int, n_identities: int, n: int, seed: int = 0):
    """Return unit vectors (a tensor on the device) and their identities."""
    random = torch.Generator(DEVICE).manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=random, device=DEVICE, dtype=torch.float64)

    place = torch.arange(1, n + 1, device=DEVICE, dtype=torch.float64)
    between, within = place**-0.7, place**-0.4
    within = within * 0.8 * between.norm() / within.norm()
    turn_means, turn_noise = (torch.linalg.qr(normal(n, n))[0] for _ in range(2))
    y = np.random.default_rng(seed).integers(n_identities, size=n_samples)
    means = (normal(n_identities, n) * between) @ turn_means
    X = means[torch.asarray(y, device=DEVICE)] + (normal(n_samples, n) * within) @ turn_noise
    return X / X.norm(dim=1, keepdim=True), y


def wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed(function, repeats: int) -> tuple[float, object]:
    """Return the seconds of the fastest run after a warm-up, and the result of the last run."""
    function()
    best = float("inf")
    for _ in range(repeats):
        wait()
        start = perf_counter()
        result = function()
        wait()
        best = min(best, perf_counter() - start)
    return best, result


def peak_memory(function) -> float:
    """Return the peak GiB of a call, samples included; NaN on a CPU."""
    if DEVICE == "cpu":
        function()
        return float("nan")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    function()
    return torch.cuda.max_memory_allocated() / 2**30


def flops_of(function) -> float:
    counter = FlopCounterMode(display=False)
    with counter:
        function()
    return float(counter.get_total_flops())


def describe_fit(result) -> str:
    history = result.history
    return (
        f"{result.n_iter} steps, {int(np.sum(history['products']))} products, "
        f"{history['n_active'][-1]:,} active, relative gap {result.gap / max(1, result.primal):.1e}"
    )


def measure_rate(quick: bool, found: dict) -> None:
    size = 1_024 if quick else 8_192
    A = torch.randn(size, size, device=DEVICE, dtype=torch.float64)
    spent, _ = timed(lambda: A @ A, repeats=5)
    found["matmul_flops"] = 2 * size**3 / spent
    print(f"float64 matrix product of {size:,} rows: {found['matmul_flops'] / 1e12:.2f} TFLOP/s")


def fitted(n: int, K: int, n_samples: int, cK: float, repeats: int) -> tuple[float, object, object]:
    X, y = embeddings(n_samples, max(n_samples // 20, 2), n)
    pairs, similar = draw_pairs(y, K)

    def fit():
        return learn_metric(X, pairs, similar, C=cK / K, c0=0.1 * cK, **SETTINGS)

    spent, result = timed(fit, repeats)
    return spent, result, fit


def measure_large(quick: bool, found: dict) -> None:
    n, K, n_samples = (64, 100_000, 5_000) if quick else (768, 1_000_000, 100_000)
    found["large"] = []
    for cK in (1e3, 1e4):
        spent, result, fit = fitted(n, K, n_samples, cK, repeats=1 if quick else 3)
        done = flops_of(fit)
        share = done / spent / found["matmul_flops"]
        found["large"].append({"n": n, "K": K, "cK": cK, "seconds": spent, "flops": done})
        print(f"n = {n}, K = {K:,}, cK = {cK:g}: {spent:.3f} s, {describe_fit(result)}")
        print(f"  {done:.2e} operations: {share:.0%} of the rate of a matrix product")
        print(f"  peak memory {peak_memory(fit):.2f} GiB", flush=True)


def measure_against_cpu(quick: bool, found: dict) -> None:
    n, K, n_samples = (64, 20_000, 4_000) if quick else (768, 100_000, 20_000)
    spent, result, _ = fitted(n, K, n_samples, 1e3, repeats=1 if quick else 3)
    X, y = embeddings(n_samples, n_samples // 20, n)
    pairs, similar = draw_pairs(y, K)
    host = X.cpu().numpy()
    start = perf_counter()
    plain = learn_metric(host, pairs, similar, C=1e3 / K, c0=100.0, **SETTINGS)
    on_cpu = perf_counter() - start
    found["against_cpu"] = {"n": n, "K": K, "seconds": spent, "cpu_seconds": on_cpu}
    print(f"n = {n}, K = {K:,}: {spent:.3f} s on {DEVICE}, {describe_fit(result)}")
    print(f"  NumPy {on_cpu:.2f} s, {on_cpu / spent:.0f} times as long")
    print(f"  b0 of the two: ratio {plain.b0 / result.b0:.8f}")


def measure_huge(quick: bool, found: dict) -> None:
    n, K, n_samples = (32, 200_000, 5_000) if quick else (768, 10_000_000, 200_000)
    X, y = embeddings(n_samples, n_samples // 20, n)
    pairs, similar = draw_pairs(y, K)

    def fit():
        return learn_metric(X, pairs, similar, C=1e3 / K, c0=100.0, **SETTINGS)

    spent, result = timed(fit, repeats=1)
    memory, done = peak_memory(fit), flops_of(fit)
    share = done / spent / found["matmul_flops"]
    found["huge"] = {"n": n, "K": K, "seconds": spent, "gibibytes": memory, "flops": done}
    print(f"n = {n}, K = {K:,}: {spent:.2f} s, {describe_fit(result)}, {memory:.1f} GiB")
    print(f"  {done:.2e} operations: {share:.0%} of the rate of a matrix product", flush=True)


def measure_streamed(quick: bool, found: dict) -> None:
    """Measure a fit whose pairs stay on the host and pass through the device in parts."""
    n, K, n_samples = (32, 200_000, 5_000) if quick else (768, 10_000_000, 200_000)
    X, y = embeddings(n_samples, n_samples // 20, n)
    pairs, similar = draw_pairs(y, K)
    host = X.cpu().numpy()
    del X

    def fit():
        place = Compute(device=DEVICE, max_memory="8GB")
        options = {"C": 1e3 / K, "c0": 100.0, "compute": place}
        return learn_metric(host, pairs, similar, **options, **SETTINGS)

    start = perf_counter()
    memory = peak_memory(fit)
    spent = perf_counter() - start
    found["streamed"] = {"n": n, "K": K, "seconds": spent, "gibibytes": memory}
    print(
        f"n = {n}, K = {K:,}, streamed from the host: {spent:.1f} s, {memory:.1f} GiB", flush=True
    )


def measure_small_matrices(quick: bool, found: dict) -> None:
    K = 200_000 if quick else 10_000_000
    X, y = make_classes(4_000, (9, 9), 2, spread=1.0)
    pairs, similar = draw_pairs(y, K)
    placed = Blocks(*(torch.asarray(array, device=DEVICE) for array in X.arrays))

    def fit():
        return learn_metric(placed, pairs, similar, C=1e3 / K, c0=100.0, **SETTINGS)

    spent, result = timed(fit, repeats=1)
    memory = peak_memory(fit)
    passes = len(result.history["iteration"]) + int(np.sum(result.history["products"]))
    found["small"] = {"K": K, "seconds": spent, "gibibytes": memory, "passes": passes}
    print(f"n = 9, M = 2, K = {K:,}: {spent:.2f} s, {describe_fit(result)}")
    print(f"  {passes} passes over all pairs, peak memory {memory:.2f} GiB", flush=True)


GROWTH = {
    "K": [(64, 1, K) for K in (10_000, 100_000, 1_000_000, 10_000_000)],
    "n": [(n, 1, 200_000) for n in (8, 32, 128, 512, 1_024)],
    "M": [(16, M, 100_000) for M in (1, 4, 16, 64, 256)],
}


def measure_growth(quick: bool, found: dict) -> None:
    """Measure growth on the device and with NumPy, whose row ends before fits take too long."""
    found["growth"] = {}
    for place, (name, shapes) in product((DEVICE, "NumPy"), GROWTH.items()):
        if quick:
            shapes = [(min(n, 32), min(M, 8), min(K, 50_000)) for n, M, K in shapes[:3]]
        values, times = [], []
        for shape in shapes:
            if times and times[-1] > LONGEST_GROWTH:
                break
            values.append(shape["nMK".index(name)])
            times.append(growth_seconds(*shape, place))
        # Overhead dominates the first values, so the slope is that of the last three.
        slope = np.polyfit(np.log(values[-3:]), np.log(times[-3:]), 1)[0]
        row = {"values": values, "seconds": times, "exponent": float(slope)}
        found["growth"][f"{place} {name}"] = row
        shown = ", ".join(f"{v:,}: {t:.3f} s" for v, t in zip(values, times, strict=True))
        print(f"{place}, {name}: {shown}; exponent {slope:.2f}", flush=True)


def growth_seconds(n: int, M: int, K: int, place: str) -> float:
    X, y = make_classes(4_000, (n, 1), M, spread=1.0)
    pairs, similar = draw_pairs(y, K)
    if place != "NumPy":
        X = Blocks(*(torch.asarray(array, device=DEVICE) for array in X.arrays))
    settings = SETTINGS | {"C": 1e3 / K, "c0": 100.0}
    start = perf_counter()
    learn_metric(X, pairs, similar, **settings)
    first = perf_counter() - start
    if first > 1:  # long enough to need no warm-up
        return first
    return timed(lambda: learn_metric(X, pairs, similar, **settings), repeats=1)[0]


def plot_growth(found: dict, path: str) -> None:
    """Plot seconds against K, n and M for the device and NumPy."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
    titles = {
        "K": "pairs K (n = 64)",
        "n": "dimension n (K = 200,000)",
        "M": "blocks M (n = 16, K = 100,000)",
    }
    for name, row in found["growth"].items():
        place, letter = name.rsplit(" ", 1)
        axis = axes["KnM".index(letter)]
        label = f"{found['device'] if place == 'cuda' else place}: {letter}^{row['exponent']:.2f}"
        axis.loglog(row["values"], row["seconds"], marker="o", label=label)
        axis.set(xlabel=titles[letter])
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    axes[0].set(ylabel="seconds of a fit")
    figure.savefig(path, dpi=110)


PARTS = {
    "rate": measure_rate,
    "large": measure_large,
    "cpu": measure_against_cpu,
    "huge": measure_huge,
    "streamed": measure_streamed,
    "small": measure_small_matrices,
    "growth": measure_growth,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small version for a CPU")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--json", help="file for the measured numbers")
    parser.add_argument("--plot", help="plot the growth in the file --json, without measuring")
    options = parser.parse_args()
    if options.plot:
        with open(options.json, encoding="utf-8") as file:
            return plot_growth(json.load(file), options.plot)
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    print(f"{describe_machine()}, PyTorch {torch.__version__}, {name}")
    if DEVICE == "cpu" and not options.quick:
        parser.error("no GPU was found: only --quick makes sense")
    found = {"device": name, "torch": torch.__version__}
    for part in dict.fromkeys(["rate", *options.parts]):
        start = perf_counter()
        PARTS[part](options.quick, found)
        print(f"  [{part}: {perf_counter() - start:.1f} s]", flush=True)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
