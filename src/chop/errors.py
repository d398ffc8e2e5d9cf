"""The one family of errors a user can cause.

A `ChopError` is a sentence for a person: what is wrong, where, and what would be right. The command
line prints it and exits with code 2. Any other exception that leaves the library is a bug.
"""

from __future__ import annotations


class ChopError(Exception):
    """Something the caller can mend: bad data, a bad model, bad program text."""


class PromptError(ChopError):
    """A prompt, or one of its fields, does not fit together."""


class ModelError(ChopError):
    """A frozen model did not answer as the protocol demands."""


class ProgramError(ChopError):
    """A program is not valid, or cannot be run on this prompt."""


class ParseError(ProgramError):
    """Program text that is not a program; `column` (from 1) says where."""

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
