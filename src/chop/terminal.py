"""How commands talk: results on standard output, progress on standard error, numbers for people.

Colours are rich's business: none where ``NO_COLOR`` is set or where nobody looks (a pipe, a file). There
lines are not wrapped either, so that what is printed can be searched and cut.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

UNWRAPPED = 10_000
"""Columns of a terminal that is none."""


def console(stderr: bool = False) -> Console:
    """Where a command prints: text as it is, wrapped in a terminal only."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    measured = stream.isatty() or "COLUMNS" in os.environ
    return Console(stderr=stderr, highlight=False, markup=False, width=None if measured else UNWRAPPED)


def bar(*columns: Any) -> Progress:
    """A progress bar on standard error that leaves nothing behind; silent where nobody looks."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = console(stderr=True)
    usual = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*(columns or usual), console=shown, transient=True, disable=not shown.is_terminal)


def json_text(content: Mapping[str, Any] | list[Any]) -> str:
    """Plain values as JSON; numbers that are not finite become null.

    Bytes of a file's name that are no UTF-8 (lone surrogates in Python) are written as JSON escapes.
    """
    text = json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode(errors="backslashreplace").decode() + "\n"


def readable(text: str) -> str:
    """A text that can be stored: bytes of a file's name that are no UTF-8 are written as ``\\xff``."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def print_json(content: Mapping[str, Any] | list[Any]) -> None:
    """One JSON value on standard output, and nothing else there."""
    sys.stdout.write(json_text(content))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def examples(*lines: str) -> str:
    """What stands below a command's help: commands to copy."""
    return "\n\n".join(("Examples:", *(f"  {line}" for line in lines)))


def size(count: int) -> str:
    """Bytes as a person reads them: ``1.4 MB``."""
    amount, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{count} bytes" if unit == "bytes" else f"{amount:.3g} {unit}"


def duration(seconds: float) -> str:
    """Seconds as a person reads them: ``0.4 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def plural(count: int, word: str) -> str:
    """``1 question``, ``2 questions``."""
    return f"{count} {word}{'s' * (count != 1)}"


__all__ = ["bar", "console", "duration", "examples", "json_text", "plural", "print_json", "readable", "size"]
