"""The sums over pairs where the pairs are not all in memory."""
