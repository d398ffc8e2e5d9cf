"""Figures of errors by lead: boxes with means and percentages, all methods as lines, the program's weights.

Colours are those of Okabe and Ito; every method also has its own hatch or dash and marker, so that the
figures survive printing in grey and colour blindness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chop.bench.air.conditions import (
    CHOP,
    LEADS,
    METHODS,
    PERSISTENCE,
    POLLUTANTS,
    RAW,
    SELECTIONS,
    WRITTEN,
    YESTERDAY,
    Condition,
    Direction,
    label_of,
)
from chop.bench.air.results import Results
from chop.bench.air.tables import candidates
from chop.bench.figures import INK, PROGRAM_LOOK, RAW_LOOK, Look, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNIT = "µg/m³"


@dataclass(frozen=True)
class Line:
    """How a method is drawn along the leads."""

    color: str
    dash: Any
    marker: str


LINES = {
    RAW: Line(RAW_LOOK.color, "--", "o"),
    CHOP: Line(PROGRAM_LOOK.color, "-", "s"),
    PERSISTENCE: Line("#009e73", "-.", "^"),
    YESTERDAY: Line("#cc79a7", ":", "v"),
    "mean_output": Line("#56606b", (0, (1, 1)), "x"),
    "nearest_output": Line("#e69f00", (0, (5, 1, 1, 1)), "+"),
}
SHADES = ("#d55e00", "#009e73", "#e69f00", "#56606b", "#f0e442", "#0072b2", "#56b4e9")
HATCHES = ("", "///", "...", "xx", "", "\\\\\\", "++")


def error_figures(results: Results) -> dict[str, Figure]:
    """Every figure of errors for which there are results, by the name of its file."""
    carried = [direction for direction in results.directions if direction.carried]
    if not carried:
        return {}
    made = {f"boxes_{direction.name}": boxes(results, direction) for direction in carried}
    return {**made, "leads": by_lead(results, carried), "weights": weights(results, carried)}


def boxes(results: Results, direction: Direction) -> Figure:
    """Both pollutants and selections: Raw ICON and CHOP(Air) at every lead."""
    figure = new_figure(15.0, 8.0)
    axes: Any = figure.subplots(len(POLLUTANTS), len(SELECTIONS), sharey="row", squeeze=False)
    for row, pollutant in zip(axes, POLLUTANTS, strict=True):
        for ax, selection in zip(row, SELECTIONS, strict=True):
            counts = [
                _pair(ax, results, Condition(direction, selection, lead, pollutant), place)
                for place, lead in enumerate(LEADS)
            ]
            n = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
            frame(ax, f"{WRITTEN[pollutant]}, {selection} examples", f"lead (h); n = {n} questions each")
        low, high = row[0].get_ylim()
        row[0].set_ylim(0.0, high + 0.12 * (high - low))
        row[0].set_ylabel(f"RMSE of one question ({UNIT})")
    looks = [RAW_LOOK, Look(label_of(CHOP), PROGRAM_LOOK.color, PROGRAM_LOOK.hatch)]
    _box_legend(figure, looks)
    figure.suptitle(f"Air quality, {direction.label}", fontsize=12, color=INK)
    return figure


def _pair(ax: Any, results: Results, condition: Condition, place: int) -> int:
    """The two boxes of one condition; returns how many questions they hold."""
    found = results.compare(condition)
    counted = 0
    for shift, method, look in ((-0.2, RAW, RAW_LOOK), (0.2, CHOP, PROGRAM_LOOK)):
        errors = results.errors(condition, method)
        errors = errors[np.isfinite(errors)]
        counted = len(errors)
        if not counted:
            continue
        drawn = ax.boxplot(
            [errors], positions=[place + shift], widths=0.34, whis=1.5, showfliers=False, patch_artist=True,
            showmeans=True,
            meanprops={"marker": "D", "markerfacecolor": "white", "markeredgecolor": INK, "markersize": 4.0},
            medianprops={"color": INK, "linewidth": 1.3},
        )  # fmt: skip
        drawn["boxes"][0].set(
            facecolor=look.color, alpha=0.75, hatch=look.hatch, edgecolor=INK, linewidth=0.8
        )
    if found.paired is not None:
        change = -found.paired.reduction
        arrow = "" if abs(change) < 0.05 else "↓" if change < 0 else "↑"
        ax.text(
            place, 0.985, f"{arrow}{abs(change):.1f} %", transform=ax.get_xaxis_transform(), ha="center",
            va="top", fontsize=7.5, weight="bold", color=RAW_LOOK.color if change > 0 else PROGRAM_LOOK.color,
        )  # fmt: skip
    return counted


def by_lead(results: Results, carried: Sequence[Direction]) -> Figure:
    """Mean errors of all methods."""
    figure, axes = _panels(carried, "Mean RMSE of all methods")
    for pollutant, row in zip(POLLUTANTS, axes, strict=True):
        for ax, (direction, selection) in zip(row, _columns(carried), strict=True):
            for method in METHODS[::-1]:  # the program on top
                means = [
                    results.mean(Condition(direction, selection, lead, pollutant), method) for lead in LEADS
                ]
                draw_means(ax, method, means)
            n = results.questions(direction)[0]
            frame(ax, f"{WRITTEN[pollutant]}, {direction.label}, {selection}", f"lead (h); n ≤ {n}")
        row[0].set_ylim(bottom=0.0)
        row[0].set_ylabel(f"mean RMSE ({UNIT})")
    _legend_below(figure, axes[0][0], reverse=True)
    return figure


def draw_means(ax: Any, method: str, means: Sequence[float]) -> None:
    """One method's mean error at each lead."""
    look = LINES[method]
    ax.plot(
        range(len(means)), means, color=look.color, linestyle=look.dash, marker=look.marker, markersize=4,
        linewidth=1.5, label=label_of(method),
    )  # fmt: skip


