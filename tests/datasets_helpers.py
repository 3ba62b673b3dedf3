"""Miniature datasets with known pixels, written compact or as distributed."""

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tatml.datasets import _loaders

ADVICE = "Put the data into <folder>/"


@dataclass
class Mini:
    """The function that reads a dataset with a given layout, and a small layout."""

    read: Any
    layout: Any
    options: dict

    @property
    def archive(self):
        return self.layout.archive

    @property
    def n_samples(self):
        return len(self.layout.keys)

    def pixels(self, seed=0):
        """Return the images as distributed, each with its map if there are maps."""
        rng = np.random.default_rng(seed)
        shape = (self.n_samples, *self.layout.image_shape)
        if self.layout.name != "eth80":
            return [(image,) for image in rng.integers(256, size=shape, dtype=np.uint8)]
        images = rng.integers(256, size=(*shape, 3), dtype=np.uint8)
        maps = np.zeros(shape, dtype=np.uint8)
        for i, one in enumerate(maps):
            one[4 + i % 3 : 15, 3 : 17 + i % 2] = 255
            one[7:13, 4:16] = rng.integers(256, size=(6, 12))  # averages above and below 127
            one[3, 3:10] = 100  # not part of the object, but of an average
        return list(zip(images, maps, strict=True))

    def write_tree(self, folder, seed=0, rows=None):
        """Write the files of some samples below the folder; return their paths."""
        written = []
        for row, arrays in enumerate(self.pixels(seed)):
            for name, array in zip(self.layout.files[row], arrays, strict=True):
                if rows is None or row in rows:
                    written.append(folder / name)
                    write_image(folder / name, array)
        return written

    def arrays(self, seed=0, rows=None):
        """Return the arrays of the compact file."""
        rows = np.arange(self.n_samples) if rows is None else np.asarray(rows)
        keys, pixels = self.layout.keys[rows], self.pixels(seed)
        arrays = {"labels": keys[:, 0].astype(np.uint8)}
        if keys.shape[1] > 1:
            arrays["groups"] = keys[:, 1:].astype(np.int16)
        if self.layout.name != "eth80":
            return arrays | {"images": np.array([pixels[row][0] for row in rows])}
        cut = [crop_with_pillow(*pixels[row], self.layout.compact_shape[0]) for row in rows]
        images, masks, boxes = (np.array(column) for column in zip(*cut, strict=True))
        return arrays | {
            "images": images,
            "masks_packed": np.packbits(masks, axis=-1),
            "crop_box": boxes.astype(np.int16),
            "class_names": np.array(self.layout.class_names),
        }

    def write_archive(self, folder, seed=0, rows=None, **changes):
        """Write the compact file, with some arrays changed, or left out if None."""
        arrays = self.arrays(seed, rows) | changes
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.archive
        np.savez_compressed(path, **{k: v for k, v in arrays.items() if v is not None})
        return path


def crop_with_pillow(image, grey, size):
    """Return the content of the compact file, computed with Pillow and numpy.pad."""
    from PIL import Image

    left, top, right, bottom = Image.fromarray(np.uint8(255) * (grey > 127)).getbbox()
    side = round(1.2 * max(right - left, bottom - top))
    x, y = round((left + right) / 2 - side / 2), round((top + bottom) / 2 - side / 2)
    pad = max(image.shape)
    box = (x + pad, y + pad, x + side + pad, y + side + pad)
    wide = Image.fromarray(np.pad(image, ((pad, pad), (pad, pad), (0, 0)), mode="edge"))
    wide_grey = Image.fromarray(np.pad(grey, pad, mode="edge"))
    small = wide.crop(box).resize((size, size), Image.Resampling.LANCZOS)
    small_grey = wide_grey.crop(box).resize((size, size), Image.Resampling.BOX)
    return np.asarray(small), np.asarray(small_grey) > 127, (x, y, x + side, y + side)


def write_image(path, array, **options):
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **options)


def png_header(width, height):
    """Return a png file whose header states a size, without pixels."""

    def chunk(kind, data):
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(b"\0"))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


MINIS = {
    "virus": Mini(_loaders.read_virus, _loaders.make_virus_layout(2, 2, 3, side=6), {}),
    "brodatz": Mini(_loaders.read_brodatz, _loaders.make_brodatz_layout(3, side=12), {"tile": 4}),
    "eth80": Mini(
        _loaders.read_eth80,
        _loaders.make_eth80_layout(
            ("apple", "car"), 4, ((0, 0), (22, 90)), side=20, compact_side=10
        ),
        {"size": 10, "masks": True},
    ),
}
each_dataset = pytest.mark.parametrize("mini", MINIS.values(), ids=MINIS)


def read(mini, folder, **options):
    """Read the miniature as its public loader would read the dataset."""
    defaults = {"allow_incomplete": False, "return_X_y": False}
    return mini.read(mini.layout, folder, **(defaults | mini.options | options))
