"""What a user names in one word: a frozen model, a program."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from chop.errors import ModelError
from chop.files.errors import FileError
from chop.model import FrozenModel
from chop.program import Program
from chop.text import MAX_CHARACTERS, parse


def choose_model(source: str) -> FrozenModel:
    """A bundled network by name, a weights file, or ``FILE.py:NAME``: a callable a Python file defines.

    A Python file is run, like any script of one's own: only give one you trust. ``NAME`` is ``model`` if
    it is left out.
    """
    path, _, name = source.partition(".py")
    if _ and (not name or name.startswith(":")):
        return _from_python(Path(f"{path}.py").expanduser(), name[1:] or "model")
    from chop.icon.weights import load

    return load(source)


def _from_python(path: Path, name: str) -> FrozenModel:
    if not path.is_file():
        raise ModelError(f"there is no file {path}")
    model = getattr(_run(path), name, None)
    if model is None:
        raise ModelError(f"{path} defines no {name}; write {path}:NAME with the name of your model")
    if not callable(model):
        raise ModelError(f"{name} in {path} is no model: it must be callable with a prompt")
    found: FrozenModel = model
    return found


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"chop_model_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))  # as if it were run as a script
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ModelError(f"{path} failed when it was run ({type(error).__name__}: {error})") from error
    finally:
        sys.path.pop(0)
    return module


def choose_program(source: str) -> Program:
    """A program by its name in `chop.programs`, from a text file, or by its text."""
    from chop.catalog import programs

    if source in programs:
        return programs[source]
    path = Path(source).expanduser()
    if path.suffix == ".txt" and "|" not in source:
        return parse(_read(path))
    return parse(source)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(MAX_CHARACTERS + 1).strip()
    except FileNotFoundError:
        raise FileError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} cannot be read as program text: {error}") from None


__all__ = ["choose_model", "choose_program"]
