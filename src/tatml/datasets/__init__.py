"""Data to try a metric on: read from a folder of the user's, or made here."""

from .brodatz import load_brodatz
from .eth80 import load_eth80
from .synthetic import make_filter_bank, make_spd_classes
from .textures import load_digits_images, make_textures
from .virus import load_virus

__all__ = [
    "load_eth80",
    "load_virus",
    "load_brodatz",
    "load_digits_images",
    "make_textures",
    "make_spd_classes",
    "make_filter_bank",
]
