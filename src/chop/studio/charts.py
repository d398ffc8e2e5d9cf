"""Pictures for the page: views, answers, maps and errors as ECharts options, which are plain dicts.

They mean what `chop.pictures.figure` means on paper, with the same pens. Colour never carries a meaning
alone: every kind of curve has its own width, dash or symbol.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chop.pictures.figure import ANSWERS, PENS
from chop.pictures.views import DRAWABLE, Curve, Numbers, View, grid_matrix

Option = dict[str, Any]

MAX_POINTS = 2000
"""Points of a curve that are sent: more than a screen has columns, and each costs bytes and drawing."""
MAX_SIDE = 64
"""Rows and columns of an image that are sent, for the same reason."""
VIRIDIS = (
    *("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c"),
    *("#28ae80", "#5ec962", "#addc30", "#fde725"),
)
MAP_SHAPE = 4 / 3
"""Width by height that maps are laid out for, so that a kilometre is about as long either way."""

_GREY = "#8a8a8a"
_ON_DARK = {"#000000": "#e6e9ee", "#0072b2": "#56b4e9", "#d55e00": "#ff8c42", "#009e73": "#2fc79a"}
"""Hues that are too dark on a dark page, and what stands for them there."""
_DASHES: dict[str, Any] = {"-": "solid", "--": [6, 4], ":": [2, 3], "-.": [8, 3, 2, 3]}
_SMALL = 11


class _Look(NamedTuple):
    """How one curve is drawn."""

    color: str
    width: float
    dash: str = "-"
    alpha: float = 1.0
    order: int = 2
    symbol: str = "circle"


_ANSWER_LOOKS = {
    "raw": _Look("#0072b2", 1.6, "--", symbol="rect", order=5),
    "program": _Look("#d55e00", 2.4, "-", symbol="circle", order=6),
    "auto": _Look("#009e73", 2.0, "-.", symbol="triangle", order=7),
    "pinned": _Look("#cc79a7", 2.0, ":", symbol="diamond", order=4),
}
_OTHER_LOOKS = (
    _Look("#e69f00", 1.6, "-.", symbol="pin", order=4),
    _Look("#56b4e9", 2.6, ":", symbol="roundRect", order=4),
    _Look("#009e73", 1.4, "--", symbol="arrow", order=4),
    _Look("#cc79a7", 1.4, "-", symbol="emptyCircle", order=4),
)


def view_chart(view: View, dark: bool) -> Option:
    """One view of a stage, whatever its form."""
    title = " - ".join(word for word in (view.title, *view.notes) if word)
    curves = view.curves[1::2] if view.form == "match" else view.curves
    if view.form in ("image", "scatter"):
        (curve,) = view.curves
        laid_out = grid_matrix(curve) if view.form == "image" and len(curve.values) else None
        option = (
            _scatter(curve.coords, curve.values, view.labels, dark)
            if laid_out is None
            else _image(*laid_out, view.labels, dark)
        )
    elif view.form == "match":
        option = _planar(_match(view, dark), view.labels, dark, "item")
    else:
        trigger = "item" if view.form == "points" else "axis"
        option = _planar(list(_view_series(view, dark)), view.labels, dark, trigger)
    return _finished(option, title, _missing(curves), dark)


def answers_chart(
    truth: Curve | None,
    given: Curve | None,
    answers: Sequence[Curve],
    band: Curve | None,
    labels: tuple[str, str],
    dark: bool,
) -> Option:
    """Several answers to one question, over the first coordinate: each has the look of its name."""
    series = (
        []
        if band is None
        else [_band("band", band, 1.0, _Look(_hue("#d55e00", dark), 0, alpha=0.25, order=1))]
    )
    if given is not None:
        series.append(_line("query", given, _Look(_GREY, 1.2, "--", order=1)))
    if truth is not None:
        series.append(_line("truth", truth, _Look(_ink(dark), 3.2, order=3)))
    looks = _looks_of([answer.name for answer in answers], dark)
    series += [_line(one.name or "answer", one, look) for one, look in zip(answers, looks, strict=True)]
    drawn = [one for one in (truth, given, *answers, band) if one is not None]
    return _finished(_planar(series, labels, dark, "axis"), "", _missing(drawn), dark)


def map_chart(
    positions: ArrayLike,
    values: ArrayLike,
    names: Sequence[str],
    title: str,
    dark: bool,
    value_range: tuple[float, float] | None = None,
) -> Option:
    """Stations ``(n, 2)`` at longitude and latitude, coloured by value; hollow where nothing is known."""
    where = np.asarray(positions, dtype=np.float64).reshape(-1, 2)
    numbers = np.asarray(values, dtype=np.float64).reshape(-1)
    option = _scatter(where, numbers, ("longitude", "latitude"), dark, value_range, names)
    for axis, (low, high) in zip(("xAxis", "yAxis"), _map_box(where), strict=True):
        option[axis] |= {"min": low, "max": high}
        option[axis]["axisLabel"] |= {"showMinLabel": False, "showMaxLabel": False}
    missing = "" if np.isfinite(numbers).any() else "nothing to draw"
    return _finished(option, title, missing, dark)


def draw_curve_chart(x: ArrayLike, values: ArrayLike, dark: bool) -> Option:
    """A curve to draw with the mouse: its points look like handles, and no tooltip is in the way."""
    where, numbers = (np.asarray(part, dtype=np.float64).reshape(-1) for part in (x, values))
    curve = Curve("query", where[:, None], numbers)
    series = _line("drawn", curve, _Look(_hue("#0072b2", dark), 2.0))
    series |= {
        "symbol": "circle",
        "showSymbol": True,
        "showAllSymbol": True,
        "symbolSize": 10 if len(where) <= 40 else 6,
        "cursor": "ns-resize",
        "itemStyle": {"color": _paper(dark), "borderColor": _hue("#0072b2", dark), "borderWidth": 2},
    }
    option = _planar([series], ("x", "value"), dark, "axis")
    low, high = _room_to_draw(numbers)
    option["yAxis"] |= {"min": low, "max": high}
    option |= {"tooltip": {"show": False}, "legend": {"show": False}}
    option["grid"]["bottom"] = 8
    return _finished(option, "", "", dark)


def error_chart(
    names: Sequence[str], errors_by_step: Mapping[str, Sequence[float | None]], dark: bool
) -> Option:
    """Errors over the steps of a rollout, from step 1; zero has no place on a log axis and is left out."""
    series = []
    for name, look in zip(names, _looks_of(names, dark), strict=True):
        errors = np.array(errors_by_step.get(name, ()), dtype=np.float64)  # None becomes NaN
        errors[~(errors > 0)] = np.nan
        steps = np.arange(1.0, len(errors) + 1)[:, None]
        line = _line(name, Curve("answer", steps, errors), look)
        series.append(line | {"symbol": look.symbol, "showSymbol": True, "symbolSize": 7})
    option = _planar(series, ("step", "error"), dark, "axis")
    option["xAxis"] |= {"minInterval": 1, "min": 1, "max": max([2, *(len(line["data"]) for line in series)])}
    option["yAxis"] |= {"type": "log", "scale": True}
    drawn = any(point[1] is not None for line in series for point in line["data"])
    return _finished(option, "", "" if drawn else "nothing to draw", dark)


# Numbers


def _short(numbers: Numbers) -> Numbers:
    """Six significant digits: what a tooltip should show, and a third of the bytes."""
    known = np.where(np.abs(numbers) < DRAWABLE, numbers, np.nan)  # written so that NaN is caught too
    size = np.where(np.isfinite(known) & (known != 0), np.abs(known), 1.0)
    digits = np.clip(5 - np.floor(np.log10(size)), -300, 300)
    # Powers of ten below one are not exact, so those digits are divided out instead.
    up, down = 10.0 ** np.maximum(digits, 0), 10.0 ** np.maximum(-digits, 0)
    result: Numbers = np.rint(known * up / down) / up * down
    return result


def _listed(*columns: Numbers) -> list[list[float | None]]:
    """Rows of numbers as JSON knows them, None for what it does not know."""
    table = _short(np.column_stack(columns))
    cells = table.astype(object)
    cells[~np.isfinite(table)] = None
    rows: list[list[float | None]] = cells.tolist()
    return rows


def _thinned(count: int, limit: int = MAX_POINTS) -> NDArray[np.intp] | slice:
    """Evenly chosen positions, first and last among them."""
    if count <= limit:
        return slice(None)
    return np.linspace(0, count - 1, limit).round().astype(np.intp)


def _limits(numbers: Numbers) -> tuple[float, float]:
    """Smallest and largest known value, a little apart if they are the same."""
    known = numbers[np.abs(numbers) < DRAWABLE]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        pad = 0.05 * abs(high) or 0.5
        return low - pad, high + pad
    return low, high


def _room_to_draw(values: Numbers) -> tuple[float, float]:
    """Round limits with room on both sides, so that they stay where they are while points move a little."""
    low, high = _limits(values)
    step = 10.0 ** math.floor(math.log10(high - low))
    pad = 0.3 * (high - low)
    low, high = math.floor((low - pad) / step) * step, math.ceil((high + pad) / step) * step
    return float(f"{low:.6g}"), float(f"{high:.6g}")


def _map_box(positions: Numbers) -> list[tuple[float, float]]:
    """Limits of longitude and latitude around all stations, in the shape of `MAP_SHAPE`."""
    east, north = (_limits(positions[:, axis]) for axis in (0, 1))
    shrink = max(math.cos(math.radians(sum(north) / 2)), 0.1)
    height = 1.12 * max(north[1] - north[0], (east[1] - east[0]) * shrink / MAP_SHAPE)
    sizes = (height * MAP_SHAPE / shrink, height)
    middles = (sum(east) / 2, sum(north) / 2)
    return [
        (round(middle - size / 2, 4), round(middle + size / 2, 4))
        for middle, size in zip(middles, sizes, strict=True)
    ]


# Looks


def _ink(dark: bool) -> str:
    return "#e6e9ee" if dark else "#1d2127"


def _paper(dark: bool) -> str:
    return "#16191e" if dark else "#ffffff"


def _hue(color: str, dark: bool) -> str:
    if color == "#000000":
        return _ink(dark)
    return _ON_DARK.get(color, color) if dark else color


def _ramp(place: float, dark: bool) -> str:
    """The colour of an example, from the part of the ramp that shows on the page."""
    low, high = (0.42, 1.0) if dark else (0.0, 0.88)
    at = (low + (high - low) * min(max(place, 0.0), 1.0)) * (len(VIRIDIS) - 1)
    left = min(int(at), len(VIRIDIS) - 2)
    ends = [[int(VIRIDIS[left + i][k : k + 2], 16) for k in (1, 3, 5)] for i in (0, 1)]
    return "#" + "".join(f"{round(a + (b - a) * (at - left)):02x}" for a, b in zip(*ends, strict=True))


def _pen_look(curve: Curve, turn: int, dark: bool) -> _Look:
    """The pen of the figure; candidates, which are told apart by name, take turns with the dashes too."""
    pen = PENS[curve.pen]
    color = _ramp(curve.place, dark) if pen.color is None else _hue(pen.color, dark)
    dash, symbol = pen.dash, {"query": "diamond", "before": "rect"}.get(curve.pen, "circle")
    if curve.pen == "candidate":
        dash, symbol = (("-.", "triangle"), (":", "diamond"), ("--", "rect"))[turn % 3]
    return _Look(color, pen.width, dash, pen.alpha, pen.order, symbol)


def _looks_of(names: Sequence[str], dark: bool) -> list[_Look]:
    """A look for each answer: by its name where that is known, so that it is the same on every picture."""
    spare = [name for name in names if name not in _ANSWER_LOOKS]
    looks = [_ANSWER_LOOKS.get(name) or _OTHER_LOOKS[spare.index(name) % len(_OTHER_LOOKS)] for name in names]
    return [look._replace(color=_hue(look.color, dark)) for look in looks]


def _label(curve: Curve) -> str:
    """A curve's name in the legend; many of a kind share one."""
    kind = PENS[curve.pen].label.split(",")[0]
    return kind if curve.pen in ("input", "output", "held out") else curve.name or kind


