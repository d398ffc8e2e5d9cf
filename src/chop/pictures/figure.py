"""Panels on paper: a matplotlib figure, made without any global state.

Colour never carries a meaning alone: every kind of line has its own width or dash (see `boxes` for the hues).
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chop.core.trace import Trace
from chop.pictures.panels import Panel, panels_of
from chop.pictures.views import Curve, View, grid_matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.8, 2.5
"""Size of a panel without its title, in inches."""
TITLE = 0.56
HEAD = 1.0
COLUMNS = 3
SMALL = 7.5
TEXT_COLOR = "#333333"
ANSWERS = ("answer", "before", "candidate", "held out")
_IMAGE_FORMS = ("image", "scatter")


@dataclass(frozen=True)
class Pen:
    """How one kind of curve is drawn; a colour of None is taken from the ramp over examples."""

    label: str
    color: str | None
    width: float
    dash: str = "-"
    alpha: float = 1.0
    order: int = 2


PENS: dict[str, Pen] = {
    "input": Pen("examples, first to last", None, 1.0, alpha=0.7),
    "output": Pen("examples, first to last", None, 1.0, alpha=0.7),
    "query": Pen("query", "#000000", 2.0, order=4),
    "given": Pen("query, for comparison", "#8a8a8a", 1.0, order=1),
    "answer": Pen("answer", "#d55e00", 2.4, order=5),
    "before": Pen("before the projection", "#0072b2", 1.2, dash="--", order=6),
    "candidate": Pen("candidates, first to last", None, 1.2, dash="-.", order=6),
    "held out": Pen("held-out answers, first to last", None, 1.6, order=3),
    "observed": Pen("observed at the hidden pairs", "#000000", 0.8, dash="--", order=4),
    "band": Pen("band for 90 % of the truth", "#d55e00", 7.0, alpha=0.25, order=1),
    "found": Pen("found, with two standard deviations", "#0072b2", 1.8, order=4),
}

RAMP = "viridis"
RAMP_SPAN = (0.0, 0.88)
"""The part of the ramp that shows on white."""


def trace_figure(trace: Trace, query: int) -> Figure:
    """The fields at every stage for one query, in the order of happening."""
    from matplotlib.figure import Figure

    panels, left_out = panels_of(trace, trace.check_query(query))
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    cell = HEIGHT + TITLE
    width, height = columns * WIDTH, rows * cell + HEAD
    figure = Figure(figsize=(width, height), facecolor="white")
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        left, top = column * WIDTH, height - HEAD - row * cell
        _write(figure, left + 0.12, top - 0.08, panel)
        paint(figure, panel, left, top - cell)
    _head(figure, trace, query, panels, left_out)
    return figure


def panel_figure(panel: Panel) -> Figure:
    """One panel alone, without its title."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), facecolor="white")
    paint(figure, panel, 0.0, 0.0)
    return figure


def paint(figure: Figure, panel: Panel, left: float, bottom: float) -> None:
    """The views of a panel side by side, its lower left corner given in inches."""
    width, height = figure.get_size_inches()
    share = WIDTH / len(panel.views)
    colored = [view for view in panel.views if view.form in _IMAGE_FORMS]
    limits = _limits([curve for view in colored for curve in view.curves])
    with_lines = [view for view in panel.views if view.form in ("lines", "points")]
    shared = _limits([curve for view in with_lines for curve in view.curves])
    for i, view in enumerate(panel.views):
        bar = 0.55 if view.form in _IMAGE_FORMS else 0.0
        box = (left + i * share + 0.58, bottom + 0.44, share - 0.70 - bar, HEIGHT - 0.70)
        axes = figure.add_axes((box[0] / width, box[1] / height, box[2] / width, box[3] / height))
        _dress(axes, view)
        if view.form in _IMAGE_FORMS:
            drawn = _color(axes, view, limits)
            side = figure.add_axes(
                ((box[0] + box[2] + 0.06) / width, box[1] / height, 0.08 / width, box[3] / height),
                label="colours",
            )
            figure.colorbar(drawn, cax=side).outline.set_linewidth(0.4)
            side.tick_params(labelsize=SMALL - 1, length=2, width=0.4)
        elif view.form == "match":
            _match(axes, view)
        elif view.form == "band":
            _band(axes, view)
        else:
            _curves(axes, view)
            if len(with_lines) == len(panel.views) and shared is not None:
                pad = 0.06 * (shared[1] - shared[0])
                axes.set_ylim(shared[0] - pad, shared[1] + pad)


