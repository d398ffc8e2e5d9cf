"""The one family of errors a user can cause.

A `ChopError` is a sentence for a person: what is wrong, where, and what would be right. The command
line prints it and exits with code 2. Any other exception that leaves the library is a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ChopError(Exception):
    """Something the caller can mend: bad data, a bad model, bad program text."""

    __module__ = "chop"  # what a traceback shows is what a user imports


class PromptError(ChopError):
    """A prompt, or one of its fields, does not fit together."""

    __module__ = "chop"


class ModelError(ChopError):
    """A frozen model did not answer as the protocol demands."""

    __module__ = "chop"


class ProgramError(ChopError):
    """A program is not valid, or cannot be run on this prompt."""

    __module__ = "chop"


class ParseError(ProgramError):
    """Program text that is not a program; `column` (from 1) says where."""

    __module__ = "chop"

    def __init__(self, message: str, text: str, column: int) -> None:
        self.text = text
        self.column = column
        super().__init__(f"column {column}: {message}")

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are rebuilt from `args`, which holds only the finished sentence.
        return (_rebuild_parse_error, (str(self), self.text, self.column))

    def pointer(self) -> str:
        """The text with a caret under the column, for a terminal."""
        start = max(0, self.column - 1 - 60)
        window = self.text[start : start + 120].replace("\n", " ")
        return f"  {window}\n  {' ' * (self.column - 1 - start)}^"


def _rebuild_parse_error(sentence: str, text: str, column: int) -> ParseError:
    error = ParseError("", text, column)
    error.args = (sentence,)
    return error


class ProblemError(ChopError):
    """A problem was asked for with settings that make no sense."""


class FluxError(ProblemError):
    """A flux text that is not a flux, or one that is not defined on the data range."""


class DataError(ProblemError):
    """A data file that is missing, unfinished, or not one of ours."""


@dataclass(frozen=True)
class Failure:
    """One trajectory that could not be followed to its last frame."""

    index: int
    time: float
    reason: str

    def __str__(self) -> str:
        return f"trajectory {self.index} {self.reason} at t = {self.time:.6g}"


class SolveError(ProblemError):
    """Trajectories failed; `failures` lists them."""

    def __init__(self, failures: Sequence[Failure], total: int) -> None:
        self.failures = tuple(failures)
        self.total = total
        shown = "; ".join(str(failure) for failure in self.failures[:3])
        more = "" if len(self.failures) <= 3 else f" and {len(self.failures) - 3} more"
        super().__init__(
            f"{len(self.failures)} of {total} trajectories failed: {shown}{more} "
            "(on_failure='drop' keeps the others)"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (SolveError, (self.failures, self.total))


class BenchError(ChopError):
    """A benchmark that cannot start, continue or be written down as asked."""


class EvolutionError(ChopError):
    """A search that cannot start, continue or be written down as asked."""


class FileError(ChopError):
    """A file cannot be read as questions, or answers cannot be written."""


class BankError(ChopError):
    """A bank of pairs cannot be read, added to or asked as wished."""

    __module__ = "chop"
