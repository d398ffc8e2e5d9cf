"""Files that are whole or not there: written under another name, renamed when the last byte is on disk."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chop.core.errors import ChopError


@contextmanager
def atomic_path(
    path: Path, error: type[ChopError], overwrite: bool = False, partial: Path | None = None
) -> Iterator[Path]:
    """A name to write under; what was written there becomes ``path`` at the end, or nothing is left.

    The name is new, or ``partial``, which lies on the same disk. What the system refuses is raised as
    ``error``, one sentence that names ``path``.
    """
    check_writable(path, error, overwrite)
    with errors_named(path, error):
        under = _fresh(path) if partial is None else partial
        try:
            yield under
            under.chmod(0o666 & ~_umask())
            rename_durably(under, path)
        finally:
            under.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes, error: type[ChopError], overwrite: bool = False) -> Path:
    """A file with this content, in a folder that is made where there is none."""
    make_folder(path.parent, error)
    with atomic_path(path, error, overwrite) as partial:
        partial.write_bytes(content)
    return path


def write_text(path: Path, text: str, error: type[ChopError], overwrite: bool = False) -> Path:
    """The same for a text, in UTF-8."""
    return write_bytes(path, text.encode(), error, overwrite)


def make_folder(path: Path, error: type[ChopError]) -> Path:
    """The folder, made where it is missing; raised as ``error`` if it cannot be."""
    with errors_named(path, error):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def errors_named(path: Path, error: type[ChopError]) -> Iterator[None]:
    """What the system refuses is raised as ``error``: one sentence that names ``path``, and the cure."""
    try:
        yield
    except OSError as problem:
        raise error(_sentence(path, problem)) from problem


def rename_durably(partial: Path, path: Path) -> None:
    """Give a finished file its name, for good: both are on disk before this returns."""
    _to_disk(partial)
    partial.replace(path)
    _to_disk(path.parent)


def check_writable(path: Path, error: type[ChopError], overwrite: bool = False) -> None:
    """Say at once, before any work, why a file cannot be written there."""
    if path.is_dir():
        raise error(f"{path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise error(f"{path} is not a file that can be replaced; choose another name")
    if path.exists() and not overwrite:
        raise error(f"{path} exists already; choose another name or ask to replace it (--force)")
    if not path.parent.is_dir():
        raise error(f"there is no folder {path.parent} to write {path.name} into")
    if not os.access(path.parent, os.W_OK):
        raise error(f"{path} cannot be written: no permission to write into {path.parent}")


class NewHdf5:
    """An HDF5 file to be filled, ``with NewHdf5(path) as new: new.file[...] = ...``; ``options`` are h5py's.

    After a write that failed (a full disk) HDF5 may crash the whole process when it lets go of the file. So
    it does not hear of one: the failure is kept, and raised by `check` or at the end.
    """

    def __init__(self, path: Path, **options: Any) -> None:
        import h5py

        self._disk = _Disk(path, "w+b")
        self.file = h5py.File(self._disk, "w", **options)

    def check(self) -> None:
        """Raise what went wrong so far; to be called now and then, so that no work is done in vain."""
        self.file.flush()
        self._disk.check()

    def __enter__(self) -> NewHdf5:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.file.close()
            if kind is None:
                self._disk.check()
        finally:
            self._disk.close()


class _Disk(io.FileIO):
    """A file that remembers its first failure and pretends that all went well."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        rest = memoryview(data).cast("B")
        try:
            while rest and self.failure is None:
                rest = rest[super().write(rest) :]
        except OSError as problem:
            self.failure = problem
        return memoryview(data).nbytes

    def truncate(self, size: int | None = None, /) -> int:
        try:
            return super().truncate(size)
        except OSError as problem:
            self.failure = self.failure or problem
            return self.tell() if size is None else size

    def check(self) -> None:
        """Raise the failure, if there was one."""
        if self.failure is not None:
            raise self.failure


def _fresh(path: Path) -> Path:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    os.close(handle)
    return Path(name)


def _sentence(path: Path, problem: OSError) -> str:
    cure = "; make room and repeat the command" if problem.errno in _NO_ROOM else ""
    reason = problem.strerror or problem
    return f"{path} cannot be written: {reason}{cure}"


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _to_disk(path: Path) -> None:
    folder = path.is_dir()
    if folder and os.name == "nt":  # Windows opens no folders, and no file for reading is flushed there
        return
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
