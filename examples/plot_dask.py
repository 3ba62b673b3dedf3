"""
Learning on a cluster with dask
===============================

Pairs may be spread over the machines of a cluster. In each step the metric goes to the workers,
and sums come back; no pair moves. Any ``distributed.Client`` will do. Here it is a cluster inside
this process, so that the example runs everywhere. It needs the extra ``dask``.
"""

# %%
# A small cluster: two workers with one thread each.

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from tatml import Compute, learn_metric

client = Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")

X, digit = load_digits(return_X_y=True)
X = PCA(12, whiten=True, random_state=0).fit_transform(X)
pairs = np.random.default_rng(0).integers(len(X), size=(60_000, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]
similar = digit[pairs[:, 0]] == digit[pairs[:, 1]]

# %%
# The same call with and without the cluster, and the same certificate. On one machine a cluster
# has no advantage; it pays when the pairs are where the workers are.

problem = {"X": X, "pairs": pairs, "similar": similar, "C": 100 / len(pairs)}
here = learn_metric(**problem)
there = learn_metric(**problem, compute=Compute(client=client))
client.close()
difference = np.abs(there.W[0] - here.W[0]).max() / np.abs(here.W[0]).max()
print(f"largest difference of W, relative: {difference:.0e}")
print(f"thresholds b0: {here.b0:.8f} here, {there.b0:.8f} on the cluster")

# %%
# Both fits take the same steps to the same optimum; only the place of the sums differs.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for result, name, colour in ((here, "in this process", "#0072b2"), (there, "dask", "#d55e00")):
    history, style = result.history, "o-" if result is here else "x--"
    axes[0].semilogy(history["iteration"], history["gap"], style, color=colour, label=name)
axes[0].set(xlabel="iteration", ylabel="duality gap", title="The certificate")
axes[0].legend()
axes[1].plot(here.W[0].ravel(), there.W[0].ravel(), ".", color="#222222")
axes[1].axline((0, 0), slope=1, color="#999999", lw=0.8)
axes[1].set(xlabel="entries of W, in this process", ylabel="entries of W, dask", aspect="equal")
axes[1].set_title("The same metric")
axes[1].locator_params(nbins=5)
