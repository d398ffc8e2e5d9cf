"""Results written down: ``results.json``, ``table.md``, figures, and one page that can be sent to anyone."""

from __future__ import annotations

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
from chop.bench.store import Store
from chop.bench.suite import Setting, SuiteEntry
from chop.bench.tables import Table
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
from chop.storage.schema import Record

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
    columns: Callable[[SuiteEntry, list[Record]], Record]
    """What ``results.json`` holds of an entry."""
    chosen: Callable[[Results], Record]
    """What else it holds."""
    figures: Callable[[Results, Setting | None], dict[str, Figure]]
    """By the names of their files; those that need the ``setting`` that was measured only if it is given."""
    captions: Callable[[Results], Mapping[str, str]]
    """Of the figures, in their order."""
    files: Callable[[Results], dict[str, str]] = lambda results: {}
    """Further files."""


def write_results(bench: Run, setting: Setting | None) -> list[Path]:
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
        pictures = {name: png(found[name]) for name in report.captions(results) if name in found}
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
    return figure_bytes(figure, "png", RESOLUTION)


def page(report: Report, results: Results, facts: Mapping[str, str], pictures: Mapping[str, bytes]) -> str:
    """One page that fetches nothing: what the numbers belong to, main tables, figures, all other tables."""
    made = _tables(report, results)
    main = [table for table in made if report.is_main(table)]
    rest = [table for table in [*made, report.times(results)] if table not in main]
    captions = report.captions(results)
    figures = [wide_figure(data, captions[name], captioned=True) for name, data in pictures.items()]
    parts = [
        facts_list(facts),
        f"<p>{escape(report.intro, quote=False)}</p>",
        *map(_table_part, main),
        section("Figures", "\n".join(["", *figures, ""])),
        *map(_table_part, rest),
    ]
    lead = "Chains of operators around frozen in-context operator networks"
    heading = escape(report.heading, quote=False)
    return document("Chains of operators: benchmark", lead, heading, parts, style=_EXTRA)


def _table_part(table: Table) -> str:
    """A table with its heading; `code` in its cells is set as code."""

    def words(cell: str) -> str:
        return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(cell, quote=False))

    rows = (table_row((words(cell), "long" if len(cell) > 40 else "") for cell in row) for row in table.rows)
    head = [words(cell) for cell in table.head]
    numbers = scroll_region(html_table(head, rows), table.title, "numbers")
    return section(words(table.title), numbers, words(table.note))


_EXTRA = """
.wide { margin: 0 0 28px; } .wide figcaption { margin-top: 6px; color: var(--quiet); }
.wide img { width: auto; max-width: 100%; }
.numbers { overflow-x: auto; } .numbers table { font-variant-numeric: tabular-nums; }
.numbers td, .numbers th { white-space: nowrap; padding-right: 16px; }
.numbers td:first-child { width: auto; }
.numbers td.long { white-space: normal; min-width: 22em; }
@media print { .numbers td, .numbers th { white-space: normal; } }
"""
