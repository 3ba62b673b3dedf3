"""No estimator inherits a method that needs attributes which it does not have."""

import ast
import inspect
import textwrap

import pytest
from estimators_helpers import labelled, search_over

from tatml import GMML, ITML, TATML, TATMLCV, Euclidean, Maz, PairThreshold, TATMLPairs

FEW = {"n_pairs_per_class": 20, "random_state": 0}
MAKERS = {
    TATML: lambda: TATML(**FEW).fit(*labelled()),
    TATMLCV: lambda: search_over({"C": [1.0]}, cv=2, **FEW).fit(*labelled()),
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
    """Yield class, name and source of all methods of an estimator that tatml defines."""
    for owner in estimator.__mro__:
        if not owner.__module__.startswith("tatml."):
            continue
        for name, member in vars(owner).items():
            function = member.fget if isinstance(member, property) else member
            if inspect.isfunction(function) and function.__code__.co_filename != "<string>":
                yield owner, name, textwrap.dedent(inspect.getsource(function))


def attributes_read(source):
    """Return the attributes of self that a method reads, by a dot or by getattr."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                found.add(name)
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=name), *_]):
                if ast.unparse(owner) == "self":
                    found.add(name)
    return found


def test_attributes_that_are_read_are_found():
    source = "def f(self):\n    self.a, b = self.b.c, getattr(self, 'd', 3)\n    other.e"
    assert attributes_read(source) == {"b", "d"}


# What `calibrate_probability` sets; tests/test_probabilities.py holds who may read it when.
SET_LATER = {"likelihood_ratio_", "same_rate_"}


@pytest.mark.parametrize("estimator", MAKERS, ids=lambda kind: kind.__name__)
def test_methods_read_only_attributes_of_the_estimator(estimator):
    """Parameters of its constructor, members of its class, and attributes set by a fit or later.

    The only limit on iterations is that of the solver.
    """
    parameters, set_by_fit = set(estimator._get_param_names()), set(vars(MAKERS[estimator]()))
    assert "max_iter" not in parameters
    assert bool({"solver", "estimator"} & parameters) == ("result_" in set_by_fit)
    unknown = {
        f"{owner.__name__}.{method}: self.{name}"
        for owner, method, source in own_methods(estimator)
        for name in attributes_read(source)
        if name not in parameters | set_by_fit | SET_LATER and not hasattr(estimator, name)
    }
    assert unknown == set()


@pytest.mark.parametrize("estimator", [TATMLCV, Maz, ITML])
def test_estimators_with_an_inner_model_do_not_inherit_from_it(estimator):
    assert not issubclass(estimator, TATML), estimator
    assert not hasattr(estimator, "_build_problem"), estimator
