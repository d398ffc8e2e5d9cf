"""Results written down: ``results.json``, ``table.md``, figures, and one page that can be sent to anyone."""

from __future__ import annotations

import base64
import csv
import io
import json
import platform
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chop.bench.cells import Table
from chop.bench.conditions import FLUXES, rollout
from chop.bench.details import times
from chop.bench.errors import BenchError
from chop.bench.figures import figures
from chop.bench.methods import label_of
from chop.bench.results import Results, as_json
from chop.bench.runner import Run
from chop.bench.scenes import scenes
from chop.bench.store import Store
from chop.bench.tables import MAIN_TITLES, markdown, tables
from chop.bench.work import Setting
from chop.pictures.style import CSS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESOLUTION = 140

_CAPTIONS = {
    "conservation_boxes": "Single-step errors of the three fluxes; percentages are changes of the mean.",
    "rollout": "Median error along the rollout; the band spans the quartiles.",
    "rollout_fields": "Space–time fields of one typical rollout of each flux.",
    "mfc_boxes": "Mean-field control, fifteen conditions.",
    "corr_boxes": "The residual correction alone where the input is a cost.",
    "transfer_boxes": "CHOP(MFC), unchanged, around the conservation network.",
    "ablation": "What is left of the reduction when an operator is removed.",
    "mfc_peaks": "Density peaks that the bare network smooths.",
    "mfc_g_1to2": "Space–time densities from ρ(0,x), with absolute errors.",
    "mfc_g_2to2": "Space–time densities from early densities, with absolute errors.",
    "mfc_rho_1to2": "Space–time densities from costs, with absolute errors.",
    "trace_conservation": "What CHOP(Conservation) does to one question, stage by stage.",
    "trace_mfc": "What CHOP(MFC) does to one question, stage by stage.",
}


def write(bench: Run) -> list[Path]:
    """All files of a finished or half-finished benchmark; those that need what is missing are left out."""
    import torch

    torch.set_num_threads(1)  # as the workers: more gain nothing at this size
    setting = bench.setting()
    with Store(bench.out) as store:
        results = Results(store, bench.selection)
        facts = about(store, bench)
        versions = environment()
        table = markdown(results, facts)
        made = [
            _put(bench.out / "table.md", table),
            _put(bench.out / "times.md", times(results).markdown()),
            _put(bench.out / "results.json", _dump(as_json(results, {**facts, **versions}))),
        ]
        steps = rollout_csv(results)
        if steps:
            made.append(_put(bench.out / "rollout.csv", steps))
        pictures = {name: _png(figure) for name, figure in drawn(results, setting).items()}
        for name, data in pictures.items():
            made.append(_put(bench.out / "figures" / f"{name}.png", data))
        page = report(results, {**facts, **versions}, pictures)
        made.append(_put(bench.out / "report.html", page))
    return made


def drawn(results: Results, setting: Setting) -> dict[str, Figure]:
    """All figures in the order of their captions."""
    made = {**figures(results), **scenes(results, setting)}
    return {name: made[name] for name in _CAPTIONS if name in made}


def about(store: Store, bench: Run) -> dict[str, str]:
    """What the numbers belong to; the same for the same results."""
    networks = ", ".join(
        f"{problem} (sha256 {store.models[problem][:16]})" for problem in sorted(store.models)
    )
    asked = bench.selection
    return {
        "version": store.about.version,
        "networks": networks,
        "seed": str(store.about.seed),
        "experiments": ", ".join(asked.suites),
        "questions of each condition": "as in the paper" if asked.cases is None else f"at most {asked.cases}",
    }


def environment() -> dict[str, str]:
    """Versions of what computed: in the page and in results.json."""
    import torch

    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def rollout_csv(results: Results) -> str:
    """Quartiles and mean of every rollout step; what is not finite counts as the worst in quartiles."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["flux", "method", "step", "n", "not finite", "quartile 1", "median", "quartile 3", "mean"]
    )
    count = 0
    for flux in FLUXES:
        for method in [m for name, m in results.entries if name == rollout(flux)]:
            curve = results.curve(rollout(flux), method)
            if curve is None:
                continue
            finite = np.isfinite(curve)
            worst = np.where(finite, curve, np.inf)
            for step in range(curve.shape[1]):
                marks = np.quantile(worst[:, step], [0.25, 0.5, 0.75], method="nearest")
                seen = curve[finite[:, step], step]
                mean = f"{seen.mean():.5g}" if seen.size else ""
                lost = int((~finite[:, step]).sum())
                numbers = [f"{mark:.5g}" for mark in marks]
                writer.writerow([flux, label_of(method), step + 1, len(curve), lost, *numbers, mean])
                count += 1
    return text.getvalue() if count else ""


def report(results: Results, facts: dict[str, str], pictures: dict[str, bytes]) -> str:
    """One page without anything to fetch."""
    items = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>Chains of operators: benchmark</title><style>{CSS}{_EXTRA}</style></head><body><main>",
        "<header><p>Chains of operators around frozen in-context operator networks</p>"
        "<h1>Benchmark beside the paper's numbers</h1></header>",
        f"<dl>{items}</dl>",
        "<p>Relative L² error, mean ± sample standard deviation over n questions. A reduction is that of the "
        "mean against Raw ICON on the same questions; a negative one is an increase. Answers that are not "
        "finite are counted where there are any, and left out of both means.</p>",
    ]
    made = tables(results)
    main = [table for table in made if table.title in MAIN_TITLES]
    parts += [_html(table) for table in main]
    parts.append("<section><h2>Figures</h2>")
    for name, data in pictures.items():
        encoded = base64.b64encode(data).decode("ascii")
        caption = escape(_CAPTIONS[name])
        parts.append(
            f'<figure class="wide"><img class="plot" alt="{caption}" src="data:image/png;base64,{encoded}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    parts.append("</section>")
    parts += [_html(table) for table in [*made, times(results)] if table not in main]
    parts.append("</main></body></html>\n")
    return "\n".join(parts)


_EXTRA = """
.wide { margin: 0 0 28px; } .wide figcaption { margin-top: 6px; color: var(--quiet); }
.wide img { width: auto; max-width: 100%; }
.numbers { overflow-x: auto; } .numbers table { font-variant-numeric: tabular-nums; }
.numbers td, .numbers th { white-space: nowrap; padding-right: 16px; }
.numbers td:first-child { width: auto; }
.numbers td.long { white-space: normal; min-width: 22em; }
@media print { .numbers td, .numbers th { white-space: normal; } }
"""


def _html(table: Table) -> str:
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


def _wide(cell: str) -> str:
    return ' class="long"' if len(cell) > 40 else ""


def _png(figure: Figure) -> bytes:
    packed = io.BytesIO()
    figure.savefig(packed, format="png", dpi=RESOLUTION, metadata={"Software": None})
    return packed.getvalue()


def _dump(content: dict[str, Any]) -> str:
    """One measurement a line."""
    measured = content.pop("measured")
    head = json.dumps(content, ensure_ascii=False, indent=1)[:-2]
    lines = ",\n".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in measured)
    return f'{head},\n "measured": [\n{lines}\n]}}\n'


def _put(path: Path, content: str | bytes) -> Path:
    """Complete or as it was before."""
    partial = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise BenchError(
            f"{path} cannot be written ({error.strerror}); the measurements are kept: make room and repeat"
        ) from None
    return path


__all__ = ["about", "report", "rollout_csv", "write"]
