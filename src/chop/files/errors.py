"""What can be wrong with a file of a user's."""

from __future__ import annotations

from chop.errors import ChopError


class FileError(ChopError):
    """A file cannot be read as questions, or answers cannot be written."""


__all__ = ["FileError"]
