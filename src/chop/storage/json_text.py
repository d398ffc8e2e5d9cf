"""Plain values and names of files as text that every reader accepts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def json_text(content: Mapping[str, Any] | list[Any]) -> str:
    """Plain values as JSON; numbers that are not finite become null.

    Bytes of a file's name that are no UTF-8 (lone surrogates in Python) are written as JSON escapes.
    """
    text = json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode(errors="backslashreplace").decode() + "\n"


def readable(text: str) -> str:
    """A text that can be stored: bytes of a file's name that are no UTF-8 are written as ``\\xff``."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def printable(text: str) -> str:
    """A text that any terminal may be sent: control characters are written out, such as ``\\x1b``."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
