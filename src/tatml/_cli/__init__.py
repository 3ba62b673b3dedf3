"""The command `tatml`."""
