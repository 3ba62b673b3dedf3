"""The convex problem, its certificate and its solvers."""
