"""The project keeps its own rules: see CONTRIBUTING.md."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import tomllib
from dataclasses import is_dataclass
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import tatml
import tatml_paper

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULES = [
    name
    for package in (tatml, tatml_paper)
    for name in (
        package.__name__,
        *(found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")),
    )
]

# The public surface: what these modules list in `__all__`. CONTRIBUTING.md says how it may change.
PUBLIC = {
    "tatml": """
        AllPairs Blocks Checkpoint Comparisons Compute Dykstra Euclidean GMML ITML Maz Newton PAPER
        PairChunks PairThreshold Result SoftNeighborsClassifier SoftNeighborsRegressor Status TATML
        TATMLCV TATMLNeighbors TATMLPairs TATMLQuadruplets TATMLRegression TATMLTriplets __version__
        learn_metric make_table_pipeline pairs_from_chunks
        datasets features inspection losses plotting solvers verification
    """,
    "tatml.datasets": """
        load_brodatz load_digits_images load_eth80 load_virus make_customers make_filter_bank
        make_spd_classes make_textures
    """,
    "tatml_paper": "DATASETS METHODS read_records run write_tables",
    "tatml.features": """
        BlockScaler BlockUnion CovarianceDescriptor FilterBankCovariance KernelMap LengthNormalizer
        LogEuclidean SPDPower TableEncoder TangentSpace Unfold Vectorize
    """,
    "tatml.inspection": """
        FeatureShares ImportanceComparison PermutationImportance compare_importance feature_shares
        permutation_importance threshold_interval
    """,
    "tatml.io": "Model export load_model save_model",
    "tatml.losses": "BurgLoss CustomLoss LogisticLoss PairLoss SquaredHinge",
    "tatml.plotting": """
        BlockShareDisplay ConvergenceDisplay DetDisplay EmbeddingDisplay ErrorRateDisplay
        FeatureShareDisplay MetricDisplay PairDistanceDisplay PermutationImportanceDisplay
        PlanDisplay ReliabilityDisplay
    """,
    "tatml.solvers": "Dykstra Iterate Newton Result Solver Status",
    "tatml.verification": """
        Calibration ErrorRate Extrapolation Gallery IdentificationCalibration Identified
        OperatingPoint PairKFold PairShuffleSplit Plan Reliability Report error_rates extrapolate
        plan report train_test_split_pairs
    """,
}
PUBLIC_OBJECTS = [
    f"{module}.{name}"
    for module, names in PUBLIC.items()
    for name in names.split()
    if f"{module}.{name}" not in PUBLIC and name != "__version__"
]
CONSTANTS = {"tatml.PAPER", "tatml_paper.DATASETS", "tatml_paper.METHODS"}


def read(path):
    return path.read_text(encoding="utf-8")


def source_id(path):
    return path.relative_to(ROOT / "src").as_posix()


# Rule 10: only the edge looks at a type or at ndim

LOOKS_AT_TYPES = {
    "tatml/_data/arrays.py",
    "tatml/_data/blocks.py",
    "tatml/_data/pairs.py",
    "tatml/_data/sparse.py",
    "tatml/_data/storage.py",
    "tatml/_estimators/inputs.py",
    "tatml/_estimators/parameters.py",
    "tatml/_learning/samples.py",
    "tatml/_sharding/chunks.py",
    "tatml/_sharding/samples.py",
    "tatml/features/_columns.py",
    "tatml/features/_inputs.py",
}
SCALAR_TYPES = {"bool", "bool_", "float", "int", "str", "Integral", "Real"}
SETTINGS_TYPES = {"Compute", "CustomLoss", "Dykstra", "KernelMap", "Newton"}
# Types of this library that stand for an array.
SETTINGS_TYPES |= {"SpanFactor", "SpanResult", "SparseBlock", "SparseRows"}
SETTINGS_TYPES |= {"AllPairs", "Pairs", "Solver"}
# Terms of pairs in memory, which have more members than the protocol of all terms.
SETTINGS_TYPES |= {"PairTerm", "PairsAtPoint"}


def type_names(node):
    """The names in the second argument of isinstance: int, numbers.Real, (int, str), int | str."""
    if isinstance(node, ast.Tuple):
        return {name for element in node.elts for name in type_names(element)}
    if isinstance(node, ast.BinOp):
        return type_names(node.left) | type_names(node.right)
    return {ast.unparse(node).rpartition(".")[2]}


def looks_at_an_array(node):
    match node:
        case ast.Attribute(attr="ndim"):
            return True
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, types]):
            return not type_names(types) <= SCALAR_TYPES | SETTINGS_TYPES
    return False


def lines_that_look_at_arrays(source):
    return [node.lineno for node in ast.walk(ast.parse(source)) if looks_at_an_array(node)]


def test_only_the_edge_looks_at_arrays():
    below = [path for path in SOURCES if source_id(path) not in LOOKS_AT_TYPES]
    found = {source_id(path): lines_that_look_at_arrays(read(path)) for path in below}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    ["x.ndim", "np.ndim(x)", "isinstance(x, np.ndarray)", "isinstance(x, (str, Blocks))"],
)
def test_the_search_finds_what_looks_at_arrays(source):
    assert lines_that_look_at_arrays(source) == [1]


@pytest.mark.parametrize("source", ["isinstance(x, str)", "isinstance(x, int | numbers.Real)"])
def test_the_search_lets_scalars_pass(source):
    assert lines_that_look_at_arrays(source) == []


# Rule 2: the equation is cited at the line, and exists

LABEL = r"\([\w.*'′-]+\)"
CITATION = re.compile(rf"\btheory(?:\.md)?,?\s+({LABEL}(?:(?:,| and|, and)\s+{LABEL})*)")


def cited_labels(text):
    return [label for group in CITATION.findall(text) for label in re.findall(LABEL, group)]


def test_cited_equations_exist():
    theory = read(ROOT / "docs" / "theory.md")
    cited = {(source_id(path), label) for path in SOURCES for label in cited_labels(read(path))}
    assert [place for place in sorted(cited) if f"**{place[1]}**" not in theory] == []


def test_citations_are_found():
    assert cited_labels("x = 1  # theory (R)") == ["(R)"]
    assert cited_labels("# theory (P), (D) and (Gap2): see (there)") == ["(P)", "(D)", "(Gap2)"]
    assert cited_labels("docs/theory.md, (Itml).") == ["(Itml)"]


def test_the_source_cites_the_theory():
    assert any(cited_labels(read(source)) for source in SOURCES)


# Sizes: what a reader has to hold in mind

LONGEST_FUNCTION, MOST_PARAMETERS = 40, 8


def body_lines(function, lines):
    """The lines of code of a function: neither its signature nor docstrings, comments, blanks."""
    texts = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    left_out = {line for node in texts for line in range(node.lineno, node.end_lineno + 1)}
    body = range(function.body[0].lineno, function.end_lineno + 1)
    code = [lines[line - 1].strip() for line in body if line not in left_out]
    return sum(bool(line) and not line.startswith("#") for line in code)


def too_large(path):
    text = read(path)
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            place = f"{source_id(path)}:{node.lineno} {node.name}"
            arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            count = len([a for a in arguments if a.arg not in ("self", "cls")])
            if (size := body_lines(node, lines)) > LONGEST_FUNCTION:
                yield f"{place}: {size} lines of code"
            is_private = node.name.startswith("_") and node.name != "__init__"
            if is_private and count > MOST_PARAMETERS:
                yield f"{place}: {count} parameters"


def test_functions_and_signatures_are_short():
    assert [line for path in SOURCES for line in too_large(path)] == []


def test_what_is_too_large_is_found(tmp_path, monkeypatch):
    path = ROOT / "src" / "tatml" / "made_up.py"
    long = "def long():\n" + "    x = 1\n" * 41
    wide = "def _wide(a, b, c, d, *, e, f, g, h, i):\n    pass\n"
    monkeypatch.setattr(f"{__name__}.read", lambda path: long + wide)
    found = [line.split(": ")[1] for line in too_large(path)]
    assert found == ["41 lines of code", "9 parameters"]


# Public names, documentation and version


MOST_CLASSES, MOST_MEMBERS = 4, 12
ESTIMATORS = [value for value in vars(tatml).values() if inspect.isclass(value)]
ESTIMATORS = [value for value in ESTIMATORS if issubclass(value, BaseEstimator)]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators_have_few_ancestors(estimator):
    own = [base.__name__ for base in estimator.__mro__ if base.__module__.startswith("tatml")]
    assert len(own) <= MOST_CLASSES, own


def protocols(tree):
    """Yield the protocols of a module with the number of their members."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(b) for b in node.bases):
            members = [n for n in node.body if isinstance(n, ast.FunctionDef | ast.AnnAssign)]
            yield node.name, len(members)


