"""Compare Newton to a relative gap of 1e-8 with the best Dykstra to 1e-4, in one run.

    python benchmarks/newton_vs_dykstra.py [--quick] [--seconds 60] [--plot FILE]

Samples are pairs of 9 × 9 matrices. Both solvers use one BLAS thread and the same problem. Dykstra
uses the order and the projection that are fastest in `dykstra_order.py` and
`dykstra_projection.py`, and the time of its certificates is subtracted. If a run reaches its limit
of seconds, the limit is used, so that its ratio is a lower bound.
"""

import argparse
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from tatml import Dykstra, Newton
from tatml._data.blocks import Blocks
from tatml._data.pairs import as_pairs
from tatml._optim.problem import LogDetProblem, squared_hinge

NEWTON_TOL, DYKSTRA_TOL = 1e-8, 1e-4
WEIGHTS = (0.1, 1.0, 10.0)
FLOOR = 1e-10  # smallest gap in the picture
LONG = 10.0  # seconds of a run beyond which it is not repeated


def make_problem(n_pairs, *, shapes=((9, 9), (9, 9)), C=1.0, c0=1.0, n_samples=300, seed=0):
    """Return a problem with random pairs of five noisy classes; distances are about 1."""
    rng = np.random.default_rng(seed)
    label = rng.integers(5, size=n_samples)
    arrays = []
    for n, width in shapes:
        centre = rng.normal(size=(5, n, width))
        noise = rng.normal(size=(n_samples, n, width))
        arrays.append((centre[label] + noise) / np.sqrt(2 * n * width))
    first = rng.integers(n_samples, size=n_pairs)
    second = (first + rng.integers(1, n_samples, size=n_pairs)) % n_samples
    chosen = as_pairs(np.stack([first, second], 1), label[first] == label[second], n_samples, None)
    loss = squared_hinge(chosen, C, (0.5, 2.0))
    return LogDetProblem.build(Blocks(*arrays), chosen, loss, c0=c0, mu0=1.0)


def run(problem, kind, *, seconds, tol, seed=None):
    """Solve the problem, and stop after some seconds."""
    solver = kind(max_iter=10**6, random_state=seed)
    return solver.solve(problem, tol=tol, callback=lambda it: it.seconds > seconds)


def certificate_seconds(problem, result):
    """Return the seconds of one certificate at the solution."""
    sample = [
        Dykstra().solve(problem, init=result, tol=1.0).history["seconds"][0] for _ in range(5)
    ]
    return median(sample)


def compare(n_pairs, C, repeats, seconds):
    """Return the median seconds of both solvers, and Dykstra's last run."""
    newton, dykstra = [], []
    run(make_problem(n_pairs, C=C), Newton, seconds=0.0, tol=NEWTON_TOL)  # load the libraries
    for seed in range(repeats):
        problem = make_problem(n_pairs, C=C)  # a new problem: Newton caches in it
        exact = run(problem, Newton, seconds=seconds, tol=NEWTON_TOL, seed=seed)
        newton.append(exact.history["seconds"][-1])
        rough = run(problem, Dykstra, seconds=seconds, tol=DYKSTRA_TOL, seed=seed)
        total = rough.history["seconds"][-1]
        certificates = len(rough.history["gap"]) * certificate_seconds(problem, rough)
        dykstra.append(total - certificates)
        if total > LONG:
            break  # long runs need no repetition
    return median(newton), median(dykstra), exact, rough


