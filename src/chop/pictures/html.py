"""HTML pages that need nothing but themselves: no script, nothing to fetch, and parts that pages share.

Titles, leads and names are plain text; headings, bodies and cells are HTML already.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape


def document(title: str, lead: str, heading: str, parts: Iterable[str], style: str = "") -> str:
    """A whole page: a line above the heading, the heading, then parts; empty ones are left out."""
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}</title><style>{CSS}{style}</style></head>",
        "<body><main>",
        f"<header><p>{escape(lead)}</p><h1>{heading}</h1></header>",
        *(part for part in parts if part),
        "</main></body></html>",
    ]
    return "\n".join(lines) + "\n"


def section(heading: str, body: str, introduction: str = "") -> str:
    """A part of a page under a heading of its own."""
    words = f"<p>{introduction}</p>" if introduction else ""
    return f"<section><h2>{heading}</h2>{words}{body}</section>"


def facts_list(facts: Mapping[str, str]) -> str:
    """Names with what is known under them, side by side."""
    items = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    return f"<dl>{items}</dl>"


def scroll_region(body: str, name: str, css_class: str = "scroll") -> str:
    """Something wide that is scrolled by itself, by keyboard too."""
    return f'<div class="{css_class}" tabindex="0" role="region" aria-label="{escape(name)}">{body}</div>'


def html_table(head: Sequence[str], rows: Iterable[str]) -> str:
    """A table of whole rows."""
    cells = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def table_row(cells: Iterable[tuple[str, str]]) -> str:
    """A row of cells, each with the name of its class, empty for none."""
    marked = (f'<td class="{name}">{cell}</td>' if name else f"<td>{cell}</td>" for cell, name in cells)
    return f"<tr>{''.join(marked)}</tr>"


def data_uri(png: bytes) -> str:
    """A picture as the address of an image that needs no file."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def plot_image(png: bytes, words: str) -> str:
    """A figure inside the page, and what it says to those who do not see it."""
    return f'<img class="plot" alt="{escape(words)}" src="{data_uri(png)}">'


def wide_figure(png: bytes, words: str, captioned: bool = False) -> str:
    """A figure as wide as the page, its words as the caption too if wanted."""
    caption = f"<figcaption>{escape(words)}</figcaption>" if captioned else ""
    return f'<figure class="wide">{plot_image(png, words)}{caption}</figure>'


# The look: light and dark, phone and desk, screen and paper.
CSS = """
:root { color-scheme: light dark; --indent: 14px; --paper: #ffffff; --ink: #1d2127; --quiet: #59616d;
  --rim: #d6dae0; --band: #f3f5f8; --warn: #a11d00; }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #16191d; --ink: #e6e9ee; --quiet: #a3acb9; --rim: #363c45; --band: #1f242a;
    --warn: #ff9a7d; }
  .plot { filter: invert(0.91) hue-rotate(180deg); }
}
@media (max-width: 600px) { :root { --indent: 8px; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "DejaVu Sans", Arial, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 20px 16px 48px; }
header p { margin: 0; color: var(--quiet); }
h1 { margin: 0 0 16px; font-size: 1.25rem; line-height: 1.35; overflow-wrap: anywhere; }
h2 { margin: 32px 0 12px; font-size: 1.1rem; }
code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 0.92em; }
dl { display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 0; padding: 12px 14px; background: var(--band);
  border-radius: 6px; }
dt { color: var(--quiet); font-size: 0.82rem; }
dd { margin: 0; font-variant-numeric: tabular-nums; }
.warning { color: var(--warn); font-weight: 600; margin: 12px 0 0; }
.scroll { overflow-x: auto; border: 1px solid var(--rim); border-radius: 6px; }
.scroll svg { display: block; max-width: none; margin: 0 auto; }
table { width: 100%; border-collapse: collapse; font-size: 0.9rem; }
th { text-align: left; color: var(--quiet); font-weight: 600; }
th, td { padding: 5px 10px 5px 0; border-bottom: 1px solid var(--rim); vertical-align: top;
  overflow-wrap: anywhere; }
td:first-child { width: 42%; }
tr.again { color: var(--quiet); }
tr.answer td:first-child { font-weight: 600; }
.key { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 22px; margin: 0 0 14px; padding: 0;
  font-size: 0.85rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr)); gap: 18px; }
figure { margin: 0; min-width: 0; display: flex; flex-direction: column; justify-content: space-between;
  break-inside: avoid; }
figcaption { font-size: 0.85rem; line-height: 1.35; overflow-wrap: anywhere; }
figcaption span { display: block; color: var(--quiet); font-size: 0.8rem; }
img { display: block; width: 100%; height: auto; margin-top: 6px; }
@media print {
  main { max-width: none; padding: 0; }
  .scroll { overflow: visible; border: 0; }
  .scroll svg { max-width: 100%; height: auto; }
  tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  .panels { grid-template-columns: 1fr 1fr; }
}
""" + "".join(f".depth{i} {{ padding-left: calc({i} * var(--indent)); }}\n" for i in range(1, 9))
