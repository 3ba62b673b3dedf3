"""Sums over pairs that are not all in memory: on disk, on a GPU, on a cluster, or all pairs."""
