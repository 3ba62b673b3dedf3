"""make_table_pipeline: a classifier for data frames, from the encoder to soft votes."""

from __future__ import annotations

from typing import Any, Literal, get_args

from sklearn.pipeline import Pipeline, make_pipeline

from .._validation import check_choice
from ..features import KernelMap, TableEncoder
from .soft_neighbors import SoftNeighborsClassifier
from .tatml import TATML

TableKernel = Literal["laplacian", "rbf", "polynomial", "linear"]
SHARE_OF_LANDMARKS = 0.125


def make_table_pipeline(
    kernel: TableKernel | KernelMap | None = "laplacian",
    *,
    random_state: Any = None,
    verbose: bool = False,
) -> Pipeline:
    """Return a classifier for tables with categories, dates and missing values.

    It is a `Pipeline` of `TableEncoder`, `TATML` and `SoftNeighborsClassifier`: columns become
    numbers, a metric is learnt from the classes, and the nearest samples vote. The metric is learnt
    from the encoded columns and from their images under a kernel, which let columns interact. The
    steps before the last one are an embedding, ``pipeline[:-1].transform(X)``, and
    ``pipeline[-2].predict_pairs`` predicts whether two of the encoded samples are of one class.

    Parameters
    ----------
    kernel : {"laplacian", "rbf", "polynomial", "linear"}, KernelMap or None, default="laplacian"
        The kernel, for a word with an eighth of the samples as landmarks, at most 300: with more,
        few samples are separated better than new ones will be. None: the metric is learnt from the
        encoded columns alone.
    random_state : int, RandomState, Generator or None, default=None
        Seeds all three steps.
    verbose : bool, default=False
        Whether to print the time of each step, and a line per iteration of the solver.

    Returns
    -------
    Pipeline
        Its steps are called "tableencoder", "tatml" and "softneighborsclassifier". Their other
        parameters have their defaults, but for the logistic loss; change them by `set_params`.

    See Also
    --------
    tatml.features.TableEncoder : What becomes of each column.
    SoftNeighborsClassifier : How the probabilities are found.

    Notes
    -----
    `benchmarks/tables_study.py` compares it with boosted trees, forests, support vector machines
    and neighbours; docs/defaults.md says how kernel, landmarks and loss were chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import make_table_pipeline
    >>> rng = np.random.default_rng(0)
    >>> size, colour = rng.normal(size=200), rng.choice(["red", "blue"], size=200)
    >>> y = (size > 0) == (colour == "red")
    >>> X = np.array([[s, c] for s, c in zip(size, colour)], dtype=object)
    >>> X[::10, 1] = None
    >>> model = make_table_pipeline(random_state=0).fit(X[:150], y[:150])
    >>> bool(model.score(X[150:], y[150:]) > 0.8)
    True
    >>> model.predict_proba([[2.0, "red"], [2.0, "blue"]]).argmax(axis=1)
    array([1, 0])
    """
    if isinstance(kernel, str):
        word = check_choice("kernel", kernel, get_args(TableKernel))
        kernel = KernelMap(word, n_landmarks=SHARE_OF_LANDMARKS)
    sparse_output: Literal["auto", False] = "auto" if kernel is None else False
    return make_pipeline(
        TableEncoder(sparse_output=sparse_output, random_state=random_state),
        TATML(kernel=kernel, loss="logistic", random_state=random_state, verbose=verbose),
        SoftNeighborsClassifier(random_state=random_state),
        verbose=verbose,
    )
