"""Files that are whole or not there: written under another name, renamed when the last byte is on disk."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chop.files.errors import FileError


@contextmanager
def whole(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """A name to write under; what was written there becomes ``path`` at the end, or nothing is left.

    Errors of the system become one sentence that names ``path``.
    """
    refuse(path, overwrite)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    except OSError as error:
        raise cannot_write(path, error) from None
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        _to_disk(partial)
        partial.chmod(0o666 & ~_umask())
        partial.replace(path)
        _to_disk(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        partial.unlink(missing_ok=True)


def refuse(path: Path, overwrite: bool = False) -> None:
    """Say at once, before any work, why a file cannot be written there."""
    if path.is_dir():
        raise FileError(f"{path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise FileError(f"{path} is not a file that can be replaced; choose another name")
    if path.exists() and not overwrite:
        raise FileError(f"{path} exists already; choose another name, or --force to replace it")
    if not path.parent.is_dir():
        raise FileError(f"there is no folder {path.parent} to write {path.name} into")
    if not os.access(path.parent, os.W_OK):
        raise FileError(f"{path} cannot be written: no permission to write into {path.parent}")


def cannot_write(path: Path | str, error: OSError) -> FileError:
    """One sentence from an error of the system, or of a library that wraps one."""
    number = error.errno
    wrapped = re.search(r"errno = (\d+)", str(error))
    if number is None and wrapped:
        number = int(wrapped[1])
    reason = os.strerror(number) if number else str(error).splitlines()[0]
    cure = "; make room and repeat the command" if number in _NO_ROOM else ""
    return FileError(f"{path} cannot be written: {reason}{cure}")


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


__all__ = ["cannot_write", "refuse", "whole"]
