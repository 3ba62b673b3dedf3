"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file for writing that takes the name `path` when the block ends.

    After an error or a full disk, `path` is what it was before; the error names it. A file that is
    replaced keeps its permissions, and a link its target; until then, only the owner can read the
    new file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replaced_whole(Path(folder, "numbers.txt")) as file:
    ...         _ = file.write(b"1 2 3")
    ...     os.listdir(folder)
    ['numbers.txt']
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(f".tatml-{secrets.token_hex(8)}.part")
    try:
        mode = 0o600 if target.exists() else 0o666  # of the latter the system takes the umask
        with open(part, "xb", opener=partial(os.open, mode=mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(target, part)
        os.replace(part, target)
    except OSError as error:
        if error.errno is None:  # NumPy raises such errors when the disk is full
            raise OSError(f"{path}: {error}") from error
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file of text, whole or not at all."""
    with replaced_whole(path) as file:
        file.write(text.encode())
