"""Write the page of the API reference: the names in `__all__` of the public modules, in groups.

A new public name appears without a change here, in the last group of its module.
"""

from importlib import import_module

INTRODUCTION = """API reference
=============

Public is what this page lists; all other modules may change without notice. The same names are in
``__all__`` of the modules. ``Newton``, ``Dykstra``, ``Result`` and ``Status`` are also names of
``tatml`` itself.
"""
GROUPS = [
    (
        "Estimators",
        "tatml",
        "TATML TATMLCV TATMLPairs TATMLTriplets TATMLQuadruplets TATMLNeighbors TATMLRegression "
        "PairThreshold SoftNeighborsClassifier SoftNeighborsRegressor make_table_pipeline",
    ),
    ("Methods to compare with", "tatml", "Euclidean Maz ITML GMML"),
    ("The function and its data", "tatml", "learn_metric Blocks pairs_from_chunks Comparisons"),
    ("Features", "tatml.features", "FilterBankCovariance CovarianceDescriptor LogEuclidean"),
    ("Verification", "tatml.verification", "error_rates report train_test_split_pairs"),
    ("Pictures", "tatml.plotting", "PairDistanceDisplay MetricDisplay BlockShareDisplay"),
    ("Inspection", "tatml.inspection", ""),
    ("Saving and export", "tatml.io", "save_model load_model export"),
    ("Datasets", "tatml.datasets", ""),
    ("Losses", "tatml.losses", "CustomLoss SquaredHinge LogisticLoss BurgLoss PairLoss"),
    ("Solvers and their results", "tatml.solvers", "Newton Dykstra Result Status"),
    ("The paper's experiments", "tatml_paper", "run read_records write_tables"),
]


def grouped_names():
    """Return (title, module, names) of every group; each public name is in one of them."""
    modules = {module for _, module, _ in GROUPS}
    elsewhere = {*import_module("tatml.solvers").__all__, "__version__"}
    elsewhere |= {module.removeprefix("tatml.") for module in modules}
    last = {module: title for title, module, _ in GROUPS}
    found = []
    for title, module, first in GROUPS:
        names = first.split()
        if title == last[module]:
            listed = {name for _, other, more in GROUPS if other == module for name in more.split()}
            public = set(import_module(module).__all__) - listed
            names += sorted(public - elsewhere if module == "tatml" else public)
        found.append((title, module, names))
    return found


def reference():
    """Return the page as reStructuredText."""
    parts = [INTRODUCTION]
    for title, module, names in grouped_names():
        parts += [title, "-" * len(title), "", f".. currentmodule:: {module}", ""]
        parts += [".. autosummary::", "   :toctree:", "   :nosignatures:", ""]
        parts += [f"   {name}" for name in names] + [""]
    return "\n".join(parts)


def write_reference(folder):
    """Write the page, unless it is there already: then Sphinx need not read it again."""
    folder.mkdir(exist_ok=True)
    path = folder / "index.rst"
    text = reference()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
