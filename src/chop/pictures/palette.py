"""Colours and shapes: one look for each kind of operator, in drawings and in figures.

The hues are those of Okabe and Ito, which colour-blind readers tell apart; fills are tinted so that
black text reads well on them. Colour never carries a meaning alone: every kind has its own shape and
is named in words, every kind of line its own width or dash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Shape = Literal["plain", "pill", "forward", "backward", "bars", "hexagon", "octagon"]


@dataclass(frozen=True)
class Style:
    """How boxes of one kind look, and what they are called."""

    label: str
    fill: str
    edge: str
    shape: Shape


STYLES: dict[str, Style] = {
    "end": Style("", "#f4f4f4", "#555555", "plain"),
    "model": Style("frozen model", "#a6d8f5", "#0072b2", "pill"),
    "leaf": Style("leaf", "#d3ecfa", "#0072b2", "pill"),
    "transform": Style("transform", "#f7cf80", "#a86f00", "forward"),
    "undo": Style("undo", "#f7cf80", "#a86f00", "backward"),
    "projection": Style("projection", "#74cbb3", "#00684c", "bars"),
    "validator": Style("validator", "#f8f2a6", "#857d00", "hexagon"),
    "mixture": Style("mixture", "#e3b5ce", "#8c3f6b", "octagon"),
}


def style(kind: str) -> Style:
    """The look of a kind; one nobody has heard of looks like a leaf."""
    return STYLES.get(kind, STYLES["leaf"])


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
}

RAMP = "viridis"
RAMP_SPAN = (0.0, 0.88)
"""The part of the ramp that shows on white."""
