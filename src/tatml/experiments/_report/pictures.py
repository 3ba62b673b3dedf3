"""Pictures of one fit for each data set: distances, convergence, matrices, neighbours.

The fixed configuration is fitted again to the first training half. What is drawn goes into the
folder of the results and nowhere else: pictures of the real data are not ours to give away.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from ..._estimators.metric import row_distances
from ...plotting import ConvergenceDisplay, MetricDisplay, PairDistanceDisplay, _pyplot
from .._fitting import embed, learner_of
from .._methods import METHODS
from .._protocol import choose_and_fit, held_out_pairs, split_in_halves
from .._samples import Folder, Samples, digest_of, extract, has_folder, load_images, samples_of
from .._settings import PROTOCOL, Dataset, features_of
from .._tasks import Task
from .results import BASELINE, FIXED_NAME

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MANIFEST", "Picture", "draw_pictures", "read_pictures"]

MANIFEST = Path("pictures") / "pictures.json"
WIDTH, DPI = 4.6, 130
RIGHT, WRONG = "#00734d", "#b3340a"
NEIGHBOURS = PROTOCOL.neighbours
STYLE = {"font.size": 9}
DRAWN_AS = 2  # raise it when the drawings change, so that old ones are not taken for new


@dataclass(frozen=True)
class Picture:
    """A picture in the folder, and what the report says of it."""

    file: str
    dataset: str
    title: str
    alternative: str
    caption: str
    drawing: bool = True


@dataclass(frozen=True)
class Fit:
    """One method fitted to the first training half of a data set, and the other half."""

    dataset: Dataset
    features: str
    fitted: Any
    training: Samples
    test: Samples
    rows: tuple[NDArray[np.intp], NDArray[np.intp]]

    @property
    def title(self) -> str:
        """The data set and its features."""
        return f"{self.dataset.title}, {self.features}"

    def embeddings(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The training and the test samples, where plain distances are the learnt ones."""
        return embed(self.fitted, self.training.X), embed(self.fitted, self.test.X)


def draw_pictures(
    out: str | os.PathLike[str],
    datasets: Iterable[Dataset],
    *,
    data: Folder = None,
) -> list[Picture]:
    """Draw the pictures of each data set that are not there yet, and list them for the report.

    Parameters
    ----------
    out : path
        The folder of the results; the pictures go to `pictures` in it.
    datasets : iterable of Dataset
        Declared ones. Those that are not embedded are left out where there is no folder of data.
    data : path or None
        The folder with the data that are not embedded; None: that of TATML_DATA.

    Returns
    -------
    list of Picture
        Those of all the data sets that were drawn, now or before.
    """
    folder = (Path(out) / MANIFEST).parent
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    for dataset in datasets:
        if dataset.embedded or has_folder(data):
            with threadpool_limits(1):  # as in the runs: small matrices are slower on many
                pictures += _pictures_of(dataset, folder, data, Path(out) / "features")
            # At once: what fails or stops a later one does not lose these.
            drawn = {picture.dataset for picture in pictures}
            kept = [picture for picture in read_pictures(out) if picture.dataset not in drawn]
            _write_list(Path(out) / MANIFEST, pictures + kept)
    return pictures


def read_pictures(out: str | os.PathLike[str]) -> list[Picture]:
    """The pictures that are there; none where none were drawn."""
    return _read_list(Path(out) / MANIFEST)


