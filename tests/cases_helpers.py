"""One test on many cases: a single item, and an error that names the case."""

from contextlib import ExitStack
from inspect import Signature, signature


def each_case(names, cases):
    """Call a test once per case; the arguments are those of `pytest.mark.parametrize`.

    The fixture `tmp_path` is an empty folder per case, and `monkeypatch` is undone after each.
    """
    names, cases = (names,) if isinstance(names, str) else tuple(names), list(cases)

    def decorate(test):
        def run(**fixtures):
            for i, case in enumerate(cases):
                values = dict(zip(names, (case,) if len(names) == 1 else case, strict=True))
                try:
                    with ExitStack() as stack:
                        test(**_renew(fixtures, i, stack), **values)
                except BaseException as error:
                    error.add_note(f"case {i} of {test.__name__}: {values}")
                    raise

        parameters = signature(test).parameters
        assert set(names) <= set(parameters), f"{test.__name__} has no argument {names}"
        run.__signature__ = Signature([parameters[key] for key in parameters if key not in names])
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return decorate


def _renew(fixtures, i, stack):
    renewed = dict(fixtures)
    if "tmp_path" in fixtures:
        renewed["tmp_path"] = fixtures["tmp_path"] / f"case_{i}"
        renewed["tmp_path"].mkdir()
    if "monkeypatch" in fixtures:
        renewed["monkeypatch"] = stack.enter_context(fixtures["monkeypatch"].context())
    return renewed
