"""Python files of a user's own, such as a task or a model: run like scripts, once, and left as they were.

A file is run under a name made from its path, so that what it defines can be sent to worker processes that
ran it too. Files beside it can be imported. No byte code is written anywhere near it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from chop.core.errors import ChopError

_run_before: dict[str, tuple[bytes, ModuleType]] = {}


def load_file(path: str | Path, error: type[ChopError]) -> ModuleType:
    """The module a file makes; it is run again only if it has changed since.

    Only give a file you trust. Whatever it raises becomes ``error``, one sentence with its file and line.
    """
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise error(f"there is no file {path}")
    if file.suffix != ".py":
        raise error(f"{path} is not a Python file: its name does not end with .py")
    stem = file.stem.encode("ascii", "replace").decode()
    name = f"chop_user_{stem}_{hashlib.sha256(os.fsencode(file)).hexdigest()[:8]}"
    try:
        source = file.read_bytes()
    except OSError as problem:
        raise error(f"{path} cannot be read: {problem.strerror}") from None
    known = _run_before.get(name)
    if known is not None and known[0] == source:
        return known[1]
    spec = spec_from_file_location(name, file, loader=_Uncached(name, str(file)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _beside_it(str(file.parent)):
            spec.loader.exec_module(module)
    except BaseException as problem:
        del sys.modules[name]
        if isinstance(problem, Exception | SystemExit):
            raise error(f"{path} failed when it was run {describe_error(problem)}") from problem
        raise
    _run_before[name] = (source, module)
    return module


class _Uncached(SourceFileLoader):
    """Neither reads nor writes byte code."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _Siblings:
    """Finds what lies beside users' files, without byte code.

    Their folders come before what is installed while such a file is run, as those of scripts do, and after it
    from then on: what a library imports later must not be a user's file that happens to have its name.
    """

    def __init__(self, first: bool) -> None:
        self._first = first

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Modules in those folders, and in packages there."""
        if path is None:
            folders: Sequence[str] = _running[-1:] if self._first else _folders
        else:
            folders = [folder for folder in path if _is_beside(folder)] if self._first else ()
        for folder in folders:
            spec = _finder(folder).find_spec(name)
            if spec is not None and (spec.loader is not None or not self._first):
                return spec  # any folder is a package without a loader: the last choice
        return None


_folders: list[str] = []
"""Where users' files lie, the latest first."""
_running: list[str] = []
"""Where those lie that are being run, the innermost last."""


@lru_cache(maxsize=64)
def _finder(folder: str) -> FileFinder:
    return FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_Uncached, SOURCE_SUFFIXES))


def _is_beside(folder: str) -> bool:
    inside = any(Path(folder).is_relative_to(known) for known in _folders)
    return inside and not installed(folder)  # an environment may lie beside a user's file


@contextmanager
def _beside_it(folder: str) -> Iterator[None]:
    """What lies in a folder can be imported, now first of all and later if nothing else has the name."""
    finders: list[object] = sys.meta_path  # type: ignore[assignment]
    for finder in _FINDERS:
        if finder not in finders:
            finders.insert(finders.index(PathFinder) if finder is _FINDERS[0] else len(finders), finder)
    _finder.cache_clear()  # a finder remembers what there was
    _folders[:] = [folder, *(other for other in _folders if other != folder)]
    _running.append(folder)
    try:
        yield
    finally:
        _running.pop()


_FINDERS = (_Siblings(first=True), _Siblings(first=False))


def error_location(error: BaseException) -> str:
    """Where a user's own code raised an error, such as "mine.py, line 12"; empty where none took part."""
    if isinstance(error, SyntaxError) and error.filename and _users(error.filename):
        return f"{Path(error.filename).name}, line {error.lineno}"
    lines = [
        f"{Path(frame.f_code.co_filename).name}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _users(frame.f_code.co_filename)
    ]
    return lines[-1] if lines else ""


def describe_error(error: BaseException) -> str:
    """An error of a user's own code, to end a sentence with: (what it is: what it says) at file, line."""
    where = error_location(error)
    return f"({_said(error)}) at {where}" if where else f"({_said(error)})"


def _said(error: BaseException) -> str:
    words = str(error.msg if isinstance(error, SyntaxError) else error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _users(filename: str) -> bool:
    return not filename.startswith("<") and not installed(filename)


@lru_cache(maxsize=1024)
def installed(filename: str) -> bool:
    """Whether a file belongs to this library, to the standard library or to an installed package."""
    if filename.startswith("<frozen "):
        return True
    path = Path(os.path.realpath(filename))
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts) or any(
        path.is_relative_to(root) for root in _installed_roots()
    )


@lru_cache(maxsize=1)
def _installed_roots() -> tuple[Path, ...]:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(Path(os.path.realpath(path)) for path in (*map(sysconfig.get_path, kinds), _HOME))


_HOME = str(Path(__file__).parents[1])
