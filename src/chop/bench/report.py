"""Results written down: ``results.json``, ``table.md``, figures, and one page that can be sent to anyone."""

from __future__ import annotations

import csv
import io
import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chop.bench.conditions import FLUXES, rollout
from chop.bench.details import times
from chop.bench.figures import figures
from chop.bench.methods import label_of
from chop.bench.page import figures_part, page, png, put, table_part
from chop.bench.results import Results, as_json
from chop.bench.runner import Run
from chop.bench.scenes import scenes
from chop.bench.store import Store
from chop.bench.tables import MAIN_TITLES, markdown, tables
from chop.bench.work import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
            put(bench.out / "table.md", table),
            put(bench.out / "times.md", times(results).markdown()),
            put(bench.out / "results.json", dump(as_json(results, {**facts, **versions}))),
        ]
        steps = rollout_csv(results)
        if steps:
            made.append(put(bench.out / "rollout.csv", steps))
        pictures = {name: png(figure) for name, figure in drawn(results, setting).items()}
        for name, data in pictures.items():
            made.append(put(bench.out / "figures" / f"{name}.png", data))
        page = report(results, {**facts, **versions}, pictures)
        made.append(put(bench.out / "report.html", page))
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
    said = (
        "Relative L² error, mean ± sample standard deviation over n questions. A reduction is that of the "
        "mean against Raw ICON on the same questions; a negative one is an increase. Answers that are not "
        "finite are counted where there are any, and left out of both means."
    )
    made = tables(results)
    main = [table for table in made if table.title in MAIN_TITLES]
    rest = [table for table in [*made, times(results)] if table not in main]
    parts = [*map(table_part, main), figures_part(pictures, _CAPTIONS), *map(table_part, rest)]
    return page("Benchmark beside the paper's numbers", facts, said, parts)


def dump(content: dict[str, Any]) -> str:
    """One measurement a line."""
    measured = content.pop("measured")
    head = json.dumps(content, ensure_ascii=False, indent=1)[:-2]
    lines = ",\n".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in measured)
    return f'{head},\n "measured": [\n{lines}\n]}}\n'


__all__ = ["about", "dump", "environment", "report", "rollout_csv", "write"]
