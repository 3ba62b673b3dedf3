"""Images, and their covariance descriptors by loops over the pixels.

The loops follow the formulas of the documentation pixel by pixel and share no code with tatml.
"""

from functools import cache

import numpy as np
import scipy.ndimage
from numpy.testing import assert_allclose
from sklearn.covariance import ledoit_wolf, oas, shrunk_covariance

from tatml import Blocks
from tatml.features._images import MemoryLimits, compute_descriptors, make_plan
from tatml.features._inputs import read_images

GREY = ("intensity", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|", "magnitude", "orientation", "x", "y")
GABOR = ("gabor:0.25:0°", "gabor:0.25:45°", "gabor:0.25:90°", "gabor:0.25:135°")
COLOUR = ("intensity", "red", "green", "blue", *GREY[1:])
SHRINKAGES = (None, 0.2, "ledoit_wolf", "oas")
SMALL_STRIPS = MemoryLimits(100, fewest_rows=3)  # several strips even in a small image


def keys(t):
    t = abs(t)
    if t <= 1:
        return 1.5 * t**3 - 2.5 * t**2 + 1
    return -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2 if t <= 2 else 0.0


def shrink_line(line, n_new):
    """Return one row or column of pixels on a coarser grid."""
    stretch = len(line) / n_new
    values = []
    for i in range(n_new):
        centre = (i + 0.5) * stretch - 0.5
        weights = [keys((j - centre) / stretch) for j in range(len(line))]
        values.append(np.dot(weights, line) / sum(weights))
    return values


def shrink_plane(plane, scale):
    n_rows, n_columns = (int(np.floor(size * scale + 0.5)) for size in plane.shape)
    rows = np.array([shrink_line(column, n_rows) for column in plane.T]).T
    return np.array([shrink_line(row, n_columns) for row in rows])


def gabor_plane(plane, frequency, degrees):
    sigma = 0.56 / frequency
    radius = int(np.ceil(3 * sigma))
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    envelope = np.exp(-(x**2 + y**2) / (2 * sigma**2))
    envelope /= envelope.sum()
    angle = np.deg2rad(degrees)
    wave = np.exp(2j * np.pi * frequency * (x * np.cos(angle) + y * np.sin(angle)))
    kernel = envelope * (wave - np.sum(envelope * wave))
    padded = np.pad(plane, radius, mode="edge")
    size = 2 * radius + 1
    return np.array(
        [
            [abs(np.sum(kernel * padded[i : i + size, j : j + size])) for j in range(n_columns)]
            for i, n_columns in enumerate([plane.shape[1]] * plane.shape[0])
        ]
    )


def pixel_features(planes, i, j):
    """Return {name: value} of pixel (i, j) of one image (channels, height, width)."""
    height, width = planes.shape[1:]

    def intensity(row, column):
        row, column = min(max(row, 0), height - 1), min(max(column, 0), width - 1)
        pixel = planes[:, row, column]
        return pixel[0] if len(pixel) == 1 else np.dot([0.299, 0.587, 0.114], pixel)

    here = intensity(i, j)
    ix = (intensity(i, j + 1) - intensity(i, j - 1)) / 2
    iy = (intensity(i + 1, j) - intensity(i - 1, j)) / 2
    known = {
        "intensity": here,
        "|Ix|": abs(ix),
        "|Iy|": abs(iy),
        "|Ixx|": abs(intensity(i, j + 1) - 2 * here + intensity(i, j - 1)),
        "|Iyy|": abs(intensity(i + 1, j) - 2 * here + intensity(i - 1, j)),
        "magnitude": np.hypot(ix, iy),
        "orientation": np.arctan2(abs(iy), abs(ix)),
        "x": j / (width - 1),
        "y": i / (height - 1),
    }
    if len(planes) == 3:
        known |= dict(zip(("red", "green", "blue"), planes[:, i, j], strict=True))
    return known


@cache
def scaled_features(pixels, shape, scale):
    """Return {name: plane} of all features of an image at a scale."""
    planes = np.atleast_3d(np.frombuffer(pixels).reshape(shape)).transpose(2, 0, 1)
    if scale != 1:
        planes = np.array([shrink_plane(plane, scale) for plane in planes])
    _, height, width = planes.shape
    features = [[pixel_features(planes, i, j) for j in range(width)] for i in range(height)]
    return {
        name: np.array([[pixel[name] for pixel in row] for row in features])
        for name in features[0][0]
    }


def covariance_of(points, shrinkage):
    """Return the covariance of points in rows."""
    mean = sum(points) / len(points)
    scatter = sum(np.outer(point - mean, point - mean) for point in points)
    if shrinkage is None:
        return scatter / (len(points) - 1)
    if shrinkage == "ledoit_wolf":
        return ledoit_wolf(points)[0]
    if shrinkage == "oas":
        return oas(points)[0]
    return shrunk_covariance(scatter / len(points), shrinkage)


def direct(image, names, scales=(1.0,), regions=(1, 1), shrinkage=None, diagonal=1e-3, mask=None):
    """Return the matrices of one image (height, width[, channels]) in the order of the blocks."""
    matrices = []
    for scale in scales:
        features = scaled_features(image.tobytes(), image.shape, scale)
        kept = scaled_mask(mask, image.shape[:2], scale)
        height, width = kept.shape
        for row in range(regions[0]):
            for column in range(regions[1]):
                points = [
                    [features[name][i, j] for name in names]
                    for i in range(row * height // regions[0], (row + 1) * height // regions[0])
                    for j in range(column * width // regions[1], (column + 1) * width // regions[1])
                    if kept[i, j]
                ]
                matrix = covariance_of(np.array(points), shrinkage)
                matrices.append(matrix + diagonal * np.eye(len(matrix)))
    return matrices


def scaled_mask(mask, shape, scale):
    mask = np.ones(shape, dtype=bool) if mask is None else mask
    return mask if scale == 1 else shrink_plane(mask.astype(float), scale) > 0.5


@cache
def draw_images(n_images=3, height=17, width=22, channels=None, seed=0):
    """Return smooth images with some noise, about in [0, 1]."""
    rng = np.random.default_rng([seed, n_images, height, width])
    noise = rng.random(
        (n_images, height, width) if channels is None else (n_images, height, width, channels)
    )
    smooth = scipy.ndimage.gaussian_filter(noise, (0, 2, 2, 0)[: noise.ndim])
    images = 0.2 * noise + 4 * (smooth - 0.5) + 0.4
    images.setflags(write=False)
    return images


def draw_masks(n_images=3, height=17, width=22, seed=0):
    rng = np.random.default_rng([1, seed, n_images, height, width])
    return scipy.ndimage.gaussian_filter(rng.random((n_images, height, width)), (0, 2, 2)) > 0.47


def transform_in_strips(descriptor, X, masks=None, n_threads=1, limits=SMALL_STRIPS):
    """Return the arrays of `descriptor.transform(X, masks)`, with other limits of memory."""
    recipe = descriptor._recipe()
    plans = [make_plan(group, recipe, n_threads, limits) for group in read_images(X, masks)]
    return compute_descriptors(plans, n_threads)


def as_arrays(result):
    if isinstance(result, list):
        return result
    return result.arrays if isinstance(result, Blocks) else (result,)


def assert_same_result(actual, expected, atol=1e-12):
    for one, other in zip(as_arrays(actual), as_arrays(expected), strict=True):
        assert_allclose(one, other, rtol=1e-11, atol=atol)


def assert_is_direct(result, images, masks=None, **options):
    masks = [None] * len(images) if masks is None else masks
    for sample, (image, mask) in enumerate(zip(images, masks, strict=True)):
        expected = direct(image, mask=mask, **options)
        for block, matrix in zip(as_arrays(result), expected, strict=True):
            assert_allclose(block[sample], matrix, rtol=1e-10, atol=1e-12)
