"""The Virus textures."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from ._files import GREY_PNG, DatasetLayout, load_grey_images, make_common_members

DESCR = """Virus textures (Kylberg, Uppström and Sintorn, 2011).

1,500 grey images of 41×41 pixels, cut from electron micrographs: 15 classes of virus particles,
5 sets of 20 images per class. Four pairs of images are exact duplicates, one of them across two
classes. No licence is stated: research data, read from the user's folder and not distributed with
this library.

G. Kylberg, M. Uppström and I.-M. Sintorn. Virus texture analysis using local binary patterns and
radial density profiles. Progress in Pattern Recognition, Image Analysis, Computer Vision, and
Applications (CIARP), 573-580, 2011.
"""


def make_layout(
    n_classes: int = 15, n_sets: int = 5, n_images: int = 20, side: int = 41
) -> DatasetLayout:
    """Return the layout of the dataset; the keys are class, set and image."""
    keys = np.add(list(np.ndindex(n_classes, n_sets, n_images)), (0, 1, 1))
    return DatasetLayout(
        name="virus",
        archive="virus.npz",
        tree=f"<class 1-{n_classes}>/<set 1-{n_sets}>/<image 1-{n_images}>.png",
        class_names=tuple(str(c + 1) for c in range(n_classes)),
        keys=keys,
        files=tuple((f"{c + 1}/{s}/{i}.png",) for c, s, i in keys.tolist()),
        image_shape=(side, side),
        compact_shape=(side, side),
    )


LAYOUT = make_layout()


def load_virus(
    folder: str | PathLike[str] | None = None,
    *,
    allow_incomplete: bool = False,
    return_X_y: bool = False,
) -> Bunch | tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """Load the Virus textures, 15 classes of 100 grey images of 41×41 pixels.

    Parameters
    ----------
    folder : path, default=None
        The folder; None means the environment variable TATML_DATA. The first of these that
        exists is read: `virus.npz`, `virus/virus.npz`, `virus/<class>/<set>/<image>.png`,
        `<class>/<set>/<image>.png` (the png files need Pillow, the extra `images`).
    allow_incomplete : bool, default=False
        Load the images that are there, instead of raising an error if some are missing.
    return_X_y : bool, default=False
        Return `(images, target)` instead of a Bunch.

    Returns
    -------
    data : Bunch
        images : array of uint8 and of shape (n_samples, 41, 41)
            The grey images.
        target : array of int and of shape (n_samples,)
            The class, from 0 to 14.
        target_names : array of str and of shape (15,)
            The names of the folders, "1" to "15".
        groups : array of int and of shape (n_samples,)
            The set, from 1 to 5. Each set has 20 images of every class.
        numbers : array of int and of shape (n_samples,)
            The image within its set, from 1 to 20.
        duplicates : array of int and of shape (n_duplicates, 2)
            Pairs i < j of samples whose images are equal pixel by pixel.
        DESCR, form, source : str
            A description, "compact" or "as distributed", and the file or folder that was read.

    Raises
    ------
    FileNotFoundError
        If the folder or the dataset in it does not exist.
    ValueError
        If the dataset is incomplete, a file is damaged or not as expected, or a link points
        outside the folder.
    ImportError
        If Pillow is needed and missing.

    Examples
    --------
    >>> from sklearn.model_selection import LeaveOneGroupOut
    >>> from tatml.datasets import load_virus
    >>> virus = load_virus("my_data")  # doctest: +SKIP
    >>> virus.images.shape  # doctest: +SKIP
    (1500, 41, 41)
    >>> folds = LeaveOneGroupOut().split(virus.images, groups=virus.groups)  # doctest: +SKIP
    """
    return read_virus(LAYOUT, folder, allow_incomplete, return_X_y)


def read_virus(layout: DatasetLayout, folder: Any, allow_incomplete: bool, return_X_y: bool) -> Any:
    """Return the dataset with this layout; see `load_virus`."""
    found, rows, images = load_grey_images(layout, folder, GREY_PNG, allow_incomplete)
    target, groups, numbers = layout.keys[rows].T.copy()
    if return_X_y:
        return images, target
    return Bunch(
        images=images,
        target=target,
        groups=groups,
        numbers=numbers,
        duplicates=find_duplicates(images),
        **make_common_members(layout, DESCR, found),
    )


def find_duplicates(images: NDArray) -> NDArray[np.intp]:
    """Return all pairs i < j of equal images, in ascending order."""
    seen: dict[bytes, list[int]] = {}
    duplicates: list[tuple[int, int]] = []
    for j, image in enumerate(images):
        earlier = seen.setdefault(image.tobytes(), [])
        duplicates.extend((i, j) for i in earlier)
        earlier.append(j)
    return np.array(sorted(duplicates), dtype=np.intp).reshape(-1, 2)