# Series


def _view_series(view: View, dark: bool) -> Iterable[Option]:
    for turn, curve in enumerate(view.curves):
        look = _pen_look(curve, turn, dark)
        if view.form == "band":
            if curve.deviation is not None:
                yield _band("± 2 s.d.", curve, 2.0, look._replace(alpha=0.25, order=look.order - 1))
            yield _line(_label(curve), curve, look)
        elif curve.deviation is not None:
            yield (_band if view.form == "lines" else _bars)(_label(curve), curve, 1.0, look)
        elif view.form == "points":
            yield _dots(_label(curve), curve.coords[:, 0], curve.values, look)
        else:
            yield _line(_label(curve), curve, look)


def _line(name: str, curve: Curve, look: _Look) -> Option:
    kept = _thinned(len(curve.values))
    x, y = curve.coords[kept, 0], curve.values[kept]
    few = np.isfinite(y).sum() <= 2  # a point alone has no line: its symbol keeps it visible
    return {
        "type": "line",
        "name": name,
        "data": _listed(x, y),
        "symbol": look.symbol if few else "none",
        "showSymbol": bool(few),
        "z": look.order,
        "color": look.color,
        "lineStyle": {
            "color": look.color,
            "width": look.width,
            "type": _DASHES[look.dash],
            "opacity": look.alpha,
        },
        "itemStyle": {"color": look.color},
        "emphasis": {"disabled": True},
    }


