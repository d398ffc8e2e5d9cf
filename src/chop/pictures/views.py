"""Functions as things that can be looked at: curves, images or maps, whatever their coordinates allow.

Everything here is plain data in numpy; `figure` puts it on paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chop.core.trace import FoundFunction

Numbers = NDArray[np.float64]

DRAWABLE = 1e30
"""Numbers beyond are as good as infinite on paper, and overflow on their way to it."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One function of a stage: what it is, where it was sampled, one channel of its values.

    ``place`` is its position in the ramp over examples, 0 to 1; values that are not finite or were
    not observed are NaN.
    """

    pen: str
    coords: Numbers
    values: Numbers
    place: float = 0.0
    name: str = ""
    deviation: Numbers | None = None
    """The standard deviation of the values, where it is known; of a band its half-width."""


@dataclass(frozen=True, eq=False)
class View:
    """One pair of axes: ``lines`` and ``points`` share them, an ``image`` or ``scatter`` has one curve.

    ``band`` is one function that was found, with its uncertainty. ``match`` sets answers against what was
    observed: curves come in pairs of (observed, answer).
    """

    form: Literal["lines", "points", "image", "scatter", "match", "band"]
    curves: tuple[Curve, ...]
    labels: tuple[str, str]
    title: str = ""
    notes: tuple[str, ...] = ()


def curve_of(pen: str, coords: Tensor, values: Tensor, mask: Tensor | None = None, **more: Any) -> Curve:
    """A curve from tensors ``(n, k)`` and ``(n, c)``: the last channel, gaps where nothing is known."""
    where = _numpy(coords)
    numbers = _numpy(values)[:, -1].copy()
    numbers[~(np.abs(numbers) < DRAWABLE)] = np.nan  # written so that NaN is caught too
    if mask is not None:
        numbers[~mask[:, -1].cpu().numpy()] = np.nan
    sound = (np.abs(where) < DRAWABLE).all(axis=1)
    return Curve(pen, where[sound], numbers[sound], **more)


def answer_band(coords: Tensor, values: Tensor, half_width: Tensor) -> Curve:
    """The band around an answer, tensors ``(n, k)`` and ``(n, c)``; gaps where it has no bound."""
    centre = curve_of("band", coords, values, torch.isfinite(half_width), name="band")
    sound = (np.abs(_numpy(coords)) < DRAWABLE).all(axis=1)
    return replace(centre, deviation=np.nan_to_num(_numpy(half_width)[:, -1][sound], posinf=0.0))


def _numpy(tensor: Tensor) -> Numbers:
    result: Numbers = tensor.detach().double().cpu().numpy()
    return result


def views_of(curves: Sequence[Curve], names: Sequence[str], main: str = "") -> list[View]:
    """How to look at several functions at once.

    Functions of one varying coordinate are drawn as lines in one view. Others cannot lie on top of
    each other: the one drawn with the pen ``main`` (else the last) becomes an image or a map of its
    last frame, and if there are more, all are compared point by point.
    """
    drawn = [part for part in curves if len(part.values)]
    if not drawn:
        return [View("lines", (), ("", ""), notes=("nothing to draw",))]
    axes = _varying(drawn, names)
    if len(axes) <= 1:
        axis = axes[0] if axes else 0
        along = tuple(_along(one, axis) for one in drawn)
        return [View("lines" if axes else "points", along, (names[axis], "value"))]
    chief = next((c for c in reversed(drawn) if c.pen == main), drawn[-1])
    return [image_view(chief, names), *([_ranked(drawn, chief)] if len(drawn) > 1 else [])]


def is_lines(curves: Sequence[Curve], names: Sequence[str]) -> bool:
    """Whether these functions can be drawn as lines over one coordinate."""
    drawn = [part for part in curves if len(part.values)]
    return not drawn or len(_varying(drawn, names)) <= 1


def image_view(one: Curve, names: Sequence[str]) -> View:
    """One function of several coordinates: an image on a grid, else a scatter of its points."""
    axes = _varying([one], names)
    frame, notes = one, []
    if len(axes) > 2 and "t" in names:
        time = list(names).index("t")
        frame = _last_frame(one, time)
        axes = [axis for axis in _varying([frame], names) if axis != time]
        notes.append("last frame")
    if len(axes) < 2:
        axis = axes[0] if axes else 0
        return View("points", (_along(frame, axis),), (names[axis], "value"), one.name, tuple(notes))
    if len(axes) > 2:
        notes.append(f"seen along {names[axes[0]]} and {names[axes[1]]}")
    across, up = axes[:2]
    if names[across] == "t" and len(axes) == 2:
        across, up = up, across  # time runs upwards, space across
    flat = Curve(one.pen, frame.coords[:, [across, up]], frame.values, one.place, one.name)
    form: Literal["image", "scatter"] = "image" if grid_matrix(flat) is not None else "scatter"
    return View(form, (flat,), (names[across], names[up]), one.name, tuple(notes))


def grid_matrix(flat: Curve) -> tuple[Numbers, Numbers, Numbers] | None:
    """Both axes and the values as a matrix (rows go up), if the points fill a grid of at least 2 x 2."""
    first, column = _levels(flat.coords[:, 0])
    second, row = _levels(flat.coords[:, 1])
    if len(first) < 2 or len(second) < 2 or len(first) * len(second) != len(flat.values):
        return None
    matrix = np.full((len(second), len(first)), np.nan)
    filled = np.zeros(matrix.shape, dtype=bool)
    matrix[row, column] = flat.values
    filled[row, column] = True
    return (first, second, matrix) if filled.all() else None


def match_view(pairs: Sequence[tuple[Curve, Curve]]) -> View:
    """Answers against what was observed, point by point."""
    flat = tuple(part for pair in pairs for part in pair)
    return View("match", flat, ("observed", "held-out answer"))


def band_view(name: str, found: FoundFunction) -> View:
    """A function that a stage found, ``(k)`` numbers of one query."""
    argument, values, deviation = (
        np.where(np.abs(part) < DRAWABLE, part, np.nan)
        for part in map(_numpy, (found.argument, found.values, found.deviation))
    )
    sound = np.isfinite(argument)
    curve = Curve(
        "found", argument[sound, None], values[sound], name=name, deviation=np.nan_to_num(deviation[sound])
    )
    widest = float(curve.deviation.max()) if curve.deviation is not None and sound.any() else 0.0
    return View("band", (curve,), found.labels, f"{name}, s.d. at most {widest:.2g}")


def _levels(numbers: Numbers) -> tuple[Numbers, NDArray[np.intp]]:
    """Distinct coordinates, those that differ by rounding only taken as one."""
    span = float(np.ptp(numbers)) or 1.0
    _, first, index = np.unique(np.round(numbers / span, 6), return_index=True, return_inverse=True)
    return numbers[first], index.reshape(-1)


def _varying(curves: Sequence[Curve], names: Sequence[str]) -> list[int]:
    """The coordinates that are not the same for all points of some function."""
    axes = range(len(names))
    return [a for a in axes if any(len(c.values) and np.ptp(c.coords[:, a]) > 0 for c in curves)]


def _along(one: Curve, axis: int) -> Curve:
    order = np.argsort(one.coords[:, axis], kind="stable")
    off = None if one.deviation is None else one.deviation[order]
    return Curve(one.pen, one.coords[order, axis : axis + 1], one.values[order], one.place, one.name, off)


def _last_frame(one: Curve, time: int) -> Curve:
    last = one.coords[:, time] == one.coords[:, time].max()
    return Curve(one.pen, one.coords[last], one.values[last], one.place, one.name)


def _ranked(curves: Sequence[Curve], chief: Curve) -> View:
    """All functions point by point, points in the order of one function's values."""
    alike = [c for c in curves if np.array_equal(c.coords, chief.coords)]
    order = np.argsort(chief.values, kind="stable")
    rank = np.arange(len(order), dtype=np.float64)[:, None]
    ranked = tuple(
        Curve(
            c.pen, rank, c.values[order], c.place, c.name, None if c.deviation is None else c.deviation[order]
        )
        for c in alike
    )
    return View("points", ranked, (f"points, ordered by {chief.name}", "value"))
