"""The versions that a record was made with: the libraries, and the commit of this one."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from tatml import __version__


def collect_versions() -> dict[str, Any]:
    """Return names and versions; the commit is None if the source is not in its own repository.

    Examples
    --------
    >>> sorted(collect_versions())
    ['commit', 'cores', 'machine', 'numpy', 'python', 'scikit-learn', 'scipy', 'tatml']
    """
    return {
        "tatml": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }


def _commit() -> str | None:
    source = Path(__file__).resolve().parents[1]
    root = _git(source, "rev-parse", "--show-toplevel")
    if root is None or Path(root) / "src" != source:
        return None
    changed = _git(source, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return f"{_git(source, 'rev-parse', 'HEAD')}{'-changed' if changed else ''}"


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        finished = subprocess.run(
            ["git", "-C", folder, *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return finished.stdout.strip() if finished.returncode == 0 else None
