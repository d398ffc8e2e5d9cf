"""The little Markdown that reference pages need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; pipes inside cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """Words set as code; with double backticks if they contain one."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def prose(docstring: str) -> str:
    """A docstring as Markdown: its double backticks become single ones."""
    return re.sub(r"``(.+?)``", r"`\1`", docstring.strip())


def paragraphs(*parts: str) -> str:
    """Parts with an empty line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