def weights(results: Results, carried: Sequence[Direction]) -> Figure:
    """What CHOP(Air) leans on: the mean weight of each candidate."""
    figure, axes = _panels(carried, "What CHOP(Air) leans on: mean weights of its candidates")
    for pollutant, row in zip(POLLUTANTS, axes, strict=True):
        for ax, (direction, selection) in zip(row, _columns(carried), strict=True):
            found = [results.weights(Condition(direction, selection, lead, pollutant)) for lead in LEADS]
            parts = np.array([[0.0] * len(candidates()) if row is None else row for row in found])
            floor = np.zeros(len(LEADS))
            for i, text in enumerate(candidates()):
                ax.bar(
                    range(len(LEADS)), parts[:, i], bottom=floor, width=0.86, color=SHADES[i % len(SHADES)],
                    hatch=HATCHES[i % len(HATCHES)], edgecolor=INK, linewidth=0.4, label=text,
                )  # fmt: skip
                floor = floor + parts[:, i]
            n = results.questions(direction)[0]
            frame(ax, f"{WRITTEN[pollutant]}, {direction.label}, {selection}", f"lead (h); n = {n}")
        row[0].set_ylim(0.0, 1.0)
        row[0].set_ylabel("mean weight")
    _legend_below(figure, axes[0][0])
    return figure


def _columns(carried: Sequence[Direction]) -> list[tuple[Direction, str]]:
    return [(direction, selection) for direction in carried for selection in SELECTIONS]


def _panels(carried: Sequence[Direction], title: str) -> tuple[Figure, Any]:
    """Pollutants down, directions and selections across."""
    columns = len(_columns(carried))
    figure = new_figure(4.0 * columns, 6.6)
    axes: Any = figure.subplots(len(POLLUTANTS), columns, sharey="row", squeeze=False)
    figure.suptitle(title, fontsize=12, color=INK)
    return figure, axes


def frame(ax: Any, title: str, below: str, leads: Sequence[int] = LEADS) -> None:
    """Leads along the axis, evenly spaced."""
    ax.set_xticks(range(len(leads)), [str(lead) for lead in leads])
    ax.set_xlim(-0.6, len(leads) - 0.4)
    ax.set_title(title, fontsize=9, color=INK)
    ax.set_xlabel(below, fontsize=8)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)


def _box_legend(figure: Figure, looks: Sequence[Look]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(facecolor=look.color, alpha=0.75, hatch=look.hatch, edgecolor=INK) for look in looks
    ]
    handles.append(Line2D([], [], linestyle="", marker="D", markerfacecolor="white", markeredgecolor=INK))
    labels = [look.label for look in looks]
    labels.append("mean (line: median, box: quartiles, whiskers: 1.5 × their range, beyond not shown)")
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)


def _legend_below(figure: Figure, ax: Any, reverse: bool = False) -> None:
    handles, labels = ax.get_legend_handles_labels()
    step = -1 if reverse else 1
    columns = 4 if figure.get_figwidth() > 12 else 2  # a narrow figure would cut a row
    figure.legend(
        handles[::step], labels[::step], loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )


__all__ = ["UNIT", "boxes", "by_lead", "draw_means", "error_figures", "frame", "weights"]
