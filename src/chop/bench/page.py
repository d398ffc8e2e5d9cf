"""The page of a benchmark: tables and pictures in one file that fetches nothing, and how it is written."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from chop.bench.cells import Table
from chop.core.errors import BenchError
from chop.pictures.style import CSS
from chop.storage.atomic import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESOLUTION = 140


def page(heading: str, facts: Mapping[str, str], said: str, parts: Iterable[str]) -> str:
    """One page: what it is about, what the numbers belong to, then its parts."""
    items = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>Chains of operators: benchmark</title><style>{CSS}{_EXTRA}</style></head><body><main>",
            "<header><p>Chains of operators around frozen in-context operator networks</p>"
            f"<h1>{escape(heading, quote=False)}</h1></header>",
            f"<dl>{items}</dl>",
            f"<p>{escape(said, quote=False)}</p>",
            *parts,
            "</main></body></html>\n",
        ]
    )


def table_part(table: Table) -> str:
    """A table with its heading; `code` in its cells is set as code."""
    title, said = table.title, table.said

    def words(cell: str) -> str:
        return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(cell, quote=False))

    cells = "".join(f'<th scope="col">{words(cell)}</th>' for cell in table.head)
    body = "".join(
        "<tr>" + "".join(f"<td{_wide(cell)}>{words(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return (
        f"<section><h2>{words(title)}</h2>{f'<p>{words(said)}</p>' if said else ''}"
        f'<div class="numbers" tabindex="0" role="region" aria-label="{escape(title)}"><table><thead>'
        f"<tr>{cells}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def figures_part(pictures: Mapping[str, bytes], captions: Mapping[str, str]) -> str:
    """All pictures inside the page, each with its caption."""
    parts = ["<section><h2>Figures</h2>"]
    for name, data in pictures.items():
        encoded = base64.b64encode(data).decode("ascii")
        caption = escape(captions[name])
        parts.append(
            f'<figure class="wide"><img class="plot" alt="{caption}" src="data:image/png;base64,{encoded}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    return "\n".join([*parts, "</section>"])


def png(figure: Figure) -> bytes:
    """The bytes of a picture: the same for the same figure."""
    packed = io.BytesIO()
    figure.savefig(packed, format="png", dpi=RESOLUTION, metadata={"Software": None})
    return packed.getvalue()


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


def _wide(cell: str) -> str:
    return ' class="long"' if len(cell) > 40 else ""


__all__ = ["figures_part", "page", "png", "put", "table_part"]
