"""A module imports from its own layer or from lower ones only; `import_graph.py` has the layers."""

import ast
import importlib
import re
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter

import pytest
from import_graph import GRAPH, LAYERS, MODULES, PACKAGE, SOURCE, imports_of, layers_of

PUBLIC_MODULES = {name for name in MODULES if "._" not in name and name != "tatml.__main__"}

# The rules


def test_every_module_is_in_one_layer():
    claimed = {module: [LAYERS[number][0] for number in layers_of(module)] for module in MODULES}
    wrong = {module: names for module, names in claimed.items() if len(names) != 1}
    assert wrong == {}, "expected one layer of LAYERS per module"


def test_every_declared_module_is_there():
    shorts = [name.removeprefix(PACKAGE).removeprefix(".") or "__init__" for name in MODULES]
    patterns = [pattern for _, patterns in LAYERS for pattern in patterns]
    assert [p for p in patterns if not any(fnmatchcase(short, p) for short in shorts)] == []


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


def test_no_module_imports_from_a_higher_layer():
    upward = [line for module in GRAPH for line in upward_imports(module, GRAPH[module])]
    assert not upward, "; ".join(upward)


def test_estimators_leave_the_numbers_to_the_learning_room():
    """They read their input, call a function of `_learning`, and publish what it returns."""
    known = {f"{PACKAGE}._optim.{name}" for name in ("custom_loss", "result", "solvers")}
    found = {
        (module, imported)
        for module in GRAPH
        if module.startswith(f"{PACKAGE}._estimators.")
        for imported in GRAPH[module]
        if imported.startswith(f"{PACKAGE}._optim.")
    }
    assert {pair for pair in found if pair[1] not in known} == set()


def test_no_modules_import_each_other_in_a_circle():
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as error:
        pytest.fail("a circle of imports: " + " → ".join(reversed(error.args[1])))


# The paper's experiments are a client of the library


def paths_of_imports(tree):
    """Yield (dotted path, node) of every import; a relative one starts with its dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            yield from ((f"{source}.{alias.name}", node) for alias in node.names)


def imports_of_the_paper(tree):
    """Yield (dotted path, the function it is in or None) of the imports of `tatml_paper`."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(node): found.name for found in functions for node in ast.walk(found)}
    for path, node in paths_of_imports(tree):
        if path.split(".")[0] == "tatml_paper":
            yield path, inside.get(id(node))


def test_the_library_imports_the_paper_in_one_command_only():
    found = {
        module: [*imports_of_the_paper(ast.parse(path.read_text(encoding="utf-8")))]
        for module, (path, _) in MODULES.items()
    }
    expected = {"tatml._cli.commands": [("tatml_paper.reproduce.reproduce", "reproduce")]}
    assert {module: paths for module, paths in found.items() if paths} == expected


DOCUMENTED = {"os._exit"}  # of the standard library, public in spite of the underscore


def is_private(name):
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def is_listed(path):
    """Whether a dotted path of `tatml` is a public module, or listed in the `__all__` of one."""
    if path in PUBLIC_MODULES:
        return True
    module, _, name = path.rpartition(".")
    return module in PUBLIC_MODULES and name in importlib.import_module(module).__all__


def uses_of_what_is_private(tree):
    """Yield what a module of `tatml_paper` uses of `tatml`, or of any object, and is not public."""
    bound = {}  # names of public modules of `tatml`
    for path, node in paths_of_imports(tree):
        if path.split(".")[0] == "tatml":
            if not is_listed(path):
                yield path
            (name,) = (
                alias.asname or alias.name for alias in node.names if path.endswith(alias.name)
            )
            bound[name] = path
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name):
                whole = ast.unparse(node)
                if is_private(name) and whole not in DOCUMENTED:
                    yield whole
                module = bound.get(ast.unparse(node.value))
                if module in PUBLIC_MODULES and not is_listed(f"{module}.{name}"):
                    yield whole
            case ast.Call(func=ast.Name(id=function), args=[_, ast.Constant(value=str(name)), *_]):
                if function in ("getattr", "setattr", "hasattr", "delattr") and is_private(name):
                    yield ast.unparse(node)
            case ast.Constant(value=str(text)) if re.fullmatch(
                r"tatml(\.\w+)*\._\w+(\.\w+)*", text
            ):
                yield text


