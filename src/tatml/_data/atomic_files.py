"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

NEW_FILE = 0o666  # Permissions of new files, from which the system takes those of the umask.
OWNER_ONLY = 0o600  # Permissions of a temporary file that will replace another file.


def checked_output(path: str | os.PathLike, name: str | None = None) -> Path:
    """Return the file that an output to `path` creates or replaces.

    A link stands for its target: the target changes and the link stays.

    Parameters
    ----------
    path : str or path
        Where to write.
    name : str, optional
        The name of the path in error messages; the path itself by default.

    Raises
    ------
    OSError
        If the folder does not exist, or if `path` is a folder, a device, a pipe, or a link to a
        file that does not exist.
    """
    path = Path(path)
    name = str(path) if name is None else f"{name}: {path}"
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{name}: expected an existing folder {path.parent}, got none")
    if path.is_symlink() and not path.exists():
        raise FileNotFoundError(
            f"{name}: expected a file or an unused name, got a link to {os.readlink(path)}, which "
            "does not exist; remove the link first"
        )
    if path.is_dir():
        raise IsADirectoryError(f"{name}: expected a file or an unused name, got a folder")
    if path.exists() and not path.is_file():
        raise OSError(f"{name}: expected a file or an unused name, got a device or a pipe")
    return path.resolve() if path.is_symlink() else path


@contextmanager
def written_atomically(path: str | os.PathLike, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file for writing that takes the name `path` when the block ends.

    After an error, a full disk or a killed process, `path` is what it was before. A killed process
    may leave a file ``.tatml-*.part`` in the folder, which nothing reads.

    Parameters
    ----------
    path : str or path
        Where to write; see `checked_output`.
    overwrite : bool, default=True
        Whether to replace an existing file, and keep its permissions; until then, only the owner
        can read the temporary file. Otherwise a file that another process has created meanwhile is
        kept, and FileExistsError is raised.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_atomically(Path(folder, "numbers.txt")) as file:
    ...         _ = file.write(b"1 2 3")
    ...     Path(folder, "numbers.txt").read_text()
    '1 2 3'
    """
    target = checked_output(path)
    temporary = target.with_name(f".tatml-{secrets.token_hex(8)}.part")
    try:
        mode = OWNER_ONLY if target.exists() else NEW_FILE
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            with suppress(FileNotFoundError):  # of the file that is replaced, if there is one
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            os.replace(temporary, target)
        else:
            _rename_to_unused(temporary, target)
    except OSError as error:
        _remove(temporary)
        if error.errno is None:  # NumPy raises such errors when the disk is full
            raise OSError(f"{path}: {error}") from error
        if error.filename in (None, str(temporary)):
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise
    except BaseException:
        _remove(temporary)
        raise


def _remove(path: Path) -> None:
    with suppress(OSError):
        os.unlink(path)


def _rename_to_unused(source: Path, target: Path) -> None:
    """Rename a file, unless the new name is taken; atomically where hard links exist."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        os.replace(source, target)
    else:
        os.unlink(source)


def write_arrays(out: Path, arrays: Mapping[str, NDArray], overwrite: bool) -> None:
    """Write arrays to an npz file, completely or not at all."""
    # Not numpy.savez: before NumPy 2.1 an archive that fails is closed late, with a message.
    with written_atomically(out, overwrite) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
