"""Pictures of one fit per data set: distances, convergence, matrices, neighbours.

The fixed configuration is fitted again to the first training half. The pictures are written to the
folder of the results only, because images of the real data sets may not be redistributed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from tatml.plotting import ConvergenceDisplay, MetricDisplay

from ..cells import BASELINE, FIXED
from ..extras import pyplot
from ..files import write_text
from ..fitting import embed_samples, learner_of
from ..methods import METHODS
from ..pairs import row_distances
from ..protocol import choose_and_fit, held_out_pairs, split_in_halves
from ..samples import (
    DatasetSamples,
    Folder,
    digest_of,
    extract_features,
    has_folder,
    load_images,
    read_features,
)
from ..settings import FEATURE_TITLES, PROTOCOL, Dataset, features_of
from ..tasks import Task
from .figures import Picture, draw_histograms, drawing_style, drawn_png, save_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANIFEST = Path("pictures") / "pictures.json"
RIGHT, WRONG = "#00734d", "#b3340a"
NEIGHBOURS = PROTOCOL.neighbours
DRAWN_AS = 4  # version of the drawings: raise it when they change, so that they are drawn again


@dataclass(frozen=True)
class FittedMethod:
    """A method fitted to the first training half of a data set, with both halves."""

    dataset: Dataset
    features: str
    fitted: Any
    training: DatasetSamples
    test: DatasetSamples
    rows: tuple[NDArray[np.intp], NDArray[np.intp]]

    @property
    def title(self) -> str:
        """The data set and its features."""
        return f"{self.dataset.title}, {FEATURE_TITLES.get(self.features, self.features)}"

    def embeddings(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return training and test samples as vectors whose distances are the learnt ones."""
        return embed_samples(self.fitted, self.training.X), embed_samples(self.fitted, self.test.X)


def draw_pictures(
    out: str | os.PathLike[str],
    datasets: Iterable[Dataset],
    *,
    data: Folder = None,
) -> list[Picture]:
    """Draw the pictures of each data set that do not exist yet, and list them for the page.

    Parameters
    ----------
    out : path
        The folder of the results; the pictures are written to `pictures` in it.
    datasets : iterable of Dataset
        Declared data sets. Without a folder of data, only the embedded ones are drawn.
    data : path or None
        The folder with the data that are not embedded; None: that of TATML_DATA.

    Returns
    -------
    list of Picture
        The pictures of these data sets, drawn now or before.
    """
    folder = (Path(out) / MANIFEST).parent
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    for dataset in datasets:
        if dataset.embedded or has_folder(data):
            with threadpool_limits(1):  # small matrices are slower on several threads
                pictures += _pictures_of(dataset, folder, data, Path(out) / "features")
            # The list is written after each data set, so that a later failure does not lose it.
            drawn = {picture.dataset for picture in pictures}
            kept = [picture for picture in read_pictures(out) if picture.dataset not in drawn]
            _write_list(Path(out) / MANIFEST, pictures + kept)
    return pictures


def read_pictures(out: str | os.PathLike[str]) -> list[Picture]:
    """Return the pictures that exist; none if none were drawn."""
    return _read_list(Path(out) / MANIFEST)


