"""Which axes the arrays of a file have. Sizes decide; where two readings fit, the file must say which is meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Any

from chop.files.errors import FileError
from chop.files.gridded import Grid, grids
from chop.files.layout import FUNCTIONS, GENERATED, SPECS, Function, Spec, absent, axes_of, named
from chop.files.sources import Source, Stored

_ALLOWED = {"mask": "biuf", "times": "iu", "graph": "iu", "values": "iuf", "coords": "iuf"}
_BROADCAST = ("N", "D")
"""Axes that may have length 1: all questions, or all examples, share what is there."""


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


@dataclass(frozen=True)
class Arrangement:
    """A file that is understood: its arrays, and the grids of those functions that have no array of points."""

    arrays: Mapping[str, Placed]
    grids: Mapping[str, Grid]
    axes: tuple[tuple[str, float | None], ...] | None
    questions: int

    def points(self, function: Function) -> tuple[int, int]:
        """How many points a function is known at, and how many coordinates each has."""
        grid = self.grids.get(function.name)
        if grid is not None:
            return grid.points, len(grid.axes)
        return self.arrays[function.coords].shape[-2], self.arrays[function.coords].shape[-1]


def arrange(source: Source) -> Arrangement:
    """Every array of the layout in its place."""
    where = str(source.path)
    found = named(source.arrays, source.notes, where)
    made = grids(source.arrays, found, source.notes, where)
    axes = axes_of(source.notes, where)
    loose = found.pop("target_mask") if _has_loose_mask(source, found) else None
    values = {
        function.values: _values(function.values, found, made.get(function.name), _near(function, found), where)
        for function in FUNCTIONS
        if function.values in found
    }
    questions = _questions(values, where)
    lead = {"N": questions, "D": values["input_values"].shape[1]}
    placed = {**values, **_points(source.arrays, found, values, made, lead, axes, where)}
    masks = {
        function.mask: _values(function.mask, found, made.get(function.name), None, where)
        for function in FUNCTIONS
        if function.mask in found
    }
    if loose is not None:
        masks |= _loose_mask(loose, values, placed, made, masks, where)
    for name in ("times", "graph"):
        if name in found:
            placed[name] = _other(SPECS[name], found[name], lead, where)
    if axes is None and "input" in made:
        axes = made["input"].stated_axes()
    return Arrangement({**placed, **_fitting(masks, questions, where)}, made, axes, questions)


def _values(
    name: str, found: Mapping[str, Stored], grid: Grid | None, near: Stored | None, where: str
) -> Placed:
    """Values or a mask: the questions first, the channels last if there are any."""
    spec, stored = SPECS[name], found[name]
    _refuse_text(spec, stored, where)
    lead, inner = len(spec.axes) - 2, 1 if grid is None else len(grid.axes)
    shape, missing = stored.shape, lead + inner + 1 - len(stored.shape)
    shared = stored.shared and 1 <= missing <= lead
    if shared:
        shape = (1,) * missing + shape
    if len(shape) == lead + inner:
        # Without channels; an array without questions would look the same if its points were not counted.
        if grid is None and near is not None and not _as_many(shape[-1], near.shape):
            raise FileError(f"{where}: {name} is {stored.shape}, but {_wanted(spec, grid)}")
        shape = (*shape, 1)
    if len(shape) != lead + inner + 1:
        raise FileError(f"{where}: {name} is {stored.shape}, but {_wanted(spec, grid)}")
    if grid is not None and shape[lead:-1] != grid.shape:
        raise FileError(
            f"{where}: {name} is {stored.shape}, but its grid {', '.join(grid.names)} has {grid.shape} points"
        )
    full = (*shape[:lead], prod(shape[lead:-1]), shape[-1])
    return Placed(spec, stored, full, by_question=not shared)


def _near(function: Function, found: Mapping[str, Stored]) -> Stored | None:
    """The coordinates of a function, or those that stand in for them."""
    while function.coords not in found and function.stand_in is not None:
        function = _called(function.stand_in)
    return found.get(function.coords)


def _called(name: str) -> Function:
    return next(function for function in FUNCTIONS if function.name == name)


def _as_many(points: int, coords: tuple[int, ...]) -> bool:
    """Whether coordinates of that shape can be of so many points, with or without an axis for the coordinates."""
    return points == coords[-2] or points == coords[-1] > 1 if len(coords) > 1 else coords == (points,)


def _wanted(spec: Spec, grid: Grid | None) -> str:
    axes = [*spec.axes[:-2], *(spec.axes[-2:-1] if grid is None else grid.names)]
    one, full = f"({', '.join(axes)})", f"({', '.join([*axes, spec.axes[-1]])})"
    return f"{full} is wanted, the questions first, or {one} for one channel"


def _questions(values: Mapping[str, Placed], where: str) -> int:
    counts = {name: array.shape[0] for name, array in values.items() if array.by_question}
    if not counts:
        raise FileError(f"{where}: no array has an axis of questions")
    name, questions = next(iter(counts.items()))
    for other, count in counts.items():
        if count != questions:
            raise FileError(f"{where}: {name} has {questions} questions, but {other} has {count}")
    if not questions:
        raise FileError(f"{where} holds no questions: {name} is {values[name].stored.shape}")
    return questions


def _points(
    arrays: Mapping[str, Stored],
    found: Mapping[str, Stored],
    values: Mapping[str, Placed],
    made: Mapping[str, Grid],
    lead: Mapping[str, int],
    axes: tuple[Any, ...] | None,
    where: str,
) -> dict[str, Placed]:
    """Where each function is known, for those that have no grid."""
    placed: dict[str, Placed] = {}
    coordinates = next((len(grid.axes) for grid in made.values()), None)
    for function in FUNCTIONS:
        spec = SPECS[function.coords]
        if function.name in made:
            continue
        if function.coords in found:
            known = values[function.values].shape[-2] if function.values in values else None
            sizes = {**lead, spec.axes[-2]: known, "k": coordinates}
            placed[spec.name] = _read(spec, found[spec.name], sizes, None if axes is None else len(axes), where)
            coordinates = placed[spec.name].shape[-1]
        elif function.stand_in is None:
            raise FileError(absent(arrays, [spec.name], where))
        else:
            placed[spec.name] = _stand_in(spec, placed[_called(function.stand_in).coords], where)
    return placed


def _stand_in(spec: Spec, other: Placed, where: str) -> Placed:
    """The points of another function, which all of its examples must share."""
    if "D" in other.spec.axes:
        if other.shape[1] != 1:
            raise FileError(
                f"{where} has no {spec.name}; it can be left out only where all examples share "
                f"{other.spec.name}, not where that is {other.stored.shape}"
            )
        if "D" not in spec.axes:
            return replace(other, spec=spec, shape=(other.shape[0], *other.shape[2:]))
    return replace(other, spec=spec)


def _other(spec: Spec, stored: Stored, lead: Mapping[str, int], where: str) -> Placed:
    if spec.kind == "times":
        return _read(spec, stored, {"N": lead["N"], "D+1": lead["D"] + 1}, None, where)
    _refuse_text(spec, stored, where)
    return Placed(spec, stored, stored.shape, by_question=False)


def _read(
    spec: Spec, stored: Stored, sizes: Mapping[str, int | None], coordinates: int | None, where: str
) -> Placed:
    """The one reading of a shape that fits."""
    _refuse_text(spec, stored, where)
    fitting = _readings(spec.axes, stored.shape, sizes)
    if stored.shared:
        fitting = [full for full in fitting if full[0] == 1]
    if len(fitting) > 1 and coordinates is not None:  # what the note ``axes`` says may settle it
        fitting = [full for full in fitting if full[-1] == coordinates] or fitting
    if not fitting:
        counts = ", ".join(f"{axis} = {size}" for axis, size in sizes.items() if size is not None)
        raise FileError(
            f"{where}: {spec.name} is {stored.shape}, but {spec.shape} is wanted with {counts}; what all share "
            "may lack its first axes or have 1 there"
        )
    if len(fitting) > 1:
        raise FileError(
            f"{where}: {spec.name} is {stored.shape}, which can be read as "
            f"{' or as '.join(map(str, fitting))} of {spec.shape}; write it with all its axes, 1 where all share it"
        )
    (full,) = fitting
    return Placed(spec, stored, full, by_question=full[0] != 1)


def _readings(
    axes: tuple[str, ...], shape: tuple[int, ...], sizes: Mapping[str, int | None]
) -> list[tuple[int, ...]]:
    """All shapes with every axis that an array can be meant to have, 1 for each it lacks; none is there twice."""
    found = {}
    for kept in combinations(axes, len(shape)):
        lengths = dict(zip(kept, shape, strict=True))
        full = tuple(lengths.get(axis, 1) for axis in axes)
        lacks = set(axes) - set(kept)
        if lacks <= {"N", "D", "k"} and all(_fits(axis, n, sizes[axis]) for axis, n in zip(axes, full, strict=True)):
            found[full] = lacks
    # A single number a row is a coordinate of a point sooner than the only point of a question.
    if len(found) > 1 and shape[-1] == 1 and sizes[axes[-2]] is None:
        found = {full: lacks for full, lacks in found.items() if "k" not in lacks} or found
    return list(found)


def _fits(axis: str, length: int, size: int | None) -> bool:
    return size is None or length == size or (axis in _BROADCAST and length == 1)


def _has_loose_mask(source: Source, found: Mapping[str, Stored]) -> bool:
    """Whether there is an array called ``mask``, which generated files mean for the target alone."""
    return "mask" in source.arrays and "target_mask" in found and source.notes.get("format") != GENERATED


def _loose_mask(
    stored: Stored,
    values: Mapping[str, Placed],
    points: Mapping[str, Placed],
    made: Mapping[str, Grid],
    masks: Mapping[str, Placed],
    where: str,
) -> dict[str, Placed]:
    """An array called ``mask``: of points, for every function on as many; or of the targets of the questions."""
    _refuse_text(SPECS["target_mask"], stored, where)
    found: dict[str, Placed] = {}
    for function in FUNCTIONS:
        grid, spec = made.get(function.name), SPECS[function.mask]
        inner = (points[function.coords].shape[-2],) if grid is None else grid.shape
        known = values.get(function.values)
        lengths = {(), (1,), *(() if known is None else (known.shape[-1:],))}
        rest = stored.shape[len(inner) :]
        if stored.shape[: len(inner)] == inner and rest in lengths and spec.name not in masks:
            full = (*(1 for _ in spec.axes[:-2]), prod(inner), *(rest or (1,)))
            found[spec.name] = Placed(spec, stored, full, by_question=False, of_points=True)
        rest = stored.shape[1 + len(inner) :]
        if function.name == "target" and stored.shape[1 : 1 + len(inner)] == inner and rest in lengths:
            found[""] = Placed(spec, stored, (stored.shape[0], prod(inner), *(rest or (1,))), by_question=True)
    of_target = found.pop("", None)
    if of_target is not None and found:
        raise FileError(
            f"{where}: mask is {stored.shape}, which can be of the points or of the target of each question; "
            "call it target_mask, or input_mask, output_mask and query_mask"
        )
    if of_target is None and not found:
        raise FileError(
            f"{where}: mask is {stored.shape}, which fits neither the points of a function nor the target; "
            "a mask has 1 where a value was observed"
        )
    return found if of_target is None else {"target_mask": of_target}


def _fitting(masks: Mapping[str, Placed], questions: int, where: str) -> dict[str, Placed]:
    """Masks with 1 for the questions are shared by all."""
    found = {}
    for name, mask in masks.items():
        if mask.shape[0] not in (1, questions):
            raise FileError(f"{where}: there are {questions} questions, but {name} has {mask.shape[0]}")
        found[name] = replace(mask, by_question=mask.by_question and mask.shape[0] == questions)
    return found


def _refuse_text(spec: Spec, stored: Stored, where: str) -> None:
    if stored.dtype.kind in _ALLOWED[spec.kind]:
        return
    what = {"U": "text", "S": "text", "O": "text or objects", "c": "complex numbers", "f": "fractions"}
    words = what.get(stored.dtype.kind, str(stored.dtype))
    raise FileError(
        f"{where}: {spec.name} holds {words}, not {'whole numbers' if stored.dtype.kind == 'f' else 'numbers'}"
    )


__all__ = ["Arrangement", "Placed", "arrange"]
