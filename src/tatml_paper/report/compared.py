"""What was compared: the protocol, the features and the methods, told before any result."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..cells import dataset_title
from ..methods import METHODS
from ..settings import FEATURE_TITLES, PROTOCOL
from .html import Column, HtmlTable, Value, item_list, join, paragraphs
from .results import Results
from .values import describe_marks, method_value, rows_of_fixed

if TYPE_CHECKING:
    from markupsafe import Markup

# What each method is, in a line; how it was set is `Method.about`.
METHOD_LINES: Mapping[str, str] = MappingProxyType(
    {
        "tatml": "The paper's method: learns a distance and its threshold in one convex problem.",
        "euc": "The plain Euclidean distance. It learns nothing.",
        "maz": "Learns a distance for a threshold that is fixed beforehand.",
        "itml": "Information-theoretic metric learning: similar pairs below one bound, dissimilar "
        "pairs above another.",
        "tatml_star": "TATML on vectors, in the one configuration that was fixed before any test "
        "half was scored.",
        "tatml_kernel": "TATML with a Gaussian kernel beside the features, for curved classes.",
        "tatml_kernel_cv": "TATML that chooses between a Gaussian kernel and none.",
        "itml_full": "Information-theoretic metric learning on whole vectors.",
        "gmml": "Geometric mean metric learning: a distance in closed form, without a threshold.",
        "lda": "Linear discriminant analysis: a projection that separates the classes, then "
        "nearest neighbours.",
        "nca": "Neighbourhood components analysis: a projection that is good for nearest "
        "neighbours.",
        "lr": "Logistic regression. It classifies by itself and gives no distance.",
        "svm": "A support vector machine with a Gaussian kernel. It classifies by itself.",
        "tatml_mat": "TATML with the defaults of the library, on matrices.",
        "tatml_vec": "TATML with the defaults of the library, on vectors.",
        "tatml_paper_vec": "TATML in the paper's setting, on vectors.",
    }
)
FEATURE_LINES: Mapping[str, str] = MappingProxyType(
    {
        "M=2;(1,.5)": "covariance matrices of pixel features, of the image in full and half size",
        "M=1;(1)": "the covariance matrix of pixel features of the image in full size",
        "M=1;(.5)": "the covariance matrix of pixel features of the image in half size",
        "matrix": "the image as a matrix, with a metric for its columns of pixels",
        "unfoldings": "the image and its transpose, with one metric each",
        "vector": "all pixels as one vector",
    }
)


def compared_html(results: Results) -> Markup:
    """Return the protocol, what the features are, and one line per method."""
    if not results.table1:
        return join([])
    data = list(dict.fromkeys(cell.dataset for cell in results.cells))
    features = list(dict.fromkeys(cell.features for cell in results.cells))
    named = " and ".join(
        part for part in (", ".join(map(dataset_title, data[:-1])), dataset_title(data[-1])) if part
    )
    protocol = (
        f"The data are {named}. They are split into two random halves, again in each repeat. Each "
        "method learns a distance on one half, and chooses its parameters there. The "
        f"{PROTOCOL.neighbours} nearest neighbours by this distance classify the other half: the "
        "accuracy is the share of right classes. A cell is one data set with one kind of features."
    )
    lines = [f"{FEATURE_TITLES[f]}: {FEATURE_LINES[f]}." for f in features if f in FEATURE_LINES]
    table = _method_table(results).html()
    marks = paragraphs([describe_marks(results)])
    return join([paragraphs([protocol]), item_list(lines), table, marks])


def _method_table(results: Results) -> HtmlTable:
    """Return what each method is, and how it was set."""
    rows = []
    for name in results.methods:
        about = METHODS[name].about if name in METHODS else "–"
        rows.append([method_value(name), Value(METHOD_LINES.get(name, "–")), Value(about)])
    columns = [Column("Method"), Column("What it is"), Column("How it was set")]
    marked = rows_of_fixed(results.methods)
    return HtmlTable("methods", "The methods", columns, rows, marked=marked, tools=False)