def test_the_paper_uses_public_names_only():
    """Whoever writes a client like it needs no private part of the library either."""
    found = {
        path.relative_to(SOURCE).as_posix(): [*uses_of_what_is_private(ast.parse(text))]
        for path in sorted((SOURCE / "tatml_paper").rglob("*.py"))
        if (text := path.read_text(encoding="utf-8"))
    }
    assert len(found) > 20
    assert {module: uses for module, uses in found.items() if uses} == {}


# The rules see what they should


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from tatml._data.pairs import Pairs", ["tatml._data.pairs.Pairs"]),
        ("from tatml import _array", ["tatml._array"]),
        ("from tatml.plotting._axes import pyplot", ["tatml.plotting._axes.pyplot"]),
        ("from tatml.verification import _report", ["tatml.verification._report"]),
        ("from tatml.plotting import pyplot", ["tatml.plotting.pyplot"]),
        ("import tatml._svec", ["tatml._svec"]),
        ("def f():\n    from tatml._svec import svec", ["tatml._svec.svec"]),
        ("from tatml import datasets\ndatasets.missing_extra()", ["datasets.missing_extra"]),
        ("import tatml as t\nt._learn_metric", ["t._learn_metric", "t._learn_metric"]),
        ("metric._component_list()", ["metric._component_list"]),
        ("fit(X).blocks._arrays", ["fit(X).blocks._arrays"]),
        ("self.metric._place = None", ["self.metric._place"]),
        ("getattr(metric, '_place', None)", ["getattr(metric, '_place', None)"]),
        ("import_module('tatml._data.pairs')", ["tatml._data.pairs"]),
        ("from tatml import TATML, __version__, datasets\ndatasets.load_eth80()", []),
        ("import tatml.io as io\nfrom tatml.features import Vectorize\nio.save_model", []),
        ("from .pairs import Pairs\nself._file\ncls._lock()\nos._exit(1)\nX.__len__()", []),
        ("getattr(datasets, 'load_eth80')\n'tatml-results'", []),
    ],
)
def test_uses_of_what_is_private_are_found(source, expected):
    assert [*uses_of_what_is_private(ast.parse(source))] == expected


def test_imports_of_the_paper_are_found():
    source = "import tatml_paper.store\ndef f():\n    from tatml_paper import run"
    expected = [("tatml_paper.store", None), ("tatml_paper.run", "f")]
    assert [*imports_of_the_paper(ast.parse(source))] == expected
    assert [*imports_of_the_paper(ast.parse("from tatml import TATML\nfrom . import io"))] == []


IMPORTS = [
    ("from . import blocks", {"tatml._data.blocks"}),
    ("from .. import Blocks", {"tatml"}),
    ("from .._optim import newton, Result", {"tatml._optim", "tatml._optim.newton"}),
    ("from tatml._data.blocks import Blocks", {"tatml._data.blocks"}),
    ("import numpy, tatml.io as io", {"tatml.io"}),
    ("def f():\n    from ..io import load", {"tatml.io"}),
    ("if TYPE_CHECKING:\n    from ..io import load", set()),
    ("if typing.TYPE_CHECKING:\n    import numpy\nelse:\n    from .. import io", {"tatml.io"}),
    ("from numpy import linalg", set()),
]


def test_imports_are_found():
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
    for source, expected in IMPORTS:
        found = imports_of(ast.parse(source), "tatml._data.pairs", False, modules)
        assert set(found) == expected, source


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
        "(layer 9, learning) in line 3"
    )