def _read_list(path: Path) -> list[Picture]:
    if not path.exists():
        return []
    found = [Picture(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    return [picture for picture in found if (path.parent / picture.file).exists()]


def _write_list(path: Path, pictures: Sequence[Picture]) -> None:
    entries = [asdict(picture) for picture in pictures]
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_text(
        json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    os.replace(unfinished, path)  # a list of that name is always whole


def _pictures_of(dataset: Dataset, folder: Path, data: Folder, cache: Path) -> list[Picture]:
    task = Task("table1", dataset, main_features(dataset), FIXED_NAME, repeat=0)
    stem = f"{dataset.name}-{digest_of([task.identity()['key'], DRAWN_AS])}"
    listed = folder / f"{stem}.json"
    found = _read_list(listed)
    if found:
        return found
    samples = samples_of(dataset, task.features, extract(dataset, data, cache))
    learnt, plain, paper = (fit(task, name, samples) for name in (FIXED_NAME, BASELINE, "tatml"))
    images = load_images(dataset, data).images
    pictures = [
        draw_distances(folder, stem, learnt),
        draw_convergence(folder, stem, learnt),
        *draw_matrices(folder, stem, paper, "tatml"),
        *draw_matrices(folder, stem, learnt, FIXED_NAME),
        draw_contact_sheet(folder, stem, plain, learnt, images),
    ]
    _write_list(listed, pictures)
    return pictures


def main_features(dataset: Dataset) -> str:
    """The feature type that is drawn: all scales, or of tensors the vectors."""
    return features_of(dataset)[-1 if dataset.pixel_features is None else 0]


def fit(task: Task, method: str, samples: Samples) -> Fit:
    """Fit a method to the training half of the task."""
    seeds = task.seeds()
    rows = split_in_halves(samples.y, samples.groups, seeds["split"])
    training, test = (samples.take(half) for half in rows)
    fitted = choose_and_fit(METHODS[method], training, seeds["fit"])
    return Fit(task.dataset, task.features, fitted, training, test, rows)


def save(folder: Path, name: str, draw: Callable[[], Figure], colours: int = 128) -> str:
    """Save what is drawn with few colours, which is enough here and small."""
    plt = _pyplot()
    from PIL import Image  # matplotlib has brought it along

    with plt.rc_context(STYLE):
        figure = draw()
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=DPI, metadata={"Software": None})
        plt.close(figure)
    image = Image.open(content).convert("RGB").quantize(colours)
    image.save(folder / name, optimize=True)
    return name


def new_figure(
    height: float, n_rows: int, n_columns: int = 1
) -> tuple[Figure, NDArray[np.object_]]:
    """A figure as wide as a phone, and its axes."""
    size = (WIDTH, height)
    return _pyplot().subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)


def draw_distances(folder: Path, stem: str, fit: Fit) -> Picture:
    """Histograms of the distances of test pairs, with the threshold and the two margins."""
    learner = learner_of(fit.fitted)
    pairs = held_out_pairs(fit.test.y, fit.test.groups, seed=0)
    distances = row_distances(fit.embeddings()[1], pairs.index)
    labels = np.where(pairs.similar, 1, -1)
    rates: list[float] = []

    def draw() -> Figure:
        figure, axes = new_figure(3.8, 1)
        shown = PairDistanceDisplay.from_predictions(
            distances,
            labels,
            threshold=learner.threshold_,
            b0=learner.b0_,
            margin=learner.margin,
            ax=axes[0, 0],
            name=f"{fit.title}: pairs of the test half",
        )
        rates.extend(shown.error_rates)
        axes[0, 0].get_legend().remove()  # it would lie on the histograms
        figure.legend(loc="outside lower center", fontsize=7, ncols=2, frameon=False)
        return figure

    name = save(folder, f"{stem}-distances.png", draw)
    missed, passed = rates
    return Picture(
        name,
        fit.dataset.name,
        "Distances of pairs",
        f"Histograms of the distances of similar and dissimilar test pairs of {fit.title}; at the "
        f"threshold {learner.threshold_:.3g}, {missed:.1%} of the similar pairs lie above it and "
        f"{passed:.1%} of the dissimilar ones below.",
        f"{fit.title}: the learnt threshold and the margins on pairs that were never seen.",
    )


def draw_convergence(folder: Path, stem: str, fit: Fit) -> Picture:
    """Primal, dual and gap of the fit."""
    result = learner_of(fit.fitted).result_

    def draw() -> Figure:
        figure, axes = new_figure(7.2, 3)
        ConvergenceDisplay.from_result(
            result, axes=list(axes[:, 0]), name=f"{fit.title}: objective"
        )
        return figure

    name = save(folder, f"{stem}-convergence.png", draw, colours=32)
    steps = f"{result.n_iter} steps to a duality gap of {result.gap:.1e}"
    return Picture(
        name,
        fit.dataset.name,
        "Convergence",
        f"Primal, dual and duality gap by iteration and by seconds for {fit.title}: {steps}.",
        f"{fit.title}: {steps}, at an objective of {result.primal:.4g}.",
    )


def draw_matrices(folder: Path, stem: str, fit: Fit, method: str) -> list[Picture]:
    """The learnt matrices and their spectra, one picture a block."""
    shown = MetricDisplay.from_estimator(learner_of(fit.fitted))
    _pyplot().close(shown.figure_)  # blocks side by side: too small to read on a phone
    pictures = []
    for block, matrix in enumerate(shown.matrices):
        features = fit.dataset.pixel_features or ()
        names = [list(features)] if len(features) == len(matrix) else None
        whole = METHODS[method].title + (f", block {block}" if len(shown.matrices) > 1 else "")
        display = MetricDisplay([matrix], names)

        def draw(display: MetricDisplay = display, title: str = whole) -> Figure:
            return display.plot(name=title).figure_

        pictures.append(
            Picture(
                save(folder, f"{stem}-{method}-{block}.png", draw),
                fit.dataset.name,
                "Learnt matrices",
                f"Heat map and spectrum of the {len(matrix)} × {len(matrix)} matrix that {whole} "
                f"learnt on {fit.title}, in units in which the prior's diagonal is 1.",
                f"{fit.title}: what {whole} learnt; 1 on the diagonal is as before learning.",
            )
        )
    return pictures


# Contact sheets: queries and their neighbours


def draw_contact_sheet(
    folder: Path, stem: str, plain: Fit, learnt: Fit, images: NDArray, n_queries: int = 10
) -> Picture:
    """Queries with their nearest neighbours by the plain distance and by the learnt one."""
    found = [nearest(*fit.embeddings()) for fit in (plain, learnt)]
    known, asked = learnt.training.y, learnt.test.y
    right = np.stack([vote(known[near]) == asked for near in found])
    queries = choose_queries(right, n_queries)
    train_rows, test_rows = learnt.rows

    def draw() -> Figure:
        figure, axes = new_figure(0.65 * len(queries) + 0.3, len(queries), 2 * NEIGHBOURS + 1)
        for row, query in zip(axes, queries, strict=True):
            show(row[0], images[test_rows[query]])
            for place, near in enumerate(np.concatenate([near[query] for near in found])):
                ax = row[place + 1]
                show(ax, images[train_rows[near]])
                frame(ax, known[near] == asked[query])
        axes[0, 0].set_title("query", fontsize=8)
        axes[0, 2].set_title(METHODS[BASELINE].title + " distance", fontsize=8)
        axes[0, 2 + NEIGHBOURS].set_title("learnt distance", fontsize=8)
        return figure

    name = save(folder, f"{stem}-neighbours.png", draw, colours=256)
    tally = describe(right)
    return Picture(
        name,
        learnt.dataset.name,
        "Queries and their nearest neighbours",
        f"Query images of {learnt.title}, each with its {NEIGHBOURS} nearest training images by "
        f"the plain and by the learnt distance, right ones with a tick, wrong ones with a cross. "
        f"{tally}",
        f"{learnt.title}: queries, their {NEIGHBOURS} nearest by the plain distance, then by the "
        f"learnt one; ✓ same class, ✗ another. Chosen to show all cases: {tally}",
        drawing=False,
    )


def nearest(known: NDArray, asked: NDArray) -> NDArray[np.intp]:
    """The places of the nearest training samples, shape (n_asked, 3)."""
    return NearestNeighbors(n_neighbors=NEIGHBOURS).fit(known).kneighbors(asked)[1]


def vote(labels: NDArray[np.intp]) -> NDArray[np.intp]:
    """The class that most of each row say, the smallest where there is a tie: as 3-NN does."""
    counts = (labels[:, :, None] == np.unique(labels)).sum(axis=1)
    return np.unique(labels)[counts.argmax(axis=1)]


CASES = {
    (False, True): "wrong by the plain distance, right by the learnt one",
    (True, False): "right by the plain distance, wrong by the learnt one",
    (False, False): "wrong by both",
    (True, True): "right by both",
}


def choose_queries(right: NDArray[np.bool_], n_queries: int) -> list[int]:
    """Some of each case, spread over the samples; more of the others where a case is rare."""
    members = [np.flatnonzero(np.equal(right.T, case).all(axis=1)) for case in CASES]
    wanted = [0] * len(members)
    while sum(wanted) < min(n_queries, right.shape[1]):
        for place, rows in enumerate(members):
            if wanted[place] < len(rows) and sum(wanted) < n_queries:
                wanted[place] += 1
    chosen: list[int] = []
    for rows, count in zip(members, wanted, strict=True):
        spread = np.linspace(0, max(len(rows) - 1, 0), count).astype(int)
        chosen.extend(int(row) for row in rows[spread])
    return chosen


def describe(right: NDArray[np.bool_]) -> str:
    """How many of the queries are of each case."""
    total = right.shape[1]
    counts = [int(np.equal(right.T, case).all(axis=1).sum()) for case in CASES]
    parts = [f"{count} {text}" for count, text in zip(counts, CASES.values(), strict=True)]
    return f"of {total} test samples {', '.join(parts)}."


def show(ax: Axes, image: NDArray) -> None:
    """An image without axes."""
    top = 255 if image.dtype == np.uint8 else 1
    ax.imshow(image, cmap="gray", vmin=0, vmax=top, interpolation="nearest")
    ax.set(xticks=[], yticks=[])


def frame(ax: Axes, right: bool) -> None:
    """Say by colour, line and sign whether a neighbour is of the query's class."""
    colour = RIGHT if right else WRONG
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    ax.text(
        0.96,
        0.94,
        "✓" if right else "✗",
        ha="right",
        va="top",
        transform=ax.transAxes,
        color=colour,
        fontsize=9,
        fontweight="bold",
        bbox=box,
    )
    for spine in ax.spines.values():
        spine.set(color=colour, linewidth=2, linestyle="-" if right else ":")
