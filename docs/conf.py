"""How Sphinx builds the site: `make docs` calls it."""

import inspect
import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import tatml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

from api_reference import write_reference  # noqa: E402

project = "tatml"
author = "The tatml developers"
copyright = f"{datetime.now(UTC):%Y}, {author}"
version = release = tatml.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "run_pages",
    "site_links",
    "plain_docstrings",
]
exclude_patterns = ["_ext", "_templates", "search.md", "gallery/**/*.ipynb"]
templates_path = ["_templates"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
default_role = "code"
smartquotes = False  # docstrings quote values of parameters
toc_object_entries_show_parents = "hide"
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"sklearn\..*")]  # scikit-learn's site would need the network
suppress_warnings = [
    "config.cache",  # own_members is a function
    "misc.highlighting_failure",  # "…" stands for code that a page leaves out
]

# Markdown, written for GitHub: its anchors and its formulas.
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# The API reference, from the docstrings.
write_reference(HERE / "api")
autodoc_typehints = "none"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False


def own_members(fullname):
    """Return the public methods and properties of a class which this package defines."""
    module, _, name = fullname.rpartition(".")
    cls = getattr(import_module(module), name)
    found = {"methods": [], "properties": []}
    for member in sorted(dir(cls)):
        if member.startswith("_"):
            continue
        static = inspect.getattr_static(cls, member)
        value = getattr(static, "fget", None) or getattr(static, "__func__", static)
        if not getattr(value, "__module__", "").startswith("tatml"):
            continue
        if isinstance(static, property) and inspect.getdoc(static):
            found["properties"].append(member)
        elif inspect.isroutine(value) and inspect.getdoc(getattr(cls, member, None)):
            found["methods"].append(member)
    return found


autosummary_context = {"own_members": own_members}

# The gallery runs every examples/plot_*.py.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!plot_)",
    "doc_module": ("tatml",),
    "reference_url": {"tatml": None},
    "backreferences_dir": "gallery/backreferences",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "min_reported_time": 5,
}

html_theme = "pydata_sphinx_theme"
html_title = "tatml"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = "%Y-%m-%d"
html_theme_options = {
    "logo": {"text": "tatml", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "footer_start": ["copyright", "last-updated"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "changelog": [], "install": [], "limits": []}
