"""Samples and pairs: what a user gives, checked once."""