def _dots(name: str, x: Numbers, y: Numbers, look: _Look) -> Option:
    kept = _thinned(len(y))
    return {
        "type": "scatter",
        "name": name,
        "data": _listed(x[kept], y[kept]),
        "symbol": look.symbol,
        "symbolSize": 6 if look.width >= 2 else 4,
        "z": look.order,
        "itemStyle": {"color": look.color, "opacity": look.alpha},
    }


def _band(name: str, curve: Curve, times: float, look: _Look) -> Option:
    """A surface: along the upper edge and back along the lower one, once for each part without gaps.

    A stack of two lines would need no way back, but ECharts stacks on category axes only. The area down
    to the axis, which it adds to a line, has no extent under a closed way.
    """
    x, low, high = _edges(curve, times)
    gap = np.full((1, 2), np.nan)
    known = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    parts = np.split(known, np.flatnonzero(np.diff(known) > 1) + 1) if len(known) else []
    ways = [_around(x[part], low[part], high[part]) for part in parts]
    loops = np.concatenate([piece for way in ways for piece in (way, gap)]) if ways else np.empty((0, 2))
    return {
        "type": "line",
        "name": name,
        "data": _listed(*loops.T),
        "symbol": "none",
        "silent": True,
        "z": look.order,
        "color": look.color,
        "lineStyle": {"width": 0},
        "itemStyle": {"color": look.color},
        "areaStyle": {"color": look.color, "opacity": look.alpha},
        "tooltip": {"show": False},
        "emphasis": {"disabled": True},
    }


