"""What decides the answers to a file, by content: so that a run goes on only with what it began with."""

from __future__ import annotations

import uuid
from pathlib import Path

import torch
from torch import nn

from chop import __version__
from chop.core.errors import ModelError
from chop.core.model import FrozenModel
from chop.core.program import Program
from chop.files.kept import BY_CONTENT, Run
from chop.files.questions import QuestionFile
from chop.runs.fingerprint import of_file, of_module


def run_of(
    questions: QuestionFile, program: Program, model: str | FrozenModel, name: str, validate: bool, batch: int
) -> tuple[Run, bool]:
    """The run, and whether a later process could know it again."""
    contents = _questions(questions), _model(model, name)
    # What has no name is given one that no other run has.
    run: Run = {
        **{key: found or uuid.uuid4().hex for key, found in zip(BY_CONTENT, contents, strict=True)},
        "program": str(program), "--validate": validate, "--batch": batch,
        "version of chop": __version__, "version of torch": str(torch.__version__),
    }  # fmt: skip
    return run, None not in contents


def _questions(questions: QuestionFile) -> str | None:
    """Known by content; None for those that are in memory alone."""
    return of_file(questions.path) if questions.path.is_file() else None


def _model(model: str | FrozenModel, name: str) -> str | None:
    """A file or a torch module is known by content, another callable by the name that was given to it."""
    if isinstance(model, str):
        file, function = _file(model)
        return f"{of_file(file)}{function}"
    if isinstance(model, nn.Module):
        return of_module(model)
    return f"named {name}" if name else None


def _file(source: str) -> tuple[Path, str]:
    """The file behind a model's source, and which of its functions is meant."""
    stem, ending, name = source.partition(".py")
    if not ending or (name and not name.startswith(":")):
        from chop.icon.weights import find

        return find(source), ""
    path = Path(f"{stem}.py").expanduser()
    if not path.is_file():
        raise ModelError(f"there is no file {path}")
    return path, name


__all__ = ["run_of"]
