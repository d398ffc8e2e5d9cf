"""Pictures of a search for the page: scores, ratings and the best program's family as ECharts options.

They show what the report of a search shows, from the same series. Colour never carries a meaning alone.
"""

from __future__ import annotations

import math
from typing import Any

from chop.evolution.history import SearchHistory
from chop.evolution.population import INITIAL_RATING, Candidate

Option = dict[str, Any]

_GREY = "#8a8a8a"
# Okabe and Ito's colours, those that show best on either page first.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "ink", "#e69f00", "#56b4e9")
_COLORS_ON_DARK = ("#56b4e9", "#d55e00", "#009e73", "#cc79a7", "ink", "#e69f00", "#f0e442")
_DASHES: tuple[Any, ...] = (
    "solid", [7, 4], [2, 3], [9, 3, 2, 3], [3, 6], [9, 3, 2, 3, 2, 3], [4, 2],
)  # fmt: skip
_IN_A_ROW = 3
"""Entries of a legend that fit beside each other on a narrow page."""
_SMALL = 11
_MANY = 16
"""Members of a family whose labels fit beside each other on a narrow page."""


def progress_option(history: SearchHistory, dark: bool) -> Option:
    """Every finished candidate's score, and the best so far, over the model evaluations spent."""
    points, color = history.progress(), _colors(dark)[0]
    scores = [
        {
            "name": _words(history.candidates[p.candidate]),
            "value": [p.evaluations, _plain(p.score)],
        }
        for p in points
    ]
    steps = [[p.evaluations, _plain(p.best)] for p in points]
    series: list[Option] = [
        {
            "type": "scatter", "name": "judged on every question", "data": scores, "symbolSize": 6,
            "itemStyle": {"color": _GREY},
        },
        {
            "type": "line", "name": "best so far", "data": steps, "step": "end", "showSymbol": False,
            "silent": True, "lineStyle": {"color": color, "width": 2}, "itemStyle": {"color": color},
        },
    ]  # fmt: skip
    names = [one["name"] for one in series]
    return _option(series, names, ("model evaluations", "score"), dark)


def ratings_option(history: SearchHistory, dark: bool) -> Option:
    """The agents' ratings over the races: a line for each, with the colour and the dash of its kind."""
    kinds = sorted(set(history.kinds.values()))
    series: list[Option] = []
    for curve in history.ratings():
        place = kinds.index(curve.kind)
        color = _colors(dark)[place % len(_COLORS)]
        name = f"agent {curve.agent} ({curve.kind})"
        line = {"color": color, "width": 1.6, "type": _DASHES[place % len(_DASHES)]}
        points = [
            {"name": f"{name}\nrace {race}: {rating:.0f}", "value": [race, _plain(rating)]}
            for race, rating in curve.points
        ]
        # Series of one name share an entry of the legend. A line needs two points: one alone is a dot.
        series.append(
            {
                "type": "line", "name": curve.kind, "data": points, "symbol": "circle", "symbolSize": 5,
                "showSymbol": len(points) < 2, "lineStyle": line, "itemStyle": {"color": color},
                "triggerLineEvent": False,
            }
        )  # fmt: skip
    if series:
        series[0]["markLine"] = {
            "silent": True, "symbol": "none", "label": {"show": False}, "data": [{"yAxis": INITIAL_RATING}],
            "lineStyle": {"color": _GREY, "type": "solid", "width": 1},
        }  # fmt: skip
    shown = {one["name"] for one in series}
    option = _option(series, [kind for kind in kinds if kind in shown], ("race", "Elo rating"), dark)
    option["xAxis"]["minInterval"] = 1
    return option


