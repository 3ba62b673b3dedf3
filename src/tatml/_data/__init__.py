"""Samples and pairs as users give them, converted and checked once."""