def test_protocols_have_few_members():
    found = [item for path in SOURCES for item in protocols(ast.parse(read(path)))]
    assert len(found) > 3
    assert [item for item in found if item[1] > MOST_MEMBERS] == []


# The only objects of others whose attributes are set, and why.
FOREIGN = {
    "warnings.showwarning": "The documented way to print warnings, inside catch_warnings.",
    **dict.fromkeys(
        (
            "tags.classifier_tags.multi_class",
            "tags.input_tags.allow_nan",
            "tags.input_tags.categorical",
            "tags.input_tags.pairwise",
            "tags.input_tags.positive_only",
            "tags.input_tags.three_d_array",
            "tags.input_tags.two_d_array",
            "tags.requires_fit",
            "tags.target_tags.multi_output",
            "tags.target_tags.required",
            "tags.transformer_tags.preserves_dtype",
        ),
        "Each class changes the tags that its base class has made for it, as scikit-learn asks.",
    ),
}
SETTERS = {"setattr", "delattr", "__setattr__", "__delattr__"}


def own_names(function):
    """The names of a function for objects of its own class: self, cls, and those it makes there."""
    names = {"self", "cls"}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                made = ast.unparse(call)
                if made == "copy(self)" or made.startswith(("cls(", "cls.__new__(")):
                    names.add(name)
    return names


