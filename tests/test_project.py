"""The project keeps its own rules: see CONTRIBUTING.md."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

import tatml

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src" / "tatml").rglob("*.py"))
MODULES = ["tatml", *(module.name for module in pkgutil.walk_packages(tatml.__path__, "tatml."))]

# The public surface: what these modules list in `__all__`. CONTRIBUTING.md says how it may change.
PUBLIC = {
    "tatml": """
        AllPairs Blocks Checkpoint Compute Dykstra Euclidean GMML ITML Maz Newton PAPER PairChunks
        PairThreshold Result Status TATML TATMLCV TATMLPairs __version__ learn_metric
        datasets features inspection losses plotting solvers
    """,
    "tatml.datasets": """
        load_brodatz load_digits_images load_eth80 load_virus make_filter_bank make_spd_classes
        make_textures
    """,
    "tatml.experiments": "DATASETS METHODS read_records run write_tables",
    "tatml.features": """
        BlockScaler BlockUnion CovarianceDescriptor FilterBankCovariance LogEuclidean SPDPower
        Unfold Vectorize
    """,
    "tatml.inspection": "error_rates threshold_interval",
    "tatml.io": "Model load_model save_model",
    "tatml.losses": "BurgLoss PairLoss SquaredHinge",
    "tatml.plotting": "BlockShareDisplay ConvergenceDisplay MetricDisplay PairDistanceDisplay",
    "tatml.solvers": "Dykstra Iterate Newton Result Solver Status",
}
PUBLIC_OBJECTS = [
    f"{module}.{name}"
    for module, names in PUBLIC.items()
    for name in names.split()
    if f"{module}.{name}" not in PUBLIC and name != "__version__"
]
CONSTANTS = {"tatml.PAPER", "tatml.experiments.DATASETS", "tatml.experiments.METHODS"}


def source_id(path):
    return path.relative_to(ROOT / "src").as_posix()


# Rule 10: only the edge looks at a type or at ndim

LOOKS_AT_TYPES = {
    "tatml/_data/blocks.py",
    "tatml/_data/pairs.py",
    "tatml/_data/storage.py",
    "tatml/_estimators/given_labels.py",
    "tatml/_estimators/inputs.py",
    "tatml/_sharding/chunks.py",
    "tatml/_sharding/samples.py",
    "tatml/features/_inputs.py",
}
SCALAR_TYPES = {"bool", "bool_", "float", "int", "str", "Integral", "Real"}
SETTINGS_TYPES = {"Compute", "Dykstra", "Newton"}


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


@pytest.mark.parametrize(
    "source",
    [path for path in SOURCES if source_id(path) not in LOOKS_AT_TYPES],
    ids=source_id,
)
def test_only_the_edge_looks_at_arrays(source):
    assert lines_that_look_at_arrays(source.read_text(encoding="utf-8")) == []


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


@pytest.mark.parametrize("source", SOURCES, ids=source_id)
def test_cited_equations_exist(source):
    theory = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    cited = cited_labels(source.read_text(encoding="utf-8"))
    assert [label for label in cited if f"**{label}**" not in theory] == []


def test_citations_are_found():
    assert cited_labels("x = 1  # theory (R)") == ["(R)"]
    assert cited_labels("# theory (P), (D) and (Gap2): see (there)") == ["(P)", "(D)", "(Gap2)"]
    assert cited_labels("docs/theory.md, (Itml).") == ["(Itml)"]


def test_the_source_cites_the_theory():
    assert any(cited_labels(source.read_text(encoding="utf-8")) for source in SOURCES)


# Public names, documentation and version


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module):
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module].split())


@pytest.mark.parametrize("module", MODULES)
def test_every_other_module_is_private_by_name(module):
    is_private = any(part.startswith("_") for part in module.split("."))
    assert is_private != (module in PUBLIC)


@pytest.mark.parametrize("name", sorted({*PUBLIC_OBJECTS} - CONSTANTS))
def test_public_objects_are_documented_with_an_example(name):
    module, _, own = name.rpartition(".")
    public = getattr(importlib.import_module(module), own)
    documentation = inspect.getdoc(public)
    assert "Examples\n--------\n>>> " in documentation
    for attribute, value in vars(public).items() if inspect.isclass(public) else ():
        field = attribute in inspect.get_annotations(public)  # a parameter of a dataclass
        by_protocol = getattr(tatml.losses.PairLoss, attribute, None)  # documents the losses
        documented = inspect.getdoc(value) or inspect.getdoc(by_protocol)
        assert field or attribute.startswith("_") or documented, attribute


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    assert module.__doc__
    assert doctest.testmod(module).failed == 0


def test_the_version_has_one_source():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tatml.__version__"}


def test_the_citation_names_the_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", citation, re.MULTILINE) == [tatml.__version__]


def test_the_package_is_typed():
    assert (ROOT / "src" / "tatml" / "py.typed").is_file()