def family_option(history: SearchHistory, dark: bool) -> Option:
    """The best program and its ancestors by age and score, with arrows from parents to children."""
    family = history.family()
    best, colors = history.best(), _colors(dark)
    each = math.ceil(len(family) / _MANY) or 1
    nodes = [
        {
            "id": str(c.number), "name": _words(c), "value": [place, _plain(c.fitness)],
            "symbol": "diamond" if c is best else "circle", "symbolSize": 16 if c is best else 9,
            "itemStyle": {"color": colors[1] if c is best else colors[0]},
            "label": {
                "formatter": f"#{c.number}", "position": ("top", "bottom")[place // each % 2],
                "show": c is best or place % each == 0,
            },
        }
        for place, c in enumerate(family)
    ]  # fmt: skip
    links = [{"source": str(parent), "target": str(c.number)} for c in family for parent in c.parents]
    graph = {
        "type": "graph", "coordinateSystem": "cartesian2d", "layout": "none", "data": nodes, "links": links,
        "edgeSymbol": ["none", "arrow"], "edgeSymbolSize": 6, "lineStyle": {"color": _GREY, "opacity": 0.8},
        "label": {"show": True, "color": _ink(dark), "fontSize": _SMALL},
        "labelLayout": {"hideOverlap": True}, "emphasis": {"disabled": True},
    }  # fmt: skip
    option = _option([graph], [], ("older to younger", "score"), dark)
    # Places, not numbers: ancestors lie far apart at the end and close together at the beginning.
    option["xAxis"] |= {"min": -1, "max": max(1, len(family)), "axisLabel": {"show": False}}
    option["xAxis"] |= {"axisTick": {"show": False}, "nameGap": 10}
    option["yAxis"]["boundaryGap"] = ["10%", "10%"]
    return option


def _words(candidate: Candidate) -> str:
    return f"#{candidate.number}, score {candidate.fitness:.4g}, {candidate.move}\n{candidate.text}"


def _plain(value: float) -> float | None:
    """A number as JSON knows it, with as many digits as anybody looks at."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _ink(dark: bool) -> str:
    return "#e6e9ee" if dark else "#1d2127"


def _colors(dark: bool) -> list[str]:
    chosen = _COLORS_ON_DARK if dark else _COLORS
    return [_ink(dark) if color == "ink" else color for color in chosen]


def _option(series: list[Option], legend: list[str], labels: tuple[str, str], dark: bool) -> Option:
    """Axes, legend and tooltip around some series.

    A tooltip is its point's name, and nothing else: ECharts takes that as text, whatever a journal says.
    """
    rows = math.ceil(len(legend) / _IN_A_ROW)
    paper = "#16191e" if dark else "#ffffff"
    return {
        "animation": False,
        "backgroundColor": "transparent",
        "textStyle": {"color": _ink(dark)},
        "grid": {"left": 64, "right": 30, "top": 16 + 22 * rows, "bottom": 48},
        "legend": {
            "show": bool(legend), "data": legend, "top": 0, "left": "center", "itemWidth": 34,
            "itemHeight": 9, "itemGap": 12, "textStyle": {"color": _ink(dark), "fontSize": _SMALL},
        },
        "tooltip": {
            "trigger": "item", "formatter": "{b}", "confine": True, "backgroundColor": paper,
            "textStyle": {"color": _ink(dark), "fontSize": 12},
            "extraCssText": "max-width: 22rem; white-space: pre-wrap; overflow-wrap: anywhere;",
        },
        "xAxis": _axis(labels[0], 28, dark),
        "yAxis": _axis(labels[1], 46, dark) | {"scale": True},
        "series": series,
    }  # fmt: skip


def _axis(name: str, gap: int, dark: bool) -> Option:
    ink = _ink(dark)
    return {
        "type": "value", "name": name, "nameLocation": "middle", "nameGap": gap,
        "nameTextStyle": {"color": ink}, "axisLabel": {"color": ink, "hideOverlap": True},
        "axisLine": {"onZero": False, "lineStyle": {"color": ink}},
        "splitLine": {"lineStyle": {"color": "#333a44" if dark else "#e3e6ea"}},
    }  # fmt: skip
