"""The layers of the library: a module imports from its own layer or from lower ones only.

What a module imports inside a function counts too; what it imports for the type checker alone
(``if TYPE_CHECKING:``) does not.
"""

import ast
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "tatml"

# The layers, lowest first: a name, and the modules that belong to it, without "tatml.". The package
# itself shows what lies below it; above it is what uses the library as a user does.
LAYERS = (
    ("foundation", ("_array", "_messages", "_svec", "_threads", "_validation", "_warnings")),
    ("data", ("_data", "_data.*")),
    ("features", ("features", "features.*")),
    ("datasets", ("datasets", "datasets.*")),
    (
        "mathematics",
        (
            "_optim",
            "_optim.certificate",
            "_optim.hessian",
            "_optim.losses",
            "_optim.pair_sums",
            "_optim.pair_term",
            "_optim.point",
            "_optim.problem",
            "_optim.terms",
        ),
    ),
    (
        "solvers",
        (
            "_optim.checkpoint",
            "_optim.damped_newton",
            "_optim.dual_newton",
            "_optim.dykstra",
            "_optim.linear_systems",
            "_optim.monitor",
            "_optim.newton",
            "_optim.nt_scaling",
            "_optim.projection",
            "_optim.result",
            "_optim.solvers",
        ),
    ),
    ("sharding", ("_sharding", "_sharding.*")),
    ("learning", ("_learn_metric",)),
    ("estimators", ("_estimators", "_estimators.*")),
    ("public", ("inspection", "losses", "plotting", "solvers")),
    ("package", ("__init__",)),
    ("models", ("io",)),
    ("experiments", ("experiments", "experiments.*")),
    ("commands", ("__main__", "_cli", "_cli.*")),
)


# The import graph


def read_modules():
    """{name: (path, whether it is a package)} of all modules."""
    found = {}
    for path in sorted((SOURCE / PACKAGE).rglob("*.py")):
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


# The rules


@pytest.mark.parametrize("module", MODULES)
def test_every_module_is_in_one_layer(module):
    names = [LAYERS[number][0] for number in layers_of(module)]
    assert len(names) == 1, f"{module}: expected one layer in LAYERS, got {names or 'none'}"


@pytest.mark.parametrize(
    "pattern", [pattern for _, patterns in LAYERS for pattern in patterns], ids=str
)
def test_every_declared_module_is_there(pattern):
    shorts = [name.removeprefix(PACKAGE).removeprefix(".") or "__init__" for name in MODULES]
    assert any(fnmatchcase(short, pattern) for short in shorts), f"{pattern}: no such module"


def upward_imports(importer, imported):
    """A line for each import of a module in a higher layer."""
    (own,) = layers_of(importer)
    for module, line in imported.items():
        (other,) = layers_of(module)
        if other > own:
            yield (
                f"{importer} (layer {own + 1}, {LAYERS[own][0]}) imports {module} "
                f"(layer {other + 1}, {LAYERS[other][0]}) in line {line}"
            )


@pytest.mark.parametrize("module", GRAPH)
def test_no_module_imports_from_a_higher_layer(module):
    upward = list(upward_imports(module, GRAPH[module]))
    assert not upward, "; ".join(upward)


def test_no_modules_import_each_other_in_a_circle():
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as error:
        pytest.fail("a circle of imports: " + " → ".join(reversed(error.args[1])))


# The rules see what they should


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from . import blocks", {"tatml._data.blocks"}),
        ("from .. import Blocks", {"tatml"}),
        ("from .._optim import newton, Result", {"tatml._optim", "tatml._optim.newton"}),
        ("from tatml._data.blocks import Blocks", {"tatml._data.blocks"}),
        ("import numpy, tatml.io as io", {"tatml.io"}),
        ("def f():\n    from ..io import load", {"tatml.io"}),
        ("if TYPE_CHECKING:\n    from ..io import load", set()),
        ("if typing.TYPE_CHECKING:\n    import numpy\nelse:\n    from .. import io", {"tatml.io"}),
        ("from numpy import linalg", set()),
    ],
)
def test_imports_are_found(source, expected):
    modules = dict.fromkeys(
        [
            "tatml",
            "tatml._data",
            "tatml._data.blocks",
            "tatml.io",
            "tatml._optim",
            "tatml._optim.newton",
        ]
    )
    assert set(imports_of(ast.parse(source), "tatml._data.pairs", False, modules)) == expected


def test_imports_of_a_subpackage_are_found():
    modules = dict.fromkeys(["tatml.io", "tatml.features", "tatml.features._spd"])
    tree = ast.parse("from ._spd import a\nfrom ..io import b")
    expected = {"tatml.features._spd", "tatml.io"}
    assert set(imports_of(tree, "tatml.features", True, modules)) == expected
    tree = ast.parse("from . import _spd\nfrom .. import io")
    assert set(imports_of(tree, "tatml.features._images", False, modules)) == expected


def test_an_upward_import_is_named_with_its_layers():
    (line,) = upward_imports(
        "tatml.features._spd", {"tatml._data.blocks": 1, "tatml._learn_metric": 3}
    )
    assert line == (
        "tatml.features._spd (layer 3, features) imports tatml._learn_metric "
        "(layer 8, learning) in line 3"
    )
