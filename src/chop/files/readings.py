"""Which axes a shape has. Sizes decide; where two readings fit, the file must say which one is meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod

from chop.core.errors import FileError
from chop.files.gridded import Grid
from chop.files.layout import Spec
from chop.files.sources import Stored

_ALLOWED = {"mask": "biuf", "times": "iu", "graph": "iu", "values": "iuf", "coords": "iuf"}
_SHARED = ("N", "D")
"""Axes that may be left out or have length 1: all questions, or all examples, share what is there."""


@dataclass(frozen=True)
class Placed:
    """An array whose axes are understood."""

    spec: Spec
    stored: Stored
    shape: tuple[int, ...]
    """One length for each axis of the layout, 1 where it was left out."""
    by_question: bool
    """Whether its first axis is the questions'; otherwise all share it."""
    of_points: bool = False
    """Whether it is a mask of points, whatever function is known there."""


def read_values(
    spec: Spec, stored: Stored, grid: Grid | None, coords: tuple[int, ...] | None, where: str
) -> Placed:
    """Values or a mask: the questions first, the points or the axes of a grid, then channels, if any.

    ``coords`` is the shape of what says where the points are, if an array does.
    """
    refuse_text(spec, stored, where)
    lead, inner = len(spec.axes) - 2, 1 if grid is None else len(grid.axes)
    shape, missing = stored.shape, lead + inner + 1 - len(stored.shape)
    shared = stored.shared and 1 <= missing <= lead
    if shared:
        shape = (1,) * missing + shape
    # An array without questions would look like one without channels if its points were not counted.
    elif missing == 1 and (coords is None or _as_many(shape[-1], coords)):
        shape = (*shape, 1)
    if len(shape) != lead + inner + 1:
        raise FileError(f"{where}: {spec.name} is {stored.shape}, but {_wanted(spec, grid)}")
    if grid is not None and shape[lead:-1] != grid.shape:
        raise FileError(
            f"{where}: {spec.name} is {stored.shape}, but its grid {', '.join(grid.names)} is {grid.shape}"
        )
    full = (*shape[:lead], prod(shape[lead:-1]), shape[-1])
    return Placed(spec, stored, full, by_question=not shared)


def _as_many(points: int, coords: tuple[int, ...]) -> bool:
    """Whether coordinates of a shape can be of so many points, with an axis for coordinates or without."""
    return points == coords[-2] or points == coords[-1] > 1 if len(coords) > 1 else coords == (points,)


def _wanted(spec: Spec, grid: Grid | None) -> str:
    axes = [*spec.axes[:-2], *(spec.axes[-2:-1] if grid is None else grid.names)]
    full, one = ", ".join([*axes, spec.axes[-1]]), ", ".join(axes)
    return f"({full}) is wanted, the questions first, or ({one}) for one channel"


def read_shared(
    spec: Spec, stored: Stored, sizes: Mapping[str, int | None], coordinates: int | None, where: str
) -> Placed:
    """Coordinates or times, which may lack axes: the one reading of their shape that fits the sizes.

    A size is None where nothing else tells it. ``coordinates`` is how many the file names, which may settle
    what the sizes leave open.
    """
    refuse_text(spec, stored, where)
    fitting = _readings(spec.axes, stored.shape, sizes)
    if stored.shared:
        fitting = [full for full in fitting if full[0] == 1]
    if len(fitting) > 1 and coordinates is not None:
        fitting = [full for full in fitting if full[-1] == coordinates] or fitting
    if not fitting:
        counts = ", ".join(f"{axis} = {size}" for axis, size in sizes.items() if size is not None)
        raise FileError(
            f"{where}: {spec.name} is {stored.shape}, but {spec.shape} is wanted, with {counts}; "
            "axes that all share may be left out or have length 1"
        )
    if len(fitting) > 1:
        raise FileError(
            f"{where}: {spec.name} is {stored.shape}, which can be meant as "
            f"{' or as '.join(map(str, fitting))} of {spec.shape}; write all axes, 1 where all share it"
        )
    (full,) = fitting
    return Placed(spec, stored, full, by_question=full[0] != 1)


def _readings(
    axes: tuple[str, ...], shape: tuple[int, ...], sizes: Mapping[str, int | None]
) -> list[tuple[int, ...]]:
    """Every shape with all axes that an array can be meant to have, 1 for each that it lacks."""
    found: dict[tuple[int, ...], set[str]] = {}
    for kept in combinations(axes, len(shape)):
        lengths, lacks = dict(zip(kept, shape, strict=True)), set(axes) - set(kept)
        full = {axis: lengths.get(axis, 1) for axis in axes}
        fits = all(_fits(axis, length, sizes[axis]) for axis, length in full.items())
        if fits and lacks <= {*_SHARED, "k"}:
            found.setdefault(tuple(full.values()), lacks)
    # A single number in a row is the coordinate of a point sooner than the only point of a question.
    if len(found) > 1 and shape[-1] == 1 and sizes[axes[-2]] is None:
        return [full for full, lacks in found.items() if "k" not in lacks]
    return list(found)


def _fits(axis: str, length: int, size: int | None) -> bool:
    return size is None or length == size or (axis in _SHARED and length == 1)


def refuse_text(spec: Spec, stored: Stored, where: str) -> None:
    """Say so where an array holds something else than it should."""
    if stored.dtype.kind in _ALLOWED[spec.kind]:
        return
    what = {"U": "text", "S": "text", "O": "text or objects", "c": "complex numbers", "f": "fractions"}
    held = what.get(stored.dtype.kind, str(stored.dtype))
    wanted = "whole numbers" if stored.dtype.kind == "f" else "numbers"
    raise FileError(f"{where}: {spec.name} holds {held}, not {wanted}")


__all__ = ["Placed", "read_shared", "read_values", "refuse_text"]
