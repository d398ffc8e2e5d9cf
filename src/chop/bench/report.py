"""Results written down: ``results.json``, ``table.md``, figures, and one page that can be sent to anyone."""

from __future__ import annotations

import base64
import io
import json
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chop.bench.results import Results
from chop.bench.runner import Run
from chop.bench.store import Record, Store
from chop.bench.suite import Entry, Setting
from chop.bench.tables import Table
from chop.core.errors import BenchError
from chop.pictures.style import CSS
from chop.storage.atomic import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESOLUTION = 140


@dataclass(frozen=True)
class Report:
    """What is special in the report of a suite."""

    title: str
    """Of ``table.md``."""
    heading: str
    """Of the page."""
    intro: str
    """What the numbers are."""
    facts: Callable[[Results], dict[str, str]]
    """What the numbers belong to; the same for the same results."""
    tables: Callable[[Results], list[Table]]
    """Everything that was measured, main results first; tables without rows are left out."""
    is_main: Callable[[Table], bool]
    """Whether a table stands before the figures."""
    times: Callable[[Results], Table]
    """What differs from run to run, so it is kept out of ``table.md``."""
    columns: Callable[[Entry, list[Record]], Record]
    """What ``results.json`` holds of an entry."""
    chosen: Callable[[Results], Record]
    """What else it holds."""
    figures: Callable[[Results, Setting | None], dict[str, Figure]]
    """By the names of their files; those that need the ``setting`` that was measured only if it is given."""
    captions: Mapping[str, str]
    """Of the figures, in their order."""
    files: Callable[[Results], dict[str, str]] = lambda results: {}
    """Further files."""


def write(bench: Run, setting: Setting | None) -> list[Path]:
    """All files of a finished or half-finished benchmark; those that need what is missing are left out."""
    import torch

    torch.set_num_threads(1)  # as the workers: more gain nothing at this size
    report, out = bench.suite.report(), bench.out
    with Store(out, bench.suite.layout) as store:
        if setting is not None:
            setting.check(store)
        results = Results(store, bench.suite)
        facts = {"version": ", ".join(store.versions), **report.facts(results)}
        all_facts = {**facts, **environment()}
        texts = {
            "table.md": markdown(report, results, facts),
            "times.md": report.times(results).markdown(),
            "results.json": results_json(report, results, all_facts),
            **report.files(results),
        }
        made = [_write(out / name, text.encode()) for name, text in texts.items()]
        found = report.figures(results, setting)
        pictures = {name: png(found[name]) for name in report.captions if name in found}
        made += [_write(out / "figures" / f"{name}.png", data) for name, data in pictures.items()]
        made.append(_write(out / "report.html", page(report, results, all_facts, pictures).encode()))
    return made


def _write(path: Path, data: bytes) -> Path:
    return write_bytes(path, data, BenchError, overwrite=True)


def markdown(report: Report, results: Results, facts: Mapping[str, str]) -> str:
    """The file ``table.md``."""
    known = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    body = "\n".join(table.markdown() for table in _tables(report, results))
    return f"# {report.title}\n\n{known}\n\n{report.intro}\n\n{body}"


def _tables(report: Report, results: Results) -> list[Table]:
    return [table for table in report.tables(results) if table.rows]


def environment() -> dict[str, str]:
    """Versions of what computed: in the page and in results.json."""
    import torch

    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def results_json(report: Report, results: Results, facts: Mapping[str, str]) -> str:
    """Everything that was measured, in plain values, one measurement a line: ``results.json``."""
    measured = []
    for key, entry in results.entries.items():
        records = results.records(*key)
        if records:
            measured.append(report.columns(entry, records))
    content: dict[str, Any] = {**facts, **report.chosen(results)}
    head = json.dumps(content, ensure_ascii=False, indent=1)[:-2]
    lines = ",\n".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in measured)
    return f'{head},\n "measured": [\n{lines}\n]}}\n'


def png(figure: Figure) -> bytes:
    """The bytes of a picture: the same for the same figure."""
    packed = io.BytesIO()
    figure.savefig(packed, format="png", dpi=RESOLUTION, metadata={"Software": None})
    return packed.getvalue()


def page(report: Report, results: Results, facts: Mapping[str, str], pictures: Mapping[str, bytes]) -> str:
    """One page that fetches nothing: what the numbers belong to, main tables, figures, all other tables."""
    made = _tables(report, results)
    main = [table for table in made if report.is_main(table)]
    rest = [table for table in [*made, report.times(results)] if table not in main]
    items = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>Chains of operators: benchmark</title><style>{CSS}{_EXTRA}</style></head><body><main>",
            "<header><p>Chains of operators around frozen in-context operator networks</p>"
            f"<h1>{escape(report.heading, quote=False)}</h1></header>",
            f"<dl>{items}</dl>",
            f"<p>{escape(report.intro, quote=False)}</p>",
            *map(_table_part, main),
            _figures_part(pictures, report.captions),
            *map(_table_part, rest),
            "</main></body></html>\n",
        ]
    )


def _table_part(table: Table) -> str:
    """A table with its heading; `code` in its cells is set as code."""
    title, said = table.title, table.note

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


def _figures_part(pictures: Mapping[str, bytes], captions: Mapping[str, str]) -> str:
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


__all__ = ["Report", "environment", "markdown", "page", "png", "results_json", "write"]
