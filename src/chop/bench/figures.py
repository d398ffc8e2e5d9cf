"""How figures of a benchmark look: colours, boxes of errors, legends.

Colours are those of Okabe and Ito; every method also has its own hatch, dash or marker, so that the figures
survive printing in grey and colour blindness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#222222"
GRID = "#dddddd"
FIELD_MAP, ERROR_MAP = "viridis", "inferno"
BOXES = "mean (line: median, box: quartiles, whiskers: 1.5 × their range)"


@dataclass(frozen=True)
class Look:
    """How a method is drawn."""

    label: str
    color: str
    hatch: str = ""
    dash: Any = "-"
    marker: str = ""


RAW_LOOK = Look("Raw ICON", "#d55e00", "", "--", "o")
PROGRAM_LOOK = Look("CHOP", "#0072b2", "////", "-", "s")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, made without global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor="white", layout="constrained")


def draw_box(
    ax: Any, errors: NDArray[np.float64], x: float, width: float, look: Look,
    mean: float = 4.5, median: float = 1.4,
) -> None:  # fmt: skip
    """Quartiles, whiskers, and marks for the mean and the median of errors that are all finite."""
    made = ax.boxplot(
        [errors], positions=[x], widths=width, whis=1.5, showfliers=False, patch_artist=True, showmeans=True,
        meanprops={"marker": "D", "markerfacecolor": "white", "markeredgecolor": INK, "markersize": mean},
        medianprops={"color": INK, "linewidth": median},
    )  # fmt: skip
    made["boxes"][0].set(facecolor=look.color, alpha=0.75, hatch=look.hatch, edgecolor=INK, linewidth=0.8)


def write_change(ax: Any, x: float, reduction: float, digits: int, color: str, rotation: float = 0) -> None:
    """By how much a mean changes, at the top of an axis."""
    smallest = 0.5 * 10.0**-digits
    arrow = "" if abs(reduction) < smallest else "↓" if reduction > 0 else "↑"
    ax.text(
        x, 0.985, f"{arrow}{abs(reduction):.{digits}f} %", transform=ax.get_xaxis_transform(), ha="center",
        va="top", fontsize=7.5, color=color, weight="bold", rotation=rotation,
    )  # fmt: skip


def label_axis(ax: Any, ticks: Sequence[object], title: str, below: str) -> None:
    """Places along the axis, evenly spaced."""
    ax.set_xticks(range(len(ticks)), [str(tick) for tick in ticks])
    ax.set_xlim(-0.6, len(ticks) - 0.4)
    ax.set_title(title, fontsize=9, color=INK)
    ax.set_xlabel(below, fontsize=8)
    ax.grid(axis="y", which="major", color=GRID, linewidth=0.6)
    ax.set_axisbelow(True)


def legend(figure: Figure, looks: Sequence[Look], boxes: str = "") -> None:
    """Below the figure: lines, or boxes and what their marks are."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(facecolor=look.color, alpha=0.75, hatch=look.hatch, edgecolor=INK)
        if boxes
        else Line2D([], [], color=look.color, linestyle=look.dash, linewidth=2)
        for look in looks
    ]
    labels = [look.label for look in looks]
    if boxes:
        mark: dict[str, Any] = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": INK}
        handles.append(Line2D([], [], linestyle="", **mark))
        labels.append(boxes)
    narrow = boxes and figure.get_figwidth() <= 12  # it would cut a row
    columns = 2 if narrow else len(handles)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


__all__ = [
    "BOXES", "ERROR_MAP", "FIELD_MAP", "GRID", "INK", "PROGRAM_LOOK", "RAW_LOOK", "Look", "draw_box",
    "label_axis", "legend", "new_figure", "write_change",
]  # fmt: skip
