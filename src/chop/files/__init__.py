"""Questions in files of a user's own (HDF5, NetCDF-4, npz), and answers in files. Loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chop.files.choosing import choose_model, choose_program
    from chop.files.errors import FileError
    from chop.files.predicting import Rejected, Summary, predict
    from chop.files.questions import QuestionFile, Questions

_HOME = {
    "FileError": "errors",
    "QuestionFile": "questions",
    "Questions": "questions",
    "Rejected": "predicting",
    "Summary": "predicting",
    "choose_model": "choosing",
    "choose_program": "choosing",
    "predict": "predicting",
}

__all__ = [
    "FileError", "QuestionFile", "Questions", "Rejected", "Summary", "choose_model", "choose_program",
    "predict",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
