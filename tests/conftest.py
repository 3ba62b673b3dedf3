import os
from importlib import import_module

import pytest
from hypothesis import settings

settings.register_profile("tatml", deadline=None, max_examples=60, derandomize="CI" in os.environ)
settings.load_profile("tatml")


@pytest.fixture
def closed_figures():
    """Close all figures of Matplotlib after a test."""
    yield
    import_module("matplotlib.pyplot").close("all")
