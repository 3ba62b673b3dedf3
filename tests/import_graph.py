"""The layers of the library and its import graph; as a script, draws both.

    python tests/import_graph.py docs/images/layers.png

What a module imports inside a function counts too; what it imports for the type checker alone
(``if TYPE_CHECKING:``) does not.
"""

import argparse
import ast
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import fill

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "tatml"

# The layers, lowest first: a name, and the modules that belong to it, without "tatml.". The package
# itself shows what lies below it; above it is what uses the library as a user does.
LAYERS = (
    (
        "foundation",
        (
            "_array",
            "_messages",
            "_progress",
            "_svec",
            "_threads",
            "_validation",
            "_warnings",
        ),
    ),
    ("data", ("_data", "_data.*")),
    ("features", ("features", "features.*")),
    ("datasets", ("datasets", "datasets.*")),
    (
        "mathematics",
        (
            "_optim",
            "_optim.certificate",
            "_optim.custom_loss",
            "_optim.hessian",
            "_optim.layout",
            "_optim.losses",
            "_optim.pair_term",
            "_optim.problem",
            "_optim.sums",
            "_optim.terms",
        ),
    ),
    (
        "solvers",
        (
            "_optim.checkpoint",
            "_optim.dual_newton",
            "_optim.dykstra",
            "_optim.linear_systems",
            "_optim.loss_model",
            "_optim.monitor",
            "_optim.newton",
            "_optim.result",
            "_optim.solvers",
            "_optim.steps",
        ),
    ),
    ("sharding", ("_sharding", "_sharding.*")),
    ("statistics", ("_verification", "_verification.*")),
    ("learning", ("_learn_metric", "_learning", "_learning.*")),
    ("estimators", ("_estimators", "_estimators.*")),
    (
        "public",
        (
            "inspection",
            "inspection.*",
            "losses",
            "plotting",
            "plotting.*",
            "solvers",
            "verification",
            "verification.*",
        ),
    ),
    ("package", ("__init__",)),
    ("models", ("io",)),
    ("commands", ("__main__", "_cli", "_cli.*")),
)


# The import graph


def read_modules(package=PACKAGE):
    """{name: (path, whether it is a package)} of all modules."""
    found = {}
    for path in sorted((SOURCE / package).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        found[".".join(parts[:-1] if is_package else parts)] = path, is_package
    return found


def imports_of(tree, name, is_package, modules):
    """The modules of this package that a module imports when it runs, as {name: line}."""
    parts = name.split(".")
    package = parts if is_package else parts[:-1]
    found = {}
    for node in nodes_that_run(tree):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            # What is imported is a module, or a name in one.
            inside = [f"{source}.{alias.name}" for alias in node.names]
            wanted = [module if module in modules else source for module in inside]
        else:
            continue
        for module in wanted:
            if module in modules:
                found.setdefault(module, node.lineno)
    return found


def nodes_that_run(node):
    """All nodes but those of ``if TYPE_CHECKING:``."""
    yield node
    left_out = node.body if is_for_type_checkers(node) else []
    for child in ast.iter_child_nodes(node):
        if child not in left_out:
            yield from nodes_that_run(child)


def is_for_type_checkers(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def layers_of(module):
    """The numbers of the layers that claim a module: there should be one."""
    short = module.removeprefix(PACKAGE).removeprefix(".") or "__init__"
    return [
        number
        for number, (_, patterns) in enumerate(LAYERS)
        if any(fnmatchcase(short, pattern) for pattern in patterns)
    ]


MODULES = read_modules()
GRAPH = {
    name: imports_of(ast.parse(path.read_text(encoding="utf-8")), name, is_package, MODULES)
    for name, (path, is_package) in MODULES.items()
}


# The picture


def draw_layers(path):
    """One band per layer, lowest at the bottom; arcs for the imports between layers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    texts = [fill(list_modules(number), 66) for number in range(len(LAYERS))]
    heights = [0.45 + 0.26 * (text.count("\n") + 1) for text in texts]
    bottoms = [sum(heights[:number]) + 0.15 * number for number in range(len(LAYERS))]
    middles = [bottom + height / 2 for bottom, height in zip(bottoms, heights, strict=True)]
    fig, ax = plt.subplots(figsize=(11, 0.62 * (bottoms[-1] + heights[-1])))
    for number, (name, _) in enumerate(LAYERS):
        box = FancyBboxPatch(
            (0, bottoms[number]), 10, heights[number], "round,pad=0,rounding_size=0.1"
        )
        ax.add_patch(box)
        box.set(facecolor="#eef3f8", edgecolor="#7a8ea3")
        ax.text(0.15, middles[number], f"{number + 1}  {name}", va="center", weight="bold")
        ax.text(2.3, middles[number], texts[number], va="center", fontsize=8.5, family="monospace")
    for (importer, imported), count in imports_between_layers().items():
        arrow = FancyArrowPatch(
            (10.05, middles[importer]),
            (10.05, middles[imported]),
            connectionstyle="arc3,rad=-0.35",
            arrowstyle="-|>",
            mutation_scale=9,
            linewidth=0.4 + 0.06 * count,
            color=f"C{importer % 10}",
            alpha=0.75,
        )
        ax.add_patch(arrow)
    ax.set(xlim=(-0.1, 13.4), ylim=(-0.2, bottoms[-1] + heights[-1] + 0.6))
    ax.set_title(
        "A module imports from its own layer or from lower ones (arrow: imports; width: how many)"
    )
    ax.axis("off")
    fig.savefig(path, dpi=130, bbox_inches="tight")


def list_modules(layer):
    """The modules of a layer: "a, b", or "package/: a, b" for those of a package."""
    shorts = [name.removeprefix(f"{PACKAGE}.") for name in MODULES if layers_of(name) == [layer]]
    packages = {name.rpartition(".")[0] for name in shorts} - {""}
    listed = []
    for package in ["", *sorted(packages)]:
        files = [name.rpartition(".")[2] for name in shorts if name.rpartition(".")[0] == package]
        names = ", ".join(sorted({*files} - packages))
        if names:
            listed.append(f"{package}/: {names}" if package else names)
    return "; ".join(listed)


def imports_between_layers():
    """{(layer that imports, layer that is imported): number of imports}, for different layers."""
    found = Counter(
        (layers_of(importer)[0], layers_of(module)[0])
        for importer, imported in GRAPH.items()
        for module in imported
    )
    return {layers: count for layers, count in found.items() if layers[0] != layers[1]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", help="the picture to write")
    draw_layers(parser.parse_args().path)
