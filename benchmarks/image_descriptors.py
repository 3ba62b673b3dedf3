"""Compare covariance descriptors of whole datasets with a loop over the images in NumPy.

The loop processes one image at a time, vectorised within the image: derivatives by
`numpy.diff`, smaller images by two matrix products, `numpy.cov`. Both sides give the same
matrices; the largest difference is printed. "derivatives alone" is the time to read the images,
halve them and compute the four derivatives at both scales, on one thread. The images are timed in
slices, alternately, and the fastest run of each slice is summed, so that other work on the machine
has little effect.

Reads eth80_close128.npz and virus.npz from the folder in TATML_DATA; without it, random images of
these sizes are used.
"""

from __future__ import annotations

import argparse
import os
import resource
from pathlib import Path
from time import perf_counter

import numpy as np
from common import describe_machine

from tatml import Blocks
from tatml.features import CovarianceDescriptor
from tatml.features._images import LUMA, Resampler, Workspace, _points, make_plan, scaled_size
from tatml.features._inputs import read_images

SCALES = (1.0, 0.5)
DERIVATIVES = ("|Ix|", "|Iy|", "|Ixx|", "|Iyy|")
# name, file, shape, features, images per slice, goal of the ratio on two cores
CASES = [
    ("ETH-80, 7 features", "eth80_close128.npz", (3280, 128, 128, 3), ("color", *DERIVATIVES),
     205, 3),
    ("ETH-80, 9 features", "eth80_close128.npz", (3280, 128, 128, 3),
     ("color", *DERIVATIVES, "x", "y"), 205, 3),
    ("Virus, 5 features", "virus.npz", (1500, 41, 41), ("intensity", *DERIVATIVES), 750, 5),
]  # fmt: skip


def load_images(file: str, shape: tuple[int, ...]) -> tuple[np.ndarray, str]:
    folder = os.environ.get("TATML_DATA")
    if folder:
        with np.load(Path(folder) / file) as arrays:
            return arrays["images"], "images of the data set"
    rng = np.random.default_rng(0)
    return rng.integers(256, size=shape, dtype=np.uint8), "random images: TATML_DATA is not set"


def resampling_matrix(old: int, new: int) -> np.ndarray:
    """Return the matrix that maps old pixels to new pixels."""
    one_row = Resampler.between((old, old), (new, new)).rows
    matrix = np.zeros((new, old))
    for band in one_row:
        matrix[band.start : band.stop, band.low : band.high] = band.weights
    return matrix


def loop_covariance(planes: np.ndarray, with_place: bool) -> np.ndarray:
    """Return the covariance of one image of shape (channels, height, width)."""
    intensity = planes[0] if len(planes) == 1 else np.tensordot(LUMA, planes, 1)
    dx = np.diff(intensity, axis=1, prepend=intensity[:, :1], append=intensity[:, -1:])
    dy = np.diff(intensity, axis=0, prepend=intensity[:1], append=intensity[-1:])
    left, right, above, below = dx[:, :-1], dx[:, 1:], dy[:-1], dy[1:]
    signed = [(left + right) / 2, (above + below) / 2, right - left, below - above]
    features = [*planes, *np.abs(signed)]
    if with_place:
        height, width = intensity.shape
        y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
        features += [x, y]
    covariance = np.cov(np.stack(features).reshape(len(features), -1))
    return covariance + 1e-3 * np.eye(len(covariance))


def loop_over_images(images: np.ndarray, with_place: bool) -> Blocks:
    height, width = images.shape[1:3]
    to_rows = resampling_matrix(height, scaled_size(height, 0.5))
    to_columns = resampling_matrix(width, scaled_size(width, 0.5)).T
    full, half = [], []
    for image in images:
        channels = image[None] if image.ndim == 2 else image.transpose(2, 0, 1)
        planes = np.ascontiguousarray(channels) / 255
        full.append(loop_covariance(planes, with_place))
        half.append(loop_covariance(to_rows @ planes @ to_columns, with_place))
    return Blocks(np.array(full), np.array(half))


def derivatives_alone(images: np.ndarray) -> None:
    """Compute only the derivatives of the intensity at both scales, with the library."""
    recipe = CovarianceDescriptor(DERIVATIVES, scales=SCALES)._recipe()
    (group,) = read_images(images)
    plan, workspace = make_plan(group, recipe), Workspace()
    for _ in _points(plan, range(len(images)), workspace):
        pass


def race(images: np.ndarray, sides: dict, slice_size: int, repeats: int) -> tuple[dict, dict]:
    """Return the seconds of each method, and its result for the last slice."""
    seconds, results = dict.fromkeys(sides, 0.0), {}
    for start in range(0, len(images), slice_size):
        part = images[start : start + slice_size]
        best = dict.fromkeys(sides, float("inf"))
        for _ in range(repeats):
            for name, function in sides.items():
                begin = perf_counter()
                results[name] = function(part)
                best[name] = min(best[name], perf_counter() - begin)
        seconds = {name: seconds[name] + best[name] for name in sides}
    return seconds, results


def measure(case: tuple, repeats: int, quick: bool) -> None:
    name, file, shape, features, slice_size, goal = case
    images, origin = load_images(file, shape)
    images = images[: 2 * slice_size] if quick else images
    sides = {
        "loop": lambda part: loop_over_images(part, "x" in features),
        "one": CovarianceDescriptor(features, scales=SCALES, n_jobs=1).transform,
        "two": CovarianceDescriptor(features, scales=SCALES, n_jobs=2).transform,
        "derivatives": derivatives_alone,
    }
    spent, results = race(images, sides, slice_size, repeats)
    differences = (
        np.max(np.abs(one - other))
        for one, other in zip(results["loop"].arrays, results["two"].arrays, strict=True)
    )
    print(f"{name}: {len(images):,} {origin}, largest difference {max(differences):.0e}")
    print(
        f"  loop {spent['loop']:.2f} s, one thread {spent['one']:.2f} s, "
        f"two threads {spent['two']:.2f} s, derivatives alone {spent['derivatives']:.2f} s"
    )
    print(
        f"  loop / one thread = {spent['loop'] / spent['one']:.1f}, "
        f"loop / two threads = {spent['loop'] / spent['two']:.1f} (expected at least {goal})",
        flush=True,
    )


def measure_large(side: int) -> None:
    """Print the seconds and the additional memory for one large image, processed in strips."""
    image = np.random.default_rng(0).integers(256, size=(1, side, side), dtype=np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = perf_counter()
    CovarianceDescriptor(scales=SCALES).transform(image)
    spent = perf_counter() - begin
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
    print(f"one image of {side:,} × {side:,}: {spent:.1f} s, {grown:.0f} MiB more memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two slices of each dataset")
    parser.add_argument("--large", type=int, metavar="SIDE", help="one large image instead")
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    print(f"{describe_machine()}; load before {os.getloadavg()[0]:.1f}")
    if options.large:
        measure_large(options.large)
        return
    for case in CASES:
        measure(case, options.repeats, options.quick)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of the process: {peak:.2f} GiB")


if __name__ == "__main__":
    main()