def pens_used(panels: list[Panel]) -> list[Pen]:
    """Which pens drew lines or points, in the order of the palette, each label once."""
    used = {
        curve.pen
        for panel in panels
        for view in panel.views
        if view.form not in _IMAGE_FORMS
        for curve in view.curves
    }
    return list({pen.label: pen for name, pen in PENS.items() if name in used}.values())


def _head(figure: Figure, trace: Trace, query: int, panels: list[Panel], left_out: int) -> None:
    """The program, the query and the legend, once for all panels."""
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    words = [f"query {query} of {trace.queries}" if trace.queries > 1 else ""]
    words.append(f"{left_out} more steps are not shown" if left_out else "")
    said = "; ".join(word for word in words if word)
    program = textwrap.shorten(trace.program, int(width * 11.5), placeholder=" ...")
    text: dict[str, Any] = {"va": "top", "ha": "left", "color": TEXT_COLOR, "parse_math": False}
    figure.text(0.12 / width, 1 - 0.10 / height, program, fontsize=10, weight="bold", **text)
    if said:
        figure.text(0.12 / width, 1 - 0.34 / height, said, fontsize=8.5, **text)
    pens = pens_used(panels)
    handles: list[Any] = [
        tuple(Line2D([], [], **_stroke(pen, place)) for place in places_shown(pen)) for pen in pens
    ]
    figure.legend(
        handles,
        [pen.label for pen in pens],
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.0)},
        loc="upper left",
        bbox_to_anchor=(0.0, 1 - 0.50 / height),
        ncols=max(1, int(width / 2.3)),
        fontsize=8,
        frameon=False,
        handlelength=3.4,
    )


def _write(figure: Figure, x: float, y: float, panel: Panel) -> None:
    """A panel's title: the operator in bold, what it found below."""
    width, height = figure.get_size_inches()
    text: dict[str, Any] = {"va": "top", "ha": "left", "color": TEXT_COLOR, "parse_math": False}
    heading = textwrap.shorten(panel.heading, 58, placeholder=" ...")
    found = textwrap.wrap(panel.found, 78, max_lines=3, placeholder=" ...")
    figure.text(x / width, y / height, heading, fontsize=9, weight="bold", **text)
    figure.text(x / width, (y - 0.18) / height, "\n".join(found), fontsize=SMALL, linespacing=1.15, **text)