def _around(x: Numbers, low: Numbers, high: Numbers) -> Numbers:
    upper, lower = np.column_stack((x, high)), np.column_stack((x, low))
    return np.concatenate((upper, lower[::-1], upper[:1]))


def _bars(name: str, curve: Curve, times: float, look: _Look) -> Option:
    """A bar at each point, where points have no order: lines that break after their upper end."""
    x, low, high = _edges(curve, times)
    y = np.column_stack((low, high, np.full(len(x), np.nan))).reshape(-1)
    bars = _band(name, curve, times, look)
    del bars["areaStyle"]
    line = {"color": look.color, "width": 1.5, "opacity": min(2 * look.alpha, 1.0)}
    return bars | {"data": _listed(np.repeat(x, 3), y), "lineStyle": line}


def _edges(curve: Curve, times: float) -> tuple[Numbers, Numbers, Numbers]:
    kept = _thinned(len(curve.values))
    centre = curve.values[kept]
    off = times * curve.deviation[kept] if curve.deviation is not None else np.zeros_like(centre)
    return curve.coords[kept, 0], centre - off, centre + off


def _match(view: View, dark: bool) -> list[Option]:
    """Held-out answers against what was observed, and the diagonal on which they agree."""
    ends = np.array(_limits(np.concatenate([curve.values for curve in view.curves] or [np.empty(0)])))
    diagonal = _line("agreement", Curve("given", ends[:, None], ends), _Look(_GREY, 1.2, "--", order=1))
    diagonal |= {"symbol": "none", "tooltip": {"show": False}}
    pairs = zip(view.curves[::2], view.curves[1::2], strict=True)
    return [diagonal] + [
        _dots(_label(answer), observed.values, answer.values, _pen_look(answer, 0, dark)._replace(alpha=0.8))
        for observed, answer in pairs
    ]


# Whole options


