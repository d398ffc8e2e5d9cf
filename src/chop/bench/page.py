"""The page of a benchmark: tables and pictures in one file that fetches nothing, and how it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from chop.bench.cells import Table
from chop.core.errors import BenchError
from chop.pictures.html import (
    document,
    facts_list,
    html_table,
    scroll_region,
    section,
    table_row,
    wide_figure,
)
from chop.pictures.rendering import figure_bytes
from chop.storage.atomic import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESOLUTION = 140


def page(heading: str, facts: Mapping[str, str], said: str, parts: Iterable[str]) -> str:
    """One page: what it is about, what the numbers belong to, then its parts."""
    body = [facts_list(facts), f"<p>{escape(said, quote=False)}</p>", *parts]
    lead = "Chains of operators around frozen in-context operator networks"
    return document("Chains of operators: benchmark", lead, escape(heading, quote=False), body, style=_EXTRA)


def table_part(table: Table) -> str:
    """A table with its heading; `code` in its cells is set as code."""
    title, said = table.title, table.said

    def words(cell: str) -> str:
        return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(cell, quote=False))

    rows = (table_row((words(cell), "long" if len(cell) > 40 else "") for cell in row) for row in table.rows)
    numbers = scroll_region(html_table([words(cell) for cell in table.head], rows), title, "numbers")
    return section(words(title), numbers, words(said))


def figures_part(pictures: Mapping[str, bytes], captions: Mapping[str, str]) -> str:
    """All pictures inside the page, each with its caption."""
    figures = [wide_figure(data, captions[name], captioned=True) for name, data in pictures.items()]
    return section("Figures", "\n".join(["", *figures, ""]))


def png(figure: Figure) -> bytes:
    """The bytes of a picture: the same for the same figure."""
    return figure_bytes(figure, "png", RESOLUTION)


def put(path: Path, content: str | bytes) -> Path:
    """A file, complete or as it was before."""
    data = content.encode() if isinstance(content, str) else content
    return write_bytes(path, data, BenchError, overwrite=True)


_EXTRA = """
.wide { margin: 0 0 28px; } .wide figcaption { margin-top: 6px; color: var(--quiet); }
.wide img { width: auto; max-width: 100%; }
.numbers { overflow-x: auto; } .numbers table { font-variant-numeric: tabular-nums; }
.numbers td, .numbers th { white-space: nowrap; padding-right: 16px; }
.numbers td:first-child { width: auto; }
.numbers td.long { white-space: normal; min-width: 22em; }
@media print { .numbers td, .numbers th { white-space: normal; } }
"""


__all__ = ["figures_part", "page", "png", "put", "table_part"]
