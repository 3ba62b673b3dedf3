"""Datasets: loaders for image datasets on disk, and generators of synthetic data."""

from ._loaders import load_brodatz, load_eth80, load_virus
from ._synthetic import load_digits_images, make_filter_bank, make_spd_classes, make_textures
from ._tables import make_customers

__all__ = [
    "load_eth80",
    "load_virus",
    "load_brodatz",
    "load_digits_images",
    "make_textures",
    "make_spd_classes",
    "make_filter_bank",
    "make_customers",
]
