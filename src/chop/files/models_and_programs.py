"""What a user names in one word: a frozen model, a program."""

from __future__ import annotations

from pathlib import Path

from chop.core import user_code
from chop.core.errors import ModelError
from chop.core.model import FrozenModel
from chop.core.program import Program
from chop.core.text import parse


def choose_model(source: str) -> FrozenModel:
    """A bundled network by name, a weights file, or ``FILE.py:NAME``: a callable a Python file defines.

    A Python file is run, like any script of one's own: only give one you trust. ``NAME`` is ``model`` if
    it is left out.
    """
    python = _python_file(source)
    if python is None:
        from chop.icon.weights import load

        return load(source)
    path, name = python[0], python[1][1:] or "model"
    model: FrozenModel | None = getattr(user_code.load_file(path, ModelError), name, None)
    if model is None:
        raise ModelError(f"{path} defines no {name}; write {path}:NAME with the name of your model")
    if not callable(model):
        raise ModelError(f"{name} in {path} is no model: it must be callable with a prompt")
    return model


def model_file(source: str) -> tuple[Path, str]:
    """The file that a model's source names, and which of its functions is meant (``:NAME`` or nothing)."""
    python = _python_file(source)
    if python is None:
        from chop.icon.weights import find

        return find(source), ""
    if not python[0].is_file():
        raise ModelError(f"there is no file {python[0]}")
    return python


def _python_file(source: str) -> tuple[Path, str] | None:
    stem, ending, name = source.partition(".py")
    if not ending or (name and not name.startswith(":")):
        return None
    return Path(f"{stem}.py").expanduser(), name


def choose_program(source: str) -> Program:
    """A program from a text file, by its text or by its name in `chop.programs`."""
    path = Path(source).expanduser()
    if path.suffix == ".txt" and "|" not in source:
        return Program.load(path)
    return parse(source)


__all__ = ["choose_model", "choose_program", "model_file"]
