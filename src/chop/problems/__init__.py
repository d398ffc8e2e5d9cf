"""Operators with truth that can be trusted: conservation laws, mean-field control, air quality.

`chop.problems.conservation` and `chop.problems.mfc` have one shape: ``sample(...)`` gives a `Case` (a
batched prompt, its target and how it was made) and streams endless training batches.
"""

from typing import TYPE_CHECKING

from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop.core.errors import DataError, FluxError, ProblemError, SolveError
    from chop.problems import air, conservation, mfc, question_files
    from chop.problems.case import Case
    from chop.problems.conservation.flux import Flux

__all__ = [
    "Case", "DataError", "Flux", "FluxError", "ProblemError", "SolveError", "air", "conservation", "mfc",
    "question_files",
]  # fmt: skip

__getattr__, __dir__ = attach(
    __name__,
    {
        "chop.core.errors": ("DataError", "FluxError", "ProblemError", "SolveError"),
        "chop.problems.case": ("Case",),
        "chop.problems.conservation.flux": ("Flux",),
    },
    {name: f"chop.problems.{name}" for name in ("air", "conservation", "mfc", "question_files")},
)
