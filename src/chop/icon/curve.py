"""The learning curve of a run as a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chop.core.errors import ChopError
from chop.storage.atomic import atomic_path, make_folder


def curve_rows(path: Path) -> list[dict[str, Any]]:
    """What was measured in a run, from its file of lines; one that a crash has cut off is left out."""
    found = []
    for line in path.read_text().splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def curve_points(folders: Sequence[str | Path]) -> list[dict[str, float]]:
    """Minutes, steps and errors of runs that continue each other, one after the other."""
    found: list[dict[str, float]] = []
    minutes = steps = 0.0
    for folder in folders:
        path = Path(folder) / "curve.jsonl"
        if not path.exists():
            raise ChopError(f"{folder} holds no learning curve")
        for row in curve_rows(path):
            found.append(
                {"minutes": minutes + row["seconds"] / 60, "steps": steps + row["step"], **row["errors"]}
            )
        if found:
            minutes, steps = found[-1]["minutes"], found[-1]["steps"]
    if not found:
        raise ChopError(f"{', '.join(map(str, folders))}: nothing has been validated yet")
    return found


def draw_curve(folders: Sequence[str | Path], picture: str | Path, title: str = "") -> Path:
    """Error against time, both axes logarithmic, one line for each kind of question."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    measured = curve_points(folders)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name in [key for key in measured[-1] if key not in ("minutes", "steps")]:
        seen = [row for row in measured if name in row]
        axes.plot(
            [max(row["minutes"], 1e-3) for row in seen],  # seconds are rounded, and 0 has no logarithm
            [row[name] for row in seen],
            marker=".",
            label=f"{name}: {seen[-1][name]:.4f}",
        )
    axes.set(xscale="log", yscale="log", xlabel="minutes", ylabel="mean relative L² error", title=title)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FormatStrFormatter("%g"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, which="both", alpha=0.3)
    if axes.lines:  # a record too short to keep weeks back from has none
        axes.legend()
    picture = Path(picture)
    make_folder(picture.parent, ChopError)
    with atomic_path(picture, ChopError, overwrite=True) as partial:
        figure.savefig(partial, dpi=110, format=picture.suffix[1:] or None)
    return picture
