"""How commands talk: results on standard output, progress on standard error, numbers for people.

Colours are rich's business: none where ``NO_COLOR`` is set or where nobody looks (a pipe, a file). There
lines are not wrapped either, so that what is printed can be searched and cut.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chop.storage.json_text import json_text

if TYPE_CHECKING:
    from rich.console import Console

UNWRAPPED = 10_000
"""Columns of a terminal that is none."""


def console(stderr: bool = False) -> Console:
    """Where a command prints: text as it is, wrapped in a terminal only."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    measured = stream.isatty() or "COLUMNS" in os.environ
    return Console(stderr=stderr, highlight=False, markup=False, width=None if measured else UNWRAPPED)


def print_json(content: Mapping[str, Any] | list[Any]) -> None:
    """One JSON value on standard output, and nothing else there."""
    sys.stdout.write(json_text(content))


def examples(*lines: str) -> str:
    """What stands below a command's help: commands to copy."""
    return "\n\n".join(("Examples:", *(f"  {line}" for line in lines)))
