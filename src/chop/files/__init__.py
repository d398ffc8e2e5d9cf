"""Questions in files of a user's own (HDF5, NetCDF-4, npz), and answers in files."""

from typing import TYPE_CHECKING

from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop.core.errors import FileError
    from chop.files.cases import CaseFile
    from chop.files.models_and_programs import choose_model, choose_program
    from chop.files.predicting import Rejected, Summary, predict
    from chop.files.questions import QuestionFile, Questions

__all__ = [
    "CaseFile", "FileError", "QuestionFile", "Questions", "Rejected", "Summary", "choose_model",
    "choose_program", "predict",
]  # fmt: skip

__getattr__, __dir__ = attach(
    __name__,
    {
        "chop.core.errors": ("FileError",),
        "chop.files.cases": ("CaseFile",),
        "chop.files.models_and_programs": ("choose_model", "choose_program"),
        "chop.files.predicting": ("Rejected", "Summary", "predict"),
        "chop.files.questions": ("QuestionFile", "Questions"),
    },
)