def table(sizes, repeats, seconds):
    """Print the seconds and their ratios."""
    print(f"n = 9, M = 2; Newton to {NEWTON_TOL:g}, Dykstra to {DYKSTRA_TOL:g} (relative gap)")
    print("| K | c | Newton | steps | Dykstra | epochs | reached | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for n_pairs in sizes:
        for C in WEIGHTS:
            fast, slow, exact, rough = compare(n_pairs, C, repeats, seconds)
            gap = rough.gap / max(1.0, abs(rough.primal))
            bound = "" if rough.converged else "≥ "
            print(
                f"| {n_pairs:,} | {C:g} | {fast * 1e3:.1f} ms | {exact.n_iter} | {slow:.2f} s "
                f"| {rough.n_iter} | {gap:.0e} | {bound}{slow / fast:.0f} |",
                flush=True,
            )


def curves(n_pairs, seconds):
    """Return the seconds and gaps of the fastest of five runs, per solver and weight."""
    found = {}
    for C in WEIGHTS:
        for solver, kind in (("newton", Newton), ("dykstra", Dykstra)):
            runs = []
            while len(runs) < 5 and not (runs and runs[-1][0][-1] > LONG):
                problem = make_problem(n_pairs, C=C)
                result = run(problem, kind, seconds=seconds, tol=FLOOR, seed=0)
                gap = result.history["gap"] / np.maximum(1, np.abs(result.history["primal"]))
                runs.append((result.history["seconds"], gap))
            found[solver, C] = min(runs, key=lambda curve: curve[0][-1])
    return found


def cut(seconds, gap):
    """Return the curve down to the smallest gap in the picture."""
    below = np.nonzero(gap < FLOOR)[0]
    if not below.size:
        return seconds, gap
    end = below[0]
    share = np.log(gap[end - 1] / FLOOR) / np.log(gap[end - 1] / gap[end])
    last = seconds[end - 1] * (seconds[end] / seconds[end - 1]) ** share
    return np.append(seconds[:end], last), np.append(gap[:end], FLOOR)


def plot(found, n_pairs, path):
    """Plot gap against seconds on logarithmic axes, with labels at the ends of the lines."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {"newton": "#1b6ca8", "dykstra": "#c8553d"}
    figure, axes = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
    for (solver, C), curve in found.items():
        seconds, gap = cut(*curve)
        axes.loglog(seconds, gap, color=colours[solver], linewidth=1.8, solid_capstyle="round")
        first, last = min(WEIGHTS) == C, max(WEIGHTS) == C
        text, side = f"c = {C:g}" if first else f"{C:g}", "right" if first else "left"
        if solver == "newton":  # its curves end close together and share a label
            text, side = f"c = {min(WEIGHTS):g} to {C:g}" if last else "", "center"
        place = {"xytext": (0, -6), "va": "top", "ha": side}
        if gap[-1] > FLOOR:
            place = {"xytext": (5, 0), "va": "center", "ha": "left"}
        axes.annotate(
            text,
            (seconds[-1], gap[-1]),
            textcoords="offset points",
            color=colours[solver],
            fontsize=9,
            **place,
        )
    for solver in colours:
        seconds, gap = cut(*found[solver, min(WEIGHTS)])
        at = np.exp(np.interp(np.log(1e-6), np.log(gap[::-1]), np.log(seconds[::-1])))
        axes.annotate(
            solver.capitalize(),
            (at, 1e-6),
            xytext=(-8, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            color=colours[solver],
            fontsize=13,
            fontweight="bold",
        )
    axes.set(xlabel="seconds", ylabel="relative duality gap")
    axes.set_ylim(FLOOR / 8, 3)
    axes.set_title(f"{n_pairs:,} pairs, two 9 × 9 blocks, one core", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.93", linewidth=0.8)
    axes.minorticks_off()
    figure.savefig(path, dpi=160)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, small sizes")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of one Dykstra run")
    parser.add_argument("--plot", metavar="FILE", help="plot gap against seconds instead")
    given = parser.parse_args()
    n_pairs, seconds = (200, 1.0) if given.quick else (2_000, given.seconds)
    with threadpool_limits(1):
        if given.plot:
            plot(curves(n_pairs, seconds), n_pairs, given.plot)
        elif given.quick:
            table([n_pairs], 1, seconds)
        else:
            table([2_000, 20_000], 3, seconds)


if __name__ == "__main__":
    main()
