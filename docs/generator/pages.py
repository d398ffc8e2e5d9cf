"""The generated pages by file name."""

from __future__ import annotations

from chop.cli import app
from chop.operators import BUILT_IN
from generator.commands import commands_page
from generator.operators import operators_page


def pages() -> dict[str, str]:
    """Name and text of each page. Operators of other packages that happen to be installed are left out."""
    return {"operators.md": operators_page(BUILT_IN), "cli.md": commands_page(app)}


__all__ = ["pages"]
