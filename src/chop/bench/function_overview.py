"""The first table: the bare network, the paper's program, `auto` and the paper's numbers, by condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chop.bench import paper
from chop.bench.figures import GRID, PROGRAM_LOOK, RAW_LOOK, Look, new_figure
from chop.bench.functions import (
    COST,
    FAMILIES,
    FLUXES,
    HOME_FLUX,
    HOME_LENGTH,
    LENGTHS,
    STEPS,
    FunctionSuite,
    control_of,
    rollout_of,
    single_step_of,
)  # fmt: skip
from chop.bench.methods import AUTO, AUTO_WITHOUT_LEAVES, CONSERVATION, CORR, MFC, RAW, label_of
from chop.bench.results import Results
from chop.bench.tables import MISSING, Rows, Table, base_cell, mean_cell, reduction_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OVERVIEW = "Condition by condition"
LOOKS = {
    "raw": RAW_LOOK,
    "paper": Look("the paper's program", PROGRAM_LOOK.color, marker="s"),
    "model": Look("auto, only the model", "#e69f00", marker="^"),
    "auto": Look("auto", "#000000", marker="*"),
}
MUCH_WORSE = 1.1
"""Times the bare network's error of a question: harm that is counted."""


class _Line(NamedTuple):
    words: str
    condition: str
    program: str
    """The paper's."""
    published: paper.Published | None


def suite_of(results: Results) -> FunctionSuite:
    """What was asked for."""
    assert isinstance(results.suite, FunctionSuite)
    return results.suite


def _lines() -> Iterator[_Line]:
    for flux, words in FLUXES.items():
        yield _Line(words, single_step_of(flux), CONSERVATION, paper.SINGLE_STEP[flux])
    for flux, words in FLUXES.items():
        yield _Line(f"{words}, step {STEPS}", rollout_of(flux), CONSERVATION, paper.STEP_144[flux])
    for family, words in FAMILIES.items():
        tables = (paper.COST_TO_DENSITY, CORR) if family in COST else (paper.MEAN_FIELD_CONTROL, MFC)
        for length in LENGTHS:
            published = tables[0][family, length]
            yield _Line(f"{words}, ℓ = {length:g}", control_of(family, length), tables[1], published)
    yield _Line("cubic fluxes (at home)", single_step_of(HOME_FLUX), CONSERVATION, None)
    for family, words in FAMILIES.items():
        own = CORR if family in COST else MFC
        yield _Line(f"{words}, ℓ = 1 (at home)", control_of(family, HOME_LENGTH), own, None)


def overview(results: Results) -> Table:
    """What was measured of it."""
    rows: Rows = []
    for line in _lines():
        ours = results.compare(line.condition, line.program)
        if ours is None:
            continue
        cells = [line.words, str(ours.n), base_cell(ours), label_of(line.program)]
        cells += [mean_cell(ours), reduction_cell(ours)]
        for method in (AUTO, AUTO_WITHOUT_LEAVES):
            found = results.compare(line.condition, method)
            if found is None:
                cells += [MISSING] * 2
                continue
            fewer = "" if found.n == ours.n else f" (n = {found.n})"
            cells += [mean_cell(found) + fewer, reduction_cell(found)]
        cells.append(_harm(results, line.condition, AUTO))
        if line.published is None:
            cells += [MISSING] * 3
        else:
            cells += [f"{line.published.raw:.4f}", f"{line.published.chop:.4f}"]
            cells.append(f"{line.published.reduction:.2f} %")
        rows.append(cells)
    head = (
        "condition", "n", "Raw ICON", "the paper's program", "its error", "its reduction", "auto",
        "auto: reduction", "auto, only the model", "its reduction with auto",
        "questions with auto more than 10 % worse than Raw", "paper: Raw ICON", "paper: its program",
        "paper: reduction",
    )  # fmt: skip
    note = (
        "`auto`, with its defaults, decides question by question, from the examples of each; "
        "`auto(leaves=False)` uses only programs that call the network."
    )
    return Table(OVERVIEW, note, head, rows)


def _harm(results: Results, condition: str, method: str) -> str:
    """The share of single questions with a much larger error than the bare network's."""
    raw, other = results.errors(condition, RAW), results.errors(condition, method)
    if raw is None or other is None:
        return MISSING
    count = min(len(raw), len(other))
    return f"{100 * float((other[:count] > MUCH_WORSE * raw[:count]).mean()):.1f} %"


def overview_figure(results: Results) -> Figure | None:
    """The same as a picture: a row for each condition, errors from the smallest to the largest."""
    shown: list[tuple[str, dict[str, float]]] = []
    for line in _lines():
        methods = {"raw": RAW, "paper": line.program, "model": AUTO_WITHOUT_LEAVES, "auto": AUTO}
        found = {name: _mean(results, line.condition, method) for name, method in methods.items()}
        measured = {name: mean for name, mean in found.items() if mean is not None}
        if {"raw", "auto"} <= measured.keys():
            shown.append((line.words, measured))
    if not shown:
        return None
    figure = new_figure(9.5, 1.2 + 0.26 * len(shown))
    ax: Any = figure.subplots()
    rows = range(len(shown))
    for row, (_, means) in enumerate(shown):
        ax.plot([min(means.values()), max(means.values())], [row, row], color=GRID, linewidth=2, zorder=1)
    for name, look in LOOKS.items():
        points = [(means[name], row) for row, (_, means) in enumerate(shown) if name in means]
        size = 90 if name == "auto" else 36
        across, up = zip(*points, strict=True) if points else ((), ())
        ax.scatter(across, up, s=size, color=look.color, marker=look.marker, label=look.label, zorder=2)
    ax.set_yticks(rows, [words for words, _ in shown], fontsize=8)
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel="mean relative L² error")
    ax.grid(axis="x", color=GRID, linewidth=0.6)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=9)
    return figure


def _mean(results: Results, condition: str, method: str) -> float | None:
    errors = results.errors(condition, method)
    found = None if errors is None else errors[np.isfinite(errors)]
    return None if found is None or not found.size else float(found.mean())