def _planar(series: list[Option], labels: tuple[str, str], dark: bool, trigger: str) -> Option:
    """Curves in one pair of axes with a legend, in which curves of one name are one entry."""
    names = {one["name"]: one for one in series}
    entries = [_entry(one) for one in names.values()]
    dotted = any(one["type"] == "scatter" for one in series)
    legend = {
        "type": "scroll",
        "bottom": 0,
        "data": entries,
        "itemWidth": 14 if dotted else 28,  # long enough to tell dashes; symbols would be stretched
        "itemHeight": 9,
        "itemGap": 10,
        "textStyle": {"color": _ink(dark), "fontSize": _SMALL + 1},
        "pageTextStyle": {"color": _ink(dark)},
        "pageIconColor": _ink(dark),
        "pageIconInactiveColor": _GREY,
    }
    return {
        "grid": {"left": 8, "right": 16, "bottom": 30 if entries else 8},
        "legend": legend,
        "tooltip": {"trigger": trigger},
        "xAxis": _axis(labels[0], dark) | {"splitNumber": 5},
        "yAxis": _axis(labels[1], dark),
        "series": series,
    }


def _entry(series: Option) -> Option:
    """An entry of the legend: a surface for a band, and no symbol on a line that has none."""
    if "areaStyle" in series:
        return {
            "name": series["name"],
            "icon": "roundRect",
            "itemStyle": {"opacity": series["areaStyle"]["opacity"]},
        }
    return {"name": series["name"]} | ({"itemStyle": {"opacity": 0}} if series["symbol"] == "none" else {})


def _image(across: Numbers, up: Numbers, matrix: Numbers, labels: tuple[str, str], dark: bool) -> Option:
    rows, columns = _thinned(len(up), MAX_SIDE), _thinned(len(across), MAX_SIDE)
    across, up, matrix = across[columns], up[rows], matrix[rows][:, columns]
    row, column = np.indices(matrix.shape).reshape(2, -1).astype(np.float64)
    series = {
        "type": "heatmap",
        "data": _listed(
            column, row, matrix.reshape(-1), np.tile(across, len(up)), np.repeat(up, len(across))
        ),
        "dimensions": ["#column", "#row", "value", *_apart(labels)],
        "encode": {"x": 0, "y": 1, "value": 2, "tooltip": [3, 4, 2]},
        "emphasis": {"disabled": True},
        "progressive": 0,
    }
    axes = [
        _axis(name, dark) | {"type": "category", "data": _ticks(levels), "splitLine": {"show": False}}
        for name, levels in zip(labels, (across, up), strict=True)
    ]
    for axis, levels in zip(axes, (across, up), strict=True):
        axis["axisLabel"]["interval"] = max(math.ceil(len(levels) / 5) - 1, 0)
    return _colored([series], axes, _limits(matrix), dark)


def _scatter(
    positions: Numbers,
    values: Numbers,
    labels: tuple[str, str],
    dark: bool,
    limits: tuple[float, float] | None = None,
    names: Sequence[str] | None = None,
) -> Option:
    """Points coloured by value, and hollow grey ones where the value is not known."""
    kept = np.arange(len(values))[_thinned(len(values))]
    known = np.isfinite(_short(values[kept]))
    size = float(np.clip(10 - len(kept) / 60, 4, 10)) + (4 if names is not None else 0)
    looks: list[Option] = [
        {"symbol": "circle", "itemStyle": {"borderColor": _ink(dark), "borderWidth": 0.5, "opacity": 1}},
        {
            "symbol": "circle",
            "itemStyle": {"color": "transparent", "borderColor": _GREY, "borderWidth": 1.5},
            "name": "not known",
        },
    ]
    series = []
    for look, chosen in zip(looks, (kept[known], kept[~known]), strict=True):
        rows: list[Any] = _listed(*positions[chosen].T, values[chosen])
        if names is not None:
            rows = [{"name": names[i], "value": row} for i, row in zip(chosen.tolist(), rows, strict=True)]
        encoded = {"x": 0, "y": 1, "tooltip": [2] if names is not None else [0, 1, 2]}
        dimensions = {"dimensions": [*_apart(labels), "value"], "encode": encoded}
        series.append({"type": "scatter", "symbolSize": size, "data": rows} | dimensions | look)
    return _colored(series, [_axis(name, dark) for name in labels], limits or _limits(values), dark)


