"""Run the Python blocks of the tutorials, and show what they print and draw below them.

The blocks of a page run in order in one namespace, with warnings as errors.
tests/test_docs_paths.py runs the same blocks and checks what they print.
"""

import contextlib
import io
import os
import platform
import re
import tempfile
import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FOLDER = "tutorials/"
PICTURES = "_generated"


def blocks_of(text):
    """Return the Python blocks of a page."""
    return BLOCK.findall(text)


class Session:
    """One namespace in which the blocks of a page run."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.names = {"__name__": "__main__"}
        self.n_pictures = 0

    def run(self, code):
        """Run a block; return what it printed, and the names of its pictures."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, f"<{self.name}>", "exec"), self.names)
        return printed.getvalue(), list(self._pictures())

    def _pictures(self):
        from matplotlib import pyplot as plt

        for number in plt.get_fignums():
            self.n_pictures += 1
            name = f"{self.name.replace('/', '_')}_{self.n_pictures}.png"
            plt.figure(number).savefig(self.folder / name, dpi=110, bbox_inches="tight")
            yield name
        plt.close("all")


def with_results(text, session):
    """Return the page with what each block printed and drew."""

    def shown(match):
        printed, pictures = session.run(match[1])
        parts = [match[0]]
        if printed:
            parts.append(f"```{{code-block}} text\n:class: printed\n\n{printed.rstrip()}\n```")
        alt = "What the code above draws"
        parts += [f"![{alt}](/{PICTURES}/{name})" for name in pictures]
        return "\n\n".join(parts)

    return BLOCK.sub(shown, text)


def made_by():
    """Return the sentence that says when the code ran, and with what."""
    packages = ("tatml", "numpy", "scikit-learn")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    python = platform.python_version()
    return (
        f"*The numbers and pictures below the code were made by the code of this page, on {day}, "
        f"with {versions} and Python {python}.*"
    )


def run_page(app, docname, source):
    """Put the results into a page that Sphinx has just read."""
    if not docname.startswith(FOLDER) or not blocks_of(source[0]):
        return
    import matplotlib

    matplotlib.use("Agg")
    folder = Path(app.srcdir) / PICTURES
    folder.mkdir(exist_ok=True)
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        for category in (UserWarning, RuntimeWarning, FutureWarning):
            warnings.simplefilter("error", category)
        os.chdir(scratch)  # a page may write files
        try:
            source[0] = with_results(source[0], Session(docname, folder))
        finally:
            os.chdir(home)
    source[0] += f"\n\n{made_by()}\n"


def setup(app):
    """Register the extension."""
    app.connect("source-read", run_page)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
