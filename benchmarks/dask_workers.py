"""A fit on dask: two worker processes against one, and bytes per round as a function of K.

n = 9, M = 2 (9×9 matrices), pairs as a dask array. Every fit ends at a relative gap of 1e-6. The
workers have one thread each, as has the client. Bytes are those of the
pickled messages: what a round sends (W, b0, the direction of a product) and what it returns. In
addition, dask's scheduler sends a task of a few hundred bytes per chunk.
"""

from __future__ import annotations

import argparse
import logging
import pickle
import warnings

import dask
import dask.array as da
import numpy as np
from common import describe_machine, draw_pairs, make_classes, timed
from distributed import Client, LocalCluster, wait

import tatml._sharding.dask
from tatml import Newton, learn_metric

# By default, dask's workers return memory to the system at once, and every temporary array costs
# page faults. With these settings the allocator keeps the memory.
ALLOCATOR = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
}


class Wire:
    """Measures the bytes that each round of a fit sends and receives."""

    def __init__(self):
        self.sent, self.received = [], []
        self._total = tatml._sharding.dask.DaskExecutor.total

    def __enter__(self):
        wire = self

        def total(executor, function, setting, *args):
            result = wire._total(executor, function, setting, *args)
            wire.sent.append(len(pickle.dumps((function, setting, args))))
            wire.received.append(len(pickle.dumps(result)))
            return result

        tatml._sharding.dask.DaskExecutor.total = total
        return self

    def __exit__(self, *error):
        tatml._sharding.dask.DaskExecutor.total = self._total


def on_workers(pairs, similar, n_chunks: int):
    """Return the pairs as dask arrays whose chunks are in the memory of the workers."""
    size = -(-len(pairs) // n_chunks)
    arrays = da.from_array(pairs, chunks=(size, 2)), da.from_array(similar, chunks=size)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        arrays = dask.persist(*arrays)
        wait(arrays)
    return arrays


def fit(X, pairs, similar):
    return learn_metric(
        X, pairs, similar, C=1e4 / len(pairs), c0=1e3, solver=Newton(random_state=0)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--default-allocator", action="store_true")
    options = parser.parse_args()
    print(describe_machine())
    if not options.default_allocator:
        dask.config.set(ALLOCATOR)
    X, y = make_classes(options.samples, (9, 9), 2, spread=1.0)
    pairs, similar = draw_pairs(y, options.pairs)
    order = np.random.default_rng(2).permutation(len(pairs))
    pairs, similar, seconds = pairs[order], similar[order], {}
    for n_workers in (1, 2):
        settings = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
        with (
            LocalCluster(n_workers=n_workers, silence_logs=logging.ERROR, **settings) as cluster,
            Client(cluster),
        ):
            fit(X, *on_workers(pairs[:20_000], similar[:20_000], options.chunks))  # imports
            arrays = on_workers(pairs, similar, options.chunks)
            spent, result = timed(fit, X, *arrays, repeats=options.repeats)
            seconds[n_workers] = spent
            print(
                f"{n_workers} workers, {len(pairs):,} pairs: {spent:.2f} s, {result.n_iter} steps, "
                f"b0 = {result.b0:.12f}",
                flush=True,
            )
            if n_workers == 2:
                print(f"{'pairs':>12}{'rounds':>8}{'bytes out':>12}{'bytes back':>12}  (per round)")
                for K in (len(pairs) // 100, len(pairs) // 10, len(pairs)):
                    with Wire() as wire:
                        fit(X, *on_workers(pairs[:K], similar[:K], options.chunks))
                    print(
                        f"{K:12,}{len(wire.sent):8d}{max(wire.sent):12,}{max(wire.received):12,}",
                        flush=True,
                    )
    print(f"two workers against one: {seconds[1] / seconds[2]:.2f} times as fast")


if __name__ == "__main__":
    main()
