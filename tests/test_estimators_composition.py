"""Estimators are put together so that none inherits a method that it cannot answer."""

import ast
import inspect
import textwrap

import pytest
from estimators_helpers import labelled

from tatml import GMML, ITML, TATML, TATMLCV, Euclidean, Maz, PairThreshold, TATMLPairs

FEW = {"n_pairs_per_class": 20, "random_state": 0}
FITTED = {
    TATML: lambda: TATML(**FEW).fit(*labelled()),
    TATMLCV: lambda: TATMLCV([1.0], cv=2, **FEW).fit(*labelled()),
    Maz: lambda: Maz(threshold="search", cv=2, **FEW).fit(*labelled()),
    ITML: lambda: ITML(**FEW).fit(*labelled()),
    GMML: lambda: GMML(**FEW).fit(*labelled()),
    Euclidean: lambda: Euclidean(**FEW).fit(*labelled()),
    TATMLPairs: lambda: TATMLPairs().fit(*pairs()),
    PairThreshold: lambda: PairThreshold().fit(*pairs()),
}


def pairs():
    X, _ = labelled()
    return X[:40].reshape(20, 2, -1), [1, -1] * 10


def own_methods(estimator):
    """(class, name, source) of all methods that this package gives to an estimator."""
    for owner in estimator.__mro__:
        if not owner.__module__.startswith("tatml."):
            continue
        for name, member in vars(owner).items():
            function = member.fget if isinstance(member, property) else member
            if inspect.isfunction(function):
                yield owner, name, textwrap.dedent(inspect.getsource(function))


def attributes_read(source):
    """The names that a method reads from self, by a dot or by getattr."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                found.add(name)
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=name), *_]):
                if ast.unparse(owner) == "self":
                    found.add(name)
    return found


def test_what_is_read_is_found():
    source = "def f(self):\n    self.a, b = self.b.c, getattr(self, 'd', 3)\n    other.e"
    assert attributes_read(source) == {"b", "d"}


@pytest.mark.parametrize("estimator", FITTED, ids=lambda kind: kind.__name__)
def test_methods_read_only_what_the_estimator_has(estimator):
    """A parameter of its constructor, a member of its class, or an attribute set by fit."""
    parameters, set_by_fit = set(estimator._get_param_names()), set(vars(FITTED[estimator]()))
    unknown = {
        f"{owner.__name__}.{method}: self.{name}"
        for owner, method, source in own_methods(estimator)
        for name in attributes_read(source)
        if name not in parameters | set_by_fit and not hasattr(estimator, name)
    }
    assert unknown == set()


@pytest.mark.parametrize("estimator", [TATMLCV, Maz, ITML])
def test_what_holds_a_model_does_not_inherit_from_it(estimator):
    assert not issubclass(estimator, TATML)
    assert not hasattr(estimator, "_problem")


@pytest.mark.parametrize("estimator", FITTED, ids=lambda kind: kind.__name__)
def test_no_limit_of_iterations_beside_that_of_the_solver(estimator):
    names = estimator._get_param_names()
    assert "max_iter" not in names
    assert ("solver" in names) == hasattr(FITTED[estimator](), "result_")
