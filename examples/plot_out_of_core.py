"""
Pairs that do not fit into memory
=================================

The objective is a sum over pairs, so pairs can stay on disk: each Newton step reads them once, in
chunks, and keeps only sums whose size does not depend on the number of pairs. This example limits
the memory of a fit more and more and shows that the result stays the same.
"""

# %%
# Samples and pairs in files, as NumPy's memory maps. With zarr or HDF5 it works in the same way.
# The example is small, so that it runs in seconds; the same lines learn from 100 million pairs.

import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from tatml import Compute, learn_metric

rng = np.random.default_rng(0)
digits, label = load_digits(return_X_y=True)
projection = rng.normal(size=(64, 12)) / 64  # random combinations of the pixels
index = rng.integers(len(digits), size=(400_000, 2))
index = index[index[:, 0] != index[:, 1]]

folder = tempfile.TemporaryDirectory()
for name, values in (
    ("samples", digits @ projection),
    ("pairs", index),
    ("similar", label[index[:, 0]] == label[index[:, 1]]),
):
    np.save(Path(folder.name, f"{name}.npy"), values)
X, pairs, similar = (
    np.load(Path(folder.name, f"{name}.npy"), mmap_mode="r")
    for name in ("samples", "pairs", "similar")
)
megabytes = (pairs.nbytes + similar.nbytes) / 1e6
print(f"{len(pairs)} pairs, {megabytes:.1f} MB on disk")

# %%
# ``Compute(max_memory=…)`` says how much may be allocated. The least that is needed is for one
# chunk and a workspace of 16 MiB; less is refused, with the number of bytes.

results, peaks = {}, {}
for limit in ("24MB", "32MB", "64MB", "128MB", None):
    compute = None if limit is None else Compute(max_memory=limit)
    tracemalloc.start()
    results[limit] = learn_metric(X, pairs, similar, C=100 / len(pairs), compute=compute)
    peaks[limit] = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
W = results[None].W[0]
differences = {
    limit: np.abs(result.W[0] - W).max() / np.abs(W).max() for limit, result in results.items()
}
for limit, result in results.items():
    print(
        f"{limit or 'no limit':>8}: peak {peaks[limit]:5.1f} MB, relative gap "
        f"{result.gap / result.primal:.0e}, difference of W {differences[limit]:.0e}"
    )

# %%
# The solutions agree as far as their certificates promise: each objective is within a millionth
# of the best one.

figure, ax = plt.subplots(figsize=(6.6, 4.2), layout="constrained")
names = [limit or "none" for limit in results]
ax.bar(names, list(peaks.values()), color="#0072b2", label="peak of the fit")
for place, limit in enumerate(results):
    if limit is not None:
        ax.plot([place - 0.45, place + 0.45], [int(limit[:-2])] * 2, color="#d55e00", lw=2)
ax.plot([], [], color="#d55e00", lw=2, label="limit")
ax.set(xlabel="max_memory", ylabel="allocated memory, MB", title="Memory of a fit by its limit")
ax.legend(loc="upper left")
folder.cleanup()