def _dress(axes: Any, view: View) -> None:
    from matplotlib.ticker import MaxNLocator

    across, up = view.labels
    axes.set_xlabel(across, fontsize=SMALL, labelpad=1, parse_math=False)
    axes.set_ylabel(up, fontsize=SMALL, labelpad=1, parse_math=False)
    title = " - ".join(word for word in (view.title, *view.notes) if word)
    axes.set_title(title, fontsize=SMALL, pad=3, color=TEXT_COLOR, parse_math=False)
    axes.tick_params(labelsize=SMALL - 0.5, length=2.5, width=0.5, pad=2)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.ticklabel_format(axis="both", style="sci", scilimits=(-3, 4), useMathText=False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_offset_text().set_fontsize(SMALL - 1)
    for spine in axes.spines.values():
        spine.set_linewidth(0.5)


def _stroke(pen: Pen, place: float) -> dict[str, Any]:
    """How a curve is drawn, in matplotlib's words."""
    return {
        "color": pen.color or ramp(place),
        "linewidth": pen.width,
        "linestyle": pen.dash,
        "alpha": pen.alpha,
        "zorder": pen.order,
    }


def places_shown(pen: Pen) -> tuple[float, ...]:
    """Where in the ramp a key shows a pen: all along it, if the pen takes its colour from there."""
    return (0.5,) if pen.color else (0.0, 0.5, 1.0)


def ramp(place: float) -> str:
    """The colour of an example: dark for the first, light for the last."""
    import matplotlib
    from matplotlib.colors import to_hex

    low, high = RAMP_SPAN
    return str(to_hex(matplotlib.colormaps[RAMP](low + (high - low) * place)))


def _curves(axes: Any, view: View) -> None:
    for curve in view.curves:
        pen = PENS[curve.pen]
        x = curve.coords[:, 0]
        if curve.deviation is not None:
            _shade(axes, curve, view.form == "lines")
        elif view.form == "points":
            size = 5.0 if pen.width >= 2 else 2.0  # candidates lie on top of the answer
            color, alpha = pen.color or ramp(curve.place), pen.alpha
            axes.plot(x, curve.values, ".", markersize=size, color=color, alpha=alpha, zorder=pen.order)
        else:
            # A single point between gaps has no line: the marker keeps it visible.
            mark = "." if np.isfinite(curve.values).sum() <= 2 else ""
            axes.plot(x, curve.values, marker=mark, **_stroke(pen, curve.place))
    _say_if_empty(axes, view.curves)


def _shade(axes: Any, curve: Curve, joined: bool) -> None:
    """A band: a surface along a line, bars where points have no order."""
    pen, x = PENS[curve.pen], curve.coords[:, 0]
    low, high = _edges(curve)
    look = {"color": pen.color, "alpha": pen.alpha, "zorder": pen.order}
    if joined:
        axes.fill_between(x, low, high, linewidth=0, **look)
    else:
        axes.vlines(x, low, high, linewidth=1.0, **look)


def _edges(curve: Curve) -> tuple[Any, Any]:
    off = 0.0 if curve.deviation is None else curve.deviation
    return curve.values - off, curve.values + off


def _color(axes: Any, view: View, limits: tuple[float, float] | None) -> Any:
    (curve,) = view.curves
    low, high = _settled(*(limits or (0.0, 1.0)))
    scale: dict[str, Any] = {"vmin": low, "vmax": high, "cmap": RAMP}
    _say_if_empty(axes, view.curves)
    laid_out = grid_matrix(curve) if view.form == "image" else None
    if laid_out is not None:
        across, up, matrix = laid_out
        known = np.ma.masked_invalid(matrix)
        return axes.pcolormesh(across, up, known, shading="nearest", rasterized=True, **scale)
    finite = np.isfinite(curve.values)
    (x, y), colors = curve.coords.T, curve.values[finite]
    axes.scatter(x[~finite], y[~finite], s=10, marker="x", color="#999999", linewidths=0.6)
    size = float(np.clip(2500 / max(len(x), 1), 4, 36))
    rim = {"edgecolors": "#444444", "linewidths": 0.2}
    return axes.scatter(x[finite], y[finite], c=colors, s=size, **rim, **scale)


def _match(axes: Any, view: View) -> None:
    limits = _limits(view.curves)
    if limits is not None:
        axes.plot(limits, limits, color="#8a8a8a", linewidth=0.8, linestyle="--", zorder=1)
    for observed, answer in zip(view.curves[::2], view.curves[1::2], strict=True):
        axes.plot(
            observed.values, answer.values, ".", markersize=2.2, alpha=0.7, color=ramp(answer.place), zorder=2
        )
    _say_if_empty(axes, view.curves[1::2])


def _band(axes: Any, view: View) -> None:
    for curve in view.curves:
        pen, x = PENS[curve.pen], curve.coords[:, 0]
        if curve.deviation is not None:
            low, high = curve.values - 2 * curve.deviation, curve.values + 2 * curve.deviation
            axes.fill_between(x, low, high, color=pen.color, alpha=0.25, linewidth=0, zorder=pen.order - 1)
        axes.plot(x, curve.values, **_stroke(pen, curve.place))
    _say_if_empty(axes, view.curves)


def _say_if_empty(axes: Any, curves: tuple[Curve, ...]) -> None:
    """Words where a curve should be but has no finite value."""
    empty = [curve for curve in curves if not np.isfinite(curve.values).any()]
    missing = {PENS[curve.pen].label.split(",")[0] for curve in empty if curve.pen in ANSWERS}
    said = f"not finite: {', '.join(sorted(missing))}" if missing else ""
    if len(empty) == len(curves):
        said = said or "nothing to draw"
        axes.set(xticks=[], yticks=[])
    if said:
        place: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "va": "bottom"}
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text(0.5, 0.06, said, fontsize=SMALL + 1, zorder=9, bbox=paper, **place)


def _limits(curves: list[Curve] | tuple[Curve, ...]) -> tuple[float, float] | None:
    """Smallest and largest finite value, a little apart if they are the same."""
    edges = [edge for curve in curves for edge in _edges(curve)]
    finite = [edge[np.isfinite(edge)] for edge in edges]
    values = np.concatenate(finite) if finite else np.empty(0)
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        pad = 0.05 * abs(high) or 0.5
        return low - pad, high + pad
    return low, high


def _settled(low: float, high: float) -> tuple[float, float]:
    """Limits to four digits of their distance.

    Each colour of a colour bar begins at a multiple of 1/256 between them, so the last bit of a limit, which
    depends on the processor, would decide about some pixels.
    """
    step = 10.0 ** (math.floor(math.log10(high - low)) - 4)
    return round(low / step) * step, round(high / step) * step