def foreign_attributes(tree):
    """Yield the lines that set or delete an attribute of an object that is not the function's own.

    Only self, cls and new objects of the same class are. An attribute of their attributes is not.
    """
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        own = own_names(function)
        for node in ast.walk(function):
            match node:
                case ast.Attribute(value=owner, ctx=ast.Store() | ast.Del()):
                    pass
                case ast.Call(
                    func=ast.Name(id=name) | ast.Attribute(attr=name), args=[owner, *_]
                ) if name in SETTERS:
                    pass
                case _:
                    continue
            if ast.unparse(owner) not in own and ast.unparse(node) not in FOREIGN:
                yield node.lineno, ast.unparse(node)


def test_no_module_sets_attributes_of_objects_that_it_does_not_own():
    found = {source_id(path): list(foreign_attributes(ast.parse(read(path)))) for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "model.x_ = 1",
        "del model.x_",
        "made = g(); made.x = 1",
        "self.part.x = 1",
        "model.x += 1",
        "setattr(model, 'x', 1)",
        "object.__setattr__(model, 'x', 1)",
    ],
)
def test_what_sets_attributes_of_other_objects_is_found(line):
    source = f"def f(self, model):\n    {line}"
    assert len(list(foreign_attributes(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "self.x_ = 1",
        "object.__setattr__(self, 'x', 1)",
        "new = cls.__new__(cls); new.x = 1",
        "new = copy(self); new.x = 1",
    ],
)
def test_a_class_may_set_attributes_of_its_own_objects(line):
    assert list(foreign_attributes(ast.parse(f"def f(self):\n    {line}"))) == []


def test_every_exception_is_needed():
    text = "\n".join(map(read, SOURCES))
    assert [place for place in FOREIGN if f"{place} = " not in text] == []


def test_private_modules_list_no_names():
    private = [path for path in SOURCES if "/_" in source_id(path) and path.stem != "__init__"]
    assert [source_id(path) for path in private if "__all__ =" in read(path)] == []


def test_public_names():
    listed = {module: sorted(importlib.import_module(module).__all__) for module in PUBLIC}
    assert listed == {module: sorted(names.split()) for module, names in PUBLIC.items()}


def test_every_other_module_is_private_by_name():
    """The modules of `tatml_paper` are private whatever their names: the package is public."""
    of_the_library = [name for name in MODULES if not name.startswith("tatml_paper.")]
    assert {name for name in of_the_library if "._" not in name} == set(PUBLIC)


def undocumented(name):
    """Return the names in a public object that lack a docstring or an example."""
    module, _, own = name.rpartition(".")
    public = getattr(importlib.import_module(module), own)
    if "Examples\n--------\n>>> " not in (inspect.getdoc(public) or ""):
        yield f"{name}: no example"
    for attribute, value in vars(public).items() if inspect.isclass(public) else ():
        is_field = attribute in inspect.get_annotations(public)  # a parameter of a dataclass
        by_protocol = getattr(tatml.losses.PairLoss, attribute, None)  # documents the losses
        documented = inspect.getdoc(value) or inspect.getdoc(by_protocol)
        if not (is_field or attribute.startswith("_") or documented):
            yield f"{name}.{attribute}: no docstring"


def test_public_objects_are_documented_with_an_example():
    names = sorted({*PUBLIC_OBJECTS} - CONSTANTS)
    assert [line for name in names for line in undocumented(name)] == []


def test_examples_run():
    pytest.importorskip("skops")
    modules = [importlib.import_module(name) for name in MODULES]
    assert [module.__name__ for module in modules if not module.__doc__] == []
    results = {module.__name__: doctest.testmod(module) for module in modules}
    assert [name for name, result in results.items() if result.failed] == []
    assert sum(result.attempted for result in results.values()) > 100


def test_the_version_has_one_source():
    project = tomllib.loads(read(ROOT / "pyproject.toml"))
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tatml.__version__"}


def test_the_citation_names_the_version():
    citation = read(ROOT / "CITATION.cff")
    assert re.findall(r"^version: (\S+)$", citation, re.MULTILINE) == [tatml.__version__]


@pytest.mark.parametrize("package", ["tatml", "tatml_paper"])
def test_the_packages_are_typed(package):
    assert (ROOT / "src" / package / "py.typed").is_file()


# Dataclasses


def test_dataclasses_that_hold_arrays_are_compared_by_identity():
    """The generated == would compare arrays entry by entry, and there would be no hash."""
    classes = {
        value
        for name in MODULES
        if name != "tatml.__main__"
        for value in vars(importlib.import_module(name)).values()
        if inspect.isclass(value) and is_dataclass(value) and value.__module__.startswith("tatml")
    }
    estimators = {value for value in classes if issubclass(value, BaseEstimator)}
    assert not any(kind.__dataclass_params__.eq for kind in estimators)
    assert not any(kind.__dataclass_params__.repr for kind in estimators)  # it is scikit-learn's
    others = classes - estimators
    by_identity = {value.__name__ for value in others if not value.__dataclass_params__.eq}
    assert by_identity == {
        *("AllPairs", "Piece", "DatasetLayout", "PairGraph", "Pairs", "Iterate", "Result"),
        *("MetricPrior", "ReducedBlocks", "Span", "SpanFactor", "SpanResult"),
        *("FeatureShares", "ImportanceComparison", "PermutationImportance"),
        *("SparseRows", "SvecRows"),
        *("Column", "Comparisons", "LinkedPairs", "Monitor", "Axes", "Identities"),
        *(
            "Plda",
            "HeldOutRelative",
            "Task",
            "Settings",
            "Prepared",
            "Metric",
            "FittedPart",
            "KnownSamples",
            "Rounds",
            "Candidate",
        ),
        *("BlockShareDisplay", "ConvergenceDisplay", "EmbeddingDisplay", "MetricDisplay"),
        *("PairDistanceDisplay", "PlanDisplay", "ReliabilityDisplay"),
    }
