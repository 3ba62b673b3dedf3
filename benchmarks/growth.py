"""Growth of the time of a fit with K, n and M, compared with the number of operations.

Prints seconds and fitted exponents, and plots them to docs/images/growth.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

from tatml import Newton

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from common import describe_machine, draw_pairs, make_classes, timed
from matplotlib.ticker import LogLocator

from tatml import learn_metric

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "growth.png"
# name: (label, values, (n, n', M, K) at a value, expected exponent, reason for it)
SERIES = {
    "K": ("pairs K (n = 9, n' = 9, M = 2)", [10_000, 30_000, 100_000, 300_000, 1_000_000],
          lambda v: (9, 9, 2, v), 1.0, "each step passes over the pairs once"),
    "n": ("size n (vectors, M = 1, K = 20,000)", [32, 64, 128, 256],
          lambda v: (v, 1, 1, 20_000), 2.0, "conjugate gradients: K n² a product"),
    "M": ("blocks M (n = 9, n' = 9, K = 20,000)", [1, 2, 4, 8],
          lambda v: (9, 9, v, 20_000), 1.0, "pairs are read block by block; the Hessian adds M²"),
}  # fmt: skip


def fit_seconds(n: int, width: int, M: int, K: int, repeats: int) -> tuple[float, int]:
    X, y = make_classes(4_000, (n, width), M, spread=1.0)
    pairs, similar = draw_pairs(y, K)
    settings = {"C": 1e3 / K, "c0": 100.0, "solver": Newton(random_state=0)}
    spent, result = timed(learn_metric, X, pairs, similar, repeats=repeats, **settings)
    return spent, result.n_iter


def plot_growth(measured: dict) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for axis, (name, (values, times, slope)) in zip(axes, measured.items(), strict=True):
        label, _, _, expected, _ = SERIES[name]
        grid, times = np.asarray(values, float), np.asarray(times)
        guide = times[-1] * (grid / grid[-1]) ** expected
        axis.loglog(grid, guide, "--", color="#999999", label=f"expected exponent {expected:g}")
        axis.loglog(grid, times, "o-", color="#1f5fa8", lw=2, label=f"measured {slope:.2f}")
        axis.set_xticks(grid, [f"{value:,}" for value in values])
        axis.minorticks_off()
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_xlabel(label)
        axis.grid(True, color="#e8e8e8")
        axis.legend(frameon=False, loc="upper left")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("seconds of a fit (relative gap 1e-6)")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three values per series, no picture")
    options = parser.parse_args()
    print(describe_machine())
    measured = {}
    for name, (label, values, shape, expected, reason) in SERIES.items():
        values = values[:3] if options.quick else values
        runs = [fit_seconds(*shape(v), repeats=1 if options.quick else 3) for v in values]
        times = [spent for spent, _ in runs]
        slope = np.polyfit(np.log(values), np.log(times), 1)[0]
        measured[name] = (values, times, slope)
        shown = ", ".join(
            f"{v:,}: {t:.3f} s ({s} steps)" for v, (t, s) in zip(values, runs, strict=True)
        )
        print(f"{label}: {shown}")
        print(f"  exponent {slope:.2f}, expected {expected:g} ({reason})", flush=True)
    if not options.quick:
        plot_growth(measured)
        print(f"written: {PICTURE}")


if __name__ == "__main__":
    main()