def _read_list(path: Path) -> list[Picture]:
    if not path.exists():
        return []
    found = [Picture(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    return [picture for picture in found if (path.parent / picture.file).exists()]


def _write_list(path: Path, pictures: Sequence[Picture]) -> None:
    entries = [asdict(picture) for picture in pictures]
    write_text(path, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")


def _pictures_of(dataset: Dataset, folder: Path, data: Folder, cache: Path) -> list[Picture]:
    task = Task("table1", dataset, main_features(dataset), FIXED, repeat=0)
    stem = f"{dataset.name}-{digest_of([task.identity()['key'], DRAWN_AS])}"
    listed = folder / f"{stem}.json"
    found = _read_list(listed)
    if found:
        return found
    samples = read_features(dataset, task.features, extract_features(dataset, data, cache))
    learnt, plain, paper = (fit_method(task, name, samples) for name in (FIXED, BASELINE, "tatml"))
    images = load_images(dataset, data).images
    pictures = [
        draw_distances(folder, stem, learnt),
        draw_convergence(folder, stem, learnt),
        *draw_matrices(folder, stem, paper, "tatml"),
        *draw_matrices(folder, stem, learnt, FIXED),
        draw_contact_sheet(folder, stem, plain, learnt, images),
    ]
    _write_list(listed, pictures)
    return pictures


def main_features(dataset: Dataset) -> str:
    """Return the feature type that is drawn: all scales, or the vectors of tensors."""
    return features_of(dataset)[-1 if dataset.pixel_features is None else 0]


def fit_method(task: Task, method: str, samples: DatasetSamples) -> FittedMethod:
    """Fit a method to the training half of the task."""
    seeds = task.seeds()
    rows = split_in_halves(samples.y, samples.groups, seeds["split"])
    training, test = (samples.take(half) for half in rows)
    fitted = choose_and_fit(METHODS[method], training, seeds["fit"])
    return FittedMethod(task.dataset, task.features, fitted, training, test, rows)


def draw_distances(folder: Path, stem: str, fit: FittedMethod) -> Picture:
    """Draw histograms of the distances of test pairs, with threshold and margins."""
    learner, file = learner_of(fit.fitted), f"{stem}-distances.png"
    pairs = held_out_pairs(fit.test.y, fit.test.groups, seed=0)
    with drawn_png(folder / file, 3.8) as axes:
        shown = draw_histograms(
            axes[0, 0],
            row_distances(fit.embeddings()[1], pairs.index),
            pairs.labels,
            threshold=learner.threshold_,
            b0=learner.b0_,
            margin=learner.margin,
            name=f"{fit.title}:\npairs of the test half",
        )
    missed, passed = shown.error_rates
    return Picture(
        file,
        f"Histograms of the distances of similar and dissimilar test pairs of {fit.title}; at the "
        f"threshold {learner.threshold_:.3g}, {missed:.1%} of the similar pairs lie above it and "
        f"{passed:.1%} of the dissimilar ones below.",
        f"{fit.title}: distances of test pairs, with the learnt threshold and its margins.",
        dataset=fit.dataset.name,
        title="Distances of pairs",
    )


def draw_convergence(folder: Path, stem: str, fit: FittedMethod) -> Picture:
    """Draw primal, dual and gap of the fit."""
    result, file = learner_of(fit.fitted).result_, f"{stem}-convergence.png"
    with drawn_png(folder / file, 7.2, 3, colours=32) as axes:
        name = f"{fit.title}: objective"
        ConvergenceDisplay.from_result(result, axes=list(axes[:, 0]), name=name)
    plural = "s" if result.n_iter != 1 else ""
    steps = f"{result.n_iter} step{plural} to a duality gap of {result.gap:.1e}"
    return Picture(
        file,
        f"Primal, dual and duality gap by iteration and by seconds for {fit.title}: {steps}.",
        f"{fit.title}: {steps}, at an objective of {result.primal:.4g}.",
        dataset=fit.dataset.name,
        title="Convergence",
    )


def draw_matrices(folder: Path, stem: str, fit: FittedMethod, method: str) -> list[Picture]:
    """Draw the learnt matrices and their spectra, one picture per block."""
    shown = MetricDisplay.from_estimator(learner_of(fit.fitted))
    pyplot().close(shown.figure_)  # one figure with all blocks would be too small on a phone
    features, pictures = fit.dataset.pixel_features or (), []
    for block, matrix in enumerate(shown.matrices):
        file = f"{stem}-{method}-{block}.png"
        names = [list(features)] if len(features) == len(matrix) else None
        whole = METHODS[method].title + (f", block {block}" if len(shown.matrices) > 1 else "")
        with drawing_style():
            save_png(folder / file, MetricDisplay([matrix], names).plot(name=whole).figure_)
        pictures.append(
            Picture(
                file,
                f"Heat map and spectrum of the {len(matrix)} × {len(matrix)} matrix that {whole} "
                f"learnt on {fit.title}, in units in which the prior's diagonal is 1.",
                f"{fit.title}: the matrix that {whole} learnt; the prior has 1 on the diagonal.",
                dataset=fit.dataset.name,
                title="Learnt matrices",
            )
        )
    return pictures


# Contact sheets: queries and their nearest neighbours


def draw_contact_sheet(
    folder: Path,
    stem: str,
    plain: FittedMethod,
    learnt: FittedMethod,
    images: NDArray,
    n_queries: int = 10,
) -> Picture:
    """Draw queries with their nearest neighbours by the plain and by the learnt distance."""
    found = [find_neighbours(*fit.embeddings()) for fit in (plain, learnt)]
    known, asked = learnt.training.y, learnt.test.y
    right = np.stack([majority_vote(known[near]) == asked for near in found])
    queries = choose_queries(right, n_queries)
    (train_rows, test_rows), file = learnt.rows, f"{stem}-neighbours.png"
    shape = (len(queries), 2 * NEIGHBOURS + 1)
    with drawn_png(folder / file, 0.65 * len(queries) + 0.3, *shape, colours=256) as axes:
        for row, query in zip(axes, queries, strict=True):
            show_image(row[0], images[test_rows[query]])
            for place, near in enumerate(np.concatenate([near[query] for near in found])):
                ax = row[place + 1]
                show_image(ax, images[train_rows[near]])
                draw_frame(ax, known[near] == asked[query])
        axes[0, 0].set_title("query", fontsize=8)
        axes[0, 2].set_title("plain distance", fontsize=8)
        axes[0, 2 + NEIGHBOURS].set_title("learnt distance", fontsize=8)
    tally = count_cases(right)
    return Picture(
        file,
        f"Query images of {learnt.title}, each with its {NEIGHBOURS} nearest training images by "
        f"the plain and by the learnt distance, right ones with a tick, wrong ones with a cross. "
        f"{tally}",
        f"{learnt.title}: queries, their {NEIGHBOURS} nearest by the plain distance, then by the "
        f"learnt one; ✓ same class, ✗ another. Chosen to show all cases: {tally}",
        drawing=False,
        dataset=learnt.dataset.name,
        title="Queries and their nearest neighbours",
    )


def find_neighbours(known: NDArray, asked: NDArray) -> NDArray[np.intp]:
    """Return the rows of the nearest training samples, shape (n_asked, 3)."""
    return NearestNeighbors(n_neighbors=NEIGHBOURS).fit(known).kneighbors(asked)[1]


def majority_vote(labels: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the most frequent class of each row, the smallest in a tie, as 3-NN does."""
    counts = (labels[:, :, None] == np.unique(labels)).sum(axis=1)
    return np.unique(labels)[counts.argmax(axis=1)]


CASES = {
    (False, True): "wrong by the plain distance, right by the learnt one",
    (True, False): "right by the plain distance, wrong by the learnt one",
    (False, False): "wrong by both",
    (True, True): "right by both",
}


def choose_queries(right: NDArray[np.bool_], n_queries: int) -> list[int]:
    """Choose queries of each case in equal numbers as far as possible, spread over the samples."""
    members = [np.flatnonzero(np.equal(right.T, case).all(axis=1)) for case in CASES]
    wanted = [0] * len(members)
    while sum(wanted) < min(n_queries, right.shape[1]):
        for place, rows in enumerate(members):
            if wanted[place] < len(rows) and sum(wanted) < n_queries:
                wanted[place] += 1
    chosen: list[int] = []
    for rows, count in zip(members, wanted, strict=True):
        places = np.linspace(0, max(len(rows) - 1, 0), count).astype(int)
        chosen.extend(int(row) for row in rows[places])
    return chosen


def count_cases(right: NDArray[np.bool_]) -> str:
    """Return how many of the test samples are of each case, as text."""
    total = right.shape[1]
    counts = [int(np.equal(right.T, case).all(axis=1).sum()) for case in CASES]
    parts = [f"{count} {text}" for count, text in zip(counts, CASES.values(), strict=True)]
    return f"of {total} test samples {', '.join(parts)}."


def show_image(ax: Axes, image: NDArray) -> None:
    """Show an image without axes."""
    top = 255 if image.dtype == np.uint8 else 1
    ax.imshow(image, cmap="gray", vmin=0, vmax=top, interpolation="nearest")
    ax.set(xticks=[], yticks=[])


def draw_frame(ax: Axes, right: bool) -> None:
    """Mark by colour, line and sign whether a neighbour is of the query's class."""
    colour = RIGHT if right else WRONG
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    font = {"size": 9, "weight": "bold"}
    place = {"ha": "right", "va": "top", "transform": ax.transAxes}
    ax.text(0.96, 0.94, "✓" if right else "✗", font, color=colour, bbox=box, **place)
    for spine in ax.spines.values():
        spine.set(color=colour, linewidth=2, linestyle="-" if right else ":")