def _colored(series: list[Option], axes: list[Option], limits: tuple[float, float], dark: bool) -> Option:
    """Values as colours, with their scale at the right; further series keep their own colour."""
    low, high = (float(f"{limit:.6g}") for limit in limits)
    scale = {
        "type": "continuous",
        "min": low,
        "max": high,
        "dimension": 2,
        "seriesIndex": 0,
        "inRange": {"color": list(VIRIDIS)},
        "text": [f"{high:.3g}", f"{low:.3g}"],
        "textStyle": {"color": _ink(dark), "fontSize": _SMALL},
        "itemWidth": 10,
        "itemHeight": 110,
        "right": 0,
        "top": "middle",
    }
    return {
        "grid": {"left": 8, "right": 66, "bottom": 8},
        "tooltip": {"trigger": "item"},
        "visualMap": scale,
        "xAxis": axes[0],
        "yAxis": axes[1],
        "series": series,
    }


def _apart(labels: tuple[str, str]) -> tuple[str, str]:
    """Dimension names, which ECharts needs to be different and not empty."""
    across, up = (label or fallback for label, fallback in zip(labels, ("across", "up"), strict=True))
    return (across, up) if len({across, up, "value"}) == 3 else (f"{across} (across)", f"{up} (up)")


def _ticks(levels: Numbers) -> list[str]:
    return [f"{level:.3g}" for level in levels.tolist()]


def _axis(name: str, dark: bool) -> Option:
    ink = _ink(dark)
    return {
        "type": "value",
        "scale": True,
        "name": name,
        "nameLocation": "middle",
        "nameGap": 24,
        "nameTextStyle": {"color": ink, "fontSize": _SMALL + 1},
        "axisLabel": {"color": ink, "fontSize": _SMALL, "hideOverlap": True},
        "axisLine": {"show": True, "onZero": False, "lineStyle": {"color": _GREY}},
        "axisTick": {"show": True, "lineStyle": {"color": _GREY}},
        "splitLine": {"lineStyle": {"color": ink, "opacity": 0.1}},
        "splitNumber": 4,
    }


def _missing(curves: Sequence[Curve]) -> str:
    """Words for answers without a finite value, or for a picture with nothing on it."""
    empty = [curve for curve in curves if not np.isfinite(curve.values).any()]
    if len(empty) == len(curves):
        return "nothing to draw"
    lost = {_label(curve) for curve in empty if curve.pen in ANSWERS}
    return f"not finite: {', '.join(sorted(lost))}" if lost else ""


def _finished(option: Option, title: str, missing: str, dark: bool) -> Option:
    """What all pictures share: a title, words for screen readers, a tool to save, the page's own paper."""
    ink = _ink(dark)
    said = " - ".join(dict.fromkeys(word for word in (missing, title) if word))  # titles are cut
    kinds = dict.fromkeys(one.get("name", "") for one in option["series"])
    about = f"{option['yAxis']['name']} over {option['xAxis']['name']}"
    described = ": ".join(word for word in (said, about, ", ".join(k for k in kinds if k)) if word)
    text = {"color": ink, "fontSize": _SMALL + 1, "fontWeight": "bold", "overflow": "truncate", "width": 300}
    # What `containLabel` does, with the names of the axes as well as their numbers.
    option["grid"] |= {"top": 30, "outerBoundsMode": "same", "outerBoundsContain": "all"}
    if missing == "nothing to draw":
        option["xAxis"]["show"] = option["yAxis"]["show"] = False
    option["tooltip"] |= {
        "confine": True,
        "backgroundColor": _paper(dark),
        "borderColor": _GREY,
        "textStyle": {"color": ink, "fontSize": _SMALL + 1},
    }
    save = {"title": "save", "pixelRatio": 2, "name": said or "chart", "backgroundColor": _paper(dark)}
    return {
        **option,
        "animation": False,
        "backgroundColor": "transparent",
        "textStyle": {"color": ink, "fontSize": _SMALL + 1},
        "title": {"text": said, "left": 4, "top": 2, "textStyle": text},
        "aria": {"enabled": True, "label": {"description": described}},
        "toolbox": {
            "right": 4,
            "top": 0,
            "itemSize": 13,
            "iconStyle": {"borderColor": _GREY},
            "feature": {"saveAsImage": save},
        },
    }
