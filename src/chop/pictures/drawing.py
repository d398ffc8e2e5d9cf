"""A program as a picture."""

from __future__ import annotations

from chop.core.errors import ChopError
from chop.core.program import Program
from chop.pictures.boxes import layout
from chop.pictures.mermaid import as_mermaid
from chop.pictures.svg import as_svg


def draw_program(program: Program, form: str) -> str:
    """The program as ``"svg"`` (a self-contained picture) or ``"mermaid"`` (flowchart text)."""
    if form == "svg":
        return as_svg(layout(program), str(program))
    if form == "mermaid":
        return as_mermaid(program)
    raise ChopError(f'a program is drawn as "svg" or "mermaid", not {form!r}')
