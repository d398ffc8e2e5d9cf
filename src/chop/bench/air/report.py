"""Results written down: ``results.json``, ``table.md``, figures, and one page that can be sent to anyone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chop.bench.air.conditions import REGIONS, Split
from chop.bench.air.figures import error_figures
from chop.bench.air.results import Results, as_json
from chop.bench.air.runner import check
from chop.bench.air.store import Store
from chop.bench.air.tables import INTRO, main_tables, markdown, tables, times
from chop.bench.page import figures_part, page, png, put, table_part
from chop.bench.report import dump, environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from chop.bench.air.work import Setting


def write(out: Path, setting: Setting | None = None) -> list[Path]:
    """All files of a finished or half-finished benchmark; maps need the ``setting`` that was measured."""
    import torch

    torch.set_num_threads(1)  # as the workers: more gain nothing at this size
    with Store(out) as store:
        if setting is not None:
            check(store, setting)
        results = Results(store)
        facts, versions = about(store), environment()
        made = [
            put(out / "table.md", markdown(results, facts)),
            put(out / "times.md", times(results).markdown()),
            put(out / "results.json", dump(as_json(results, {**facts, **versions}))),
        ]
        pictures = {name: png(figure) for name, figure in drawn(results, setting).items()}
        made += [put(out / "figures" / f"{name}.png", data) for name, data in pictures.items()]
        first = main_tables(results)
        rest = [table for table in [*tables(results), times(results)] if table not in first]
        parts = [*map(table_part, first), figures_part(pictures, CAPTIONS), *map(table_part, rest)]
        heading = "Air quality carried from region to region, beside the paper's numbers"
        made.append(put(out / "report.html", page(heading, {**facts, **versions}, INTRO, parts)))
    return made


CAPTIONS = {
    "stations": "Stations and their graphs. Only some of the edges are drawn; the networks use all of them.",
    "maps_bthsa-yrd": "Forecasts of the BTHSA network in YRD at three times of one day.",
    "maps_yrd-bthsa": "Forecasts of the YRD network in BTHSA at three times of one day.",
    "boxes_bthsa-yrd": "BTHSA → YRD: errors by lead; percentages are changes of the mean.",
    "boxes_yrd-bthsa": "YRD → BTHSA: errors by lead; percentages are changes of the mean.",
    "leads": "Mean errors of all methods by lead.",
    "weights": "Mean weights that CHOP(Air) gives to its candidates by lead.",
}


def drawn(results: Results, setting: Setting | None) -> dict[str, Figure]:
    """All figures in the order of their captions."""
    made = error_figures(results)
    if setting is not None:
        from chop.bench.air.maps import map_figures

        made |= map_figures(results, setting)
    return {name: made[name] for name in CAPTIONS if name in made}


def about(store: Store) -> dict[str, str]:
    """What the numbers belong to; the same for the same results."""

    def hashes(kind: str) -> str:
        used = {region: store.used[kind, region] for region in REGIONS if (kind, region) in store.used}
        return ", ".join(f"{region} (sha256 {found.sha256[:16]})" for region, found in used.items())

    every = "/".join(str(e) for e in sorted({asked.every for asked in store.asked.values()}))
    return {
        "version": store.about.version,
        "networks": hashes("network"),
        "data": hashes("data"),
        "seed": str(store.about.seed),
        "split": f"networks trained on their own region, the bundled ones to the end of 2023; "
        f"{Split(store.about.year).said(every)}",
    }


__all__ = ["about", "write"]
