"""Fuzzer of `learn_metric`, of the estimators, and of their methods after fit.

A case is a good call to which one to three labelled mutations were done. It must end in one of two
ways: a ValueError or TypeError that names a parameter of what was called, or a sane result. Either
way nothing else may change: no foreign warning, no global state, no argument, no parameter, and no
fitted attribute where the call was refused.

    python tests/fuzzing.py --cases 20000 --seed 0
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import numpy as np
import oracle
from fuzz_cases import make_case
from fuzz_outcomes import Judge, Outcome, run_case
from good_calls import Case

from tatml import Compute
from tatml._data.blocks import as_blocks, check_prior

PROBLEM = {"pairs", "similar", "weights", "C", "c0", "mu0", "margin", "prior"}
BLOCK = 250  # cases that one process takes at a time


@dataclass
class Summary:
    """Counts of the outcomes of many cases, and the distinct failures."""

    counts: dict[str, Counter] = field(default_factory=dict)
    failures: dict[str, tuple[int, list[int], str]] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: tuple[float, int] = (0.0, -1)

    def add(self, seed: int, case: Case, outcome: Outcome) -> None:
        """Count a case; failures that look the same are one."""
        kind = self.counts.setdefault(case.target, Counter())
        kind[outcome.kind] += 1
        self.slowest = max(self.slowest, (outcome.seconds, seed))
        if outcome.kind != "failed":
            return
        key = f"{case.target.rpartition('.')[2]} | {_signature(outcome)}"
        text = (
            f"seed {seed}: {case.target}\n  mutations: {'; '.join(case.labels)}\n  "
            + "\n  ".join(outcome.complaints)
            + (f"\n{outcome.trace}" if outcome.trace else "")
        )
        n, seeds, first = self.failures.get(key, (0, [], text))
        self.failures[key] = (n + 1, [*seeds, seed][:5], first)

    def join(self, other: Summary) -> None:
        """Add the counts and failures of other cases."""
        for target, count in other.counts.items():
            self.counts.setdefault(target, Counter()).update(count)
        for key, (n, seeds, text) in other.failures.items():
            known, first_seeds, first = self.failures.get(key, (0, [], text))
            self.failures[key] = (known + n, [*first_seeds, *seeds][:5], first)
        self.slowest = max(self.slowest, other.slowest)

    @property
    def n_failed(self) -> int:
        """The number of cases that failed."""
        return sum(count["failed"] for count in self.counts.values())

    def report(self) -> str:
        """Counts of each target, then each distinct failure."""
        lines = [f"{'target':<36}{'cases':>8}{'refused':>9}{'accepted':>10}{'failed':>8}"]
        total = Counter()
        for target in sorted(self.counts):
            lines.append(_row(target, self.counts[target]))
            total += self.counts[target]
        lines.append(_row("all", total))
        rate = sum(total.values()) / max(self.seconds, 1e-9)
        lines.append(
            f"{self.seconds:.0f} s, {rate:.0f} cases/s; the slowest, seed {self.slowest[1]}, took "
            f"{self.slowest[0]:.2f} s"
        )
        for key, (n, seeds, text) in sorted(self.failures.items(), key=lambda item: -item[1][0]):
            lines.append(f"\n== {n} × {key}\n   seeds {seeds}\n{text}")
        lines.append(f"\n{self.n_failed} of {sum(total.values())} cases failed")
        return "\n".join(lines)


def _row(target: str, count: Counter) -> str:
    total = sum(count.values())
    return f"{target:<36}{total:>8}{count['refused']:>9}{count['accepted']:>10}{count['failed']:>8}"


def _signature(outcome: Outcome) -> str:
    """The first complaint without its numbers, and the line of the library that raised."""
    complaint = re.sub(r"[\d.]+(e[+-]?\d+)?|'[^']*'|\"[^\"]*\"", "#", outcome.complaints[0])
    places = re.findall(r"File \".*/(tatml/[\w/]+\.py)\", line (\d+)", outcome.trace)
    return f"{complaint[:90]} | {':'.join(places[-1]) if places else ''}"


def judge_by_oracle(arguments: dict[str, Any], result: Any) -> str | None:
    """The promises that a result breaks, in words; None where it keeps them, or cannot be judged.

    The oracle knows pairs in memory, in double precision.
    """
    given = {name: value for name, value in arguments.items() if name in PROBLEM and name != "X"}
    place = arguments.get("compute") or Compute(dtype=arguments.get("dtype", "float64"))
    if result.active is None or place.dtype != "float64":
        return None
    blocks = as_blocks(arguments["X"])
    given["arrays"] = [np.asarray(array, dtype=float) for array in blocks.arrays]
    if given.get("pairs") is None:  # comparisons alone
        given |= {"pairs": np.zeros((0, 2), int), "similar": np.zeros(0, bool), "weights": None}
    given["pairs"], given["similar"] = np.asarray(given["pairs"]), np.asarray(given["similar"])
    if "margin" in given:
        given["margin"] = tuple(given["margin"])  # which may be a set
    if given.get("weights") is not None:
        given["weights"] = np.asarray(given["weights"], dtype=float)
    if given.get("prior") is not None:
        sizes = [n for n, _ in blocks.block_shapes]
        sizes *= 1 if result.center is None else 2
        priors = check_prior(given["prior"], sizes, blocks.arrays[0])
        given["prior"] = [np.asarray(W0, dtype=float) for W0 in priors]
    given["loss"] = arguments.get("loss", "squared_hinge")
    if result.center is not None:
        given["center"] = [np.asarray(mean, dtype=float) for mean in result.center]
    for name in ("C", "c0", "mu0"):
        given[name] = float(given.get(name, 1.0))
    if len(given["pairs"]) == 0:
        given |= {"c0": np.inf, "mu0": 0.0}
    if arguments.get("comparisons") is not None:
        return None
    given |= _compared(arguments)
    problem = oracle.Problem(**given | {"tol": result.tol})
    try:
        return "; ".join(oracle.judge(problem, result)) or None
    except ArithmeticError:  # sizes beyond its digits
        return None


def _compared(arguments: dict[str, Any]) -> dict[str, Any]:
    """The comparisons of a call, as the oracle takes them."""
    weights = arguments.get("compared_weights")
    if arguments.get("index") is None:
        return {}
    rows = np.asarray(arguments["index"])
    rows = rows[:, [0, 1, 0, 2]] if rows.shape[1] == 3 else rows
    weights = None if weights is None else np.asarray(weights, dtype=float)
    return {"compared": rows.astype(int), "compared_weights": weights}


def run(seeds: Iterable[int], judge: Judge | None = judge_by_oracle) -> Summary:
    """Run the cases of these seeds."""
    summary, start = Summary(), time.perf_counter()
    for seed in seeds:
        case = make_case(seed)
        summary.add(seed, case, run_case(case, judge))
    summary.seconds = time.perf_counter() - start
    return summary


def run_in_processes(seeds: range, n_processes: int) -> Summary:
    """Run the cases of these seeds, in blocks that the processes share."""
    summary, start = Summary(), time.perf_counter()
    blocks = [seeds[first : first + BLOCK] for first in range(0, len(seeds), BLOCK)]
    with get_context("spawn").Pool(n_processes) as pool:
        for part in pool.imap(run, blocks):
            summary.join(part)
    summary.seconds = time.perf_counter() - start
    return summary


def main(arguments: list[str] | None = None) -> int:
    """Run many cases; 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000, help="how many (default: 20000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first (default: 0)")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args(arguments)
    seeds = range(given.seed, given.seed + given.cases)
    summary = run(seeds) if given.processes == 1 else run_in_processes(seeds, given.processes)
    print(summary.report())
    return 1 if summary.n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
