"""How the arrays of a file are meant: which axes each shape has.

The values come first; their sizes tell how all others are meant. Where two ways to read a shape fit, the file
must say which one is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from chop.core.errors import FileError
from chop.files.layout import ALL_FUNCTIONS, SPECS, TARGET, Function, Grid, NamedArrays, Spec, StatedAxes
from chop.files.sources import ArraySource, StoredArray
from chop.problems.question_files import CASES_FORMAT

_ALLOWED = {"mask": "biuf", "times": "iu", "graph": "iu", "values": "iuf", "coords": "iuf"}
_WORDS = {"U": "text", "S": "text", "O": "text or objects", "c": "complex numbers", "f": "fractions"}
_SHARED = ("N", "D")
"""Axes that may be left out or have length 1: all questions, or all examples, share what is there."""


@dataclass(frozen=True)
class PlacedArray:
    """An array whose axes are understood."""

    spec: Spec
    stored: StoredArray
    shape: tuple[int, ...]
    """One length for each axis of the layout, 1 where it was left out."""
    by_question: bool
    """Whether its first axis is the questions'; otherwise all share it."""
    of_points: bool = False
    """Whether it is a mask of points, whatever function is known there."""


@dataclass(frozen=True)
class Arrangement:
    """A file that is understood: its arrays, and the grids of functions that have no array of points."""

    arrays: Mapping[str, PlacedArray]
    grids: Mapping[str, Grid]
    axes: StatedAxes | None
    questions: int

    def points(self, function: Function) -> tuple[int, int]:
        """How many points a function is known at, and how many coordinates each has."""
        grid = self.grids.get(function.name)
        if grid is not None:
            return grid.points, len(grid.axes)
        points, coordinates = self.arrays[function.coords].shape[-2:]
        return points, coordinates


def arrange(source: ArraySource) -> Arrangement:
    """What a file holds, by the layout."""
    return _Arranging(NamedArrays(source)).arrangement()


class _Arranging:
    """Puts array after array in its place; what has its place tells how the next are meant."""

    def __init__(self, named: NamedArrays) -> None:
        self.named, self.where, self.found = named, named.where, named.found
        self.generated = named.source.text_note("format") == CASES_FORMAT
        self.grids = named.grids()
        self.axes = named.stated_axes()
        self.arrays: dict[str, PlacedArray] = {}
        self.sizes: dict[str, int] = {}

    def arrangement(self) -> Arrangement:
        for function in ALL_FUNCTIONS:
            if function.values in self.found:
                self.arrays[function.values] = self._values(function.values, function)
        self.sizes = {"N": self._questions(), "D": self.arrays["input_values"].shape[1]}
        self._place_coordinates()
        self._place_masks()
        if "times" in self.found:
            sizes = {"N": self.sizes["N"], "D+1": self.sizes["D"] + 1}
            self.arrays["times"] = self._shared("times", sizes, None)
        if "graph" in self.found:
            spec, stored = self._numbers("graph")
            self.arrays["graph"] = PlacedArray(spec, stored, stored.shape, by_question=False)
        if self.axes is None and "input" in self.grids:
            self.axes = self.grids["input"].stated_axes()
        return Arrangement(self.arrays, self.grids, self.axes, self.sizes["N"])

    def _numbers(self, name: str) -> tuple[Spec, StoredArray]:
        """An array of the file, which must hold what it should."""
        spec, stored = SPECS[name], self.found[name]
        if stored.dtype.kind not in _ALLOWED[spec.kind]:
            held = _WORDS.get(stored.dtype.kind, str(stored.dtype))
            wanted = "whole numbers" if stored.dtype.kind == "f" else "numbers"
            raise FileError(f"{self.where}: {name} holds {held}, not {wanted}")
        return spec, stored

    def _values(self, name: str, function: Function) -> PlacedArray:
        """Values or a mask: the questions first, the points or the axes of a grid, then channels, if any."""
        spec, stored = self._numbers(name)
        grid = self.grids.get(function.name)
        lead, inner = len(spec.axes) - 2, 1 if grid is None else len(grid.axes)
        shape, missing = stored.shape, lead + inner + 1 - len(stored.shape)
        shared = stored.is_shared() and 1 <= missing <= lead
        if shared:
            shape = (1,) * missing + shape
        # An array without questions would look like one without channels if its points were not counted.
        elif missing == 1 and (spec.kind == "mask" or self._as_many(shape[-1], function)):
            shape = (*shape, 1)
        if len(shape) != lead + inner + 1:
            axes = [*spec.axes[:-2], *(spec.axes[-2:-1] if grid is None else grid.names)]
            full, one = ", ".join([*axes, spec.axes[-1]]), ", ".join(axes)
            raise FileError(
                f"{self.where}: {name} is {stored.shape}, but ({full}) is wanted, the questions first, "
                f"or ({one}) for one channel"
            )
        if grid is not None and shape[lead:-1] != grid.shape:
            names = ", ".join(grid.names)
            raise FileError(f"{self.where}: {name} is {stored.shape}, but its grid {names} is {grid.shape}")
        full_shape = (*shape[:lead], prod(shape[lead:-1]), shape[-1])
        return PlacedArray(spec, stored, full_shape, by_question=not shared)

    def _as_many(self, points: int, function: Function) -> bool:
        """Whether a function's coordinates, or those that stand in for them, can be of so many points."""
        while function.coords not in self.found and function.stand_in is not None:
            function = function.stand_in
        if function.coords not in self.found:
            return True
        coords = self.found[function.coords].shape
        return points == coords[-2] or points == coords[-1] > 1 if len(coords) > 1 else coords == (points,)

    def _questions(self) -> int:
        counts = {name: array.shape[0] for name, array in self.arrays.items() if array.by_question}
        if not counts and self.generated:  # all questions are the same
            counts = {"rows": self.named.source.number_note("rows") or 0}
        if not counts:
            raise FileError(f"{self.where}: no array has an axis of questions")
        name, questions = next(iter(counts.items()))
        for other, count in counts.items():
            if count != questions:
                raise FileError(f"{self.where}: {name} has {questions} questions, but {other} has {count}")
        if not questions:
            raise FileError(f"{self.where} holds no questions: {name} is {self.found[name].shape}")
        return questions

    def _place_coordinates(self) -> None:
        """Where each function is known, for those that have no grid."""
        coordinates = next((len(grid.axes) for grid in self.grids.values()), None)
        for function in ALL_FUNCTIONS:
            spec, values = SPECS[function.coords], self.arrays.get(function.values)
            if function.name in self.grids:
                continue
            if spec.name in self.found:
                points = None if values is None else values.shape[-2]
                sizes = {**self.sizes, spec.axes[-2]: points, "k": coordinates}
                named = None if self.axes is None else len(self.axes)
                self.arrays[spec.name] = self._shared(spec.name, sizes, named)
                coordinates = self.arrays[spec.name].shape[-1]
            elif function.stand_in is None:
                raise self.named.without([spec.name])
            else:
                self.arrays[spec.name] = self._standing_in(spec, self.arrays[function.stand_in.coords])

    def _standing_in(self, spec: Spec, other: PlacedArray) -> PlacedArray:
        """The points of another function, which all of its examples must share."""
        if "D" not in other.spec.axes:
            return replace(other, spec=spec)
        if other.shape[1] != 1:
            raise FileError(
                f"{self.where} has no {spec.name}; it can be left out only where all examples share "
                f"{other.spec.name}, not where that is {other.stored.shape}"
            )
        shape = other.shape if "D" in spec.axes else (other.shape[0], *other.shape[2:])
        return replace(other, spec=spec, shape=shape)

    def _shared(self, name: str, sizes: Mapping[str, int | None], coordinates: int | None) -> PlacedArray:
        """Coordinates or times, which may lack axes: the one way to read their shape that fits the sizes.

        A size is None where nothing else tells it. ``coordinates`` is how many the file names, which may
        settle what the sizes leave open.
        """
        spec, stored = self._numbers(name)
        fitting = _full_shapes(spec.axes, stored.shape, sizes)
        if stored.is_shared():
            fitting = [full for full in fitting if full[0] == 1]
        if len(fitting) > 1 and coordinates is not None:
            fitting = [full for full in fitting if full[-1] == coordinates] or fitting
        if not fitting:
            counts = ", ".join(f"{axis} = {size}" for axis, size in sizes.items() if size is not None)
            raise FileError(
                f"{self.where}: {name} is {stored.shape}, but {spec.shape} is wanted, with {counts}; "
                "axes that all share may be left out or have length 1"
            )
        if len(fitting) > 1:
            raise FileError(
                f"{self.where}: {name} is {stored.shape}, which can be meant as "
                f"{' or as '.join(map(str, fitting))} of {spec.shape}; write all axes, 1 where all share it"
            )
        (full,) = fitting
        return PlacedArray(spec, stored, full, by_question=full[0] != 1)

    def _place_masks(self) -> None:
        """Which values were observed: one mask for each function, or an array ``mask`` of the points."""
        # Generated files mean the target alone.
        loose = "mask" in self.named.source.arrays and "target_mask" in self.found and not self.generated
        for function in ALL_FUNCTIONS:
            name, wanted = function.mask, self.sizes["N"]
            if name in self.found and not (loose and function is TARGET):
                mask = self._values(name, function)
                count = mask.shape[0]
                if count not in (1, wanted):
                    raise FileError(f"{self.where}: {name} has {count} questions, not {wanted}")
                self.arrays[name] = replace(mask, by_question=count > 1)
        if loose:
            self.arrays |= self._loose_mask()

    def _loose_mask(self) -> dict[str, PlacedArray]:
        """An array ``mask``: of points, for every function on as many; or of the questions' targets."""
        spec, stored = self._numbers("target_mask")
        of_points = {
            function.mask: PlacedArray(SPECS[function.mask], stored, shape, by_question=False, of_points=True)
            for function in ALL_FUNCTIONS
            if function.mask not in self.arrays and (shape := self._mask_shape(stored, function))
        }
        of_targets = self._mask_shape(stored, TARGET, (self.sizes["N"],))
        if of_targets and of_points:
            raise FileError(
                f"{self.where}: mask is {stored.shape}, which can be of the points or of the target of each "
                "question; call it target_mask, or input_mask, output_mask and query_mask"
            )
        if not of_targets and not of_points:
            raise FileError(
                f"{self.where}: mask is {stored.shape}, which fits neither the points of a function nor the "
                "targets; a mask has 1 where a value was observed, else 0"
            )
        if of_targets:
            return {spec.name: PlacedArray(spec, stored, of_targets, by_question=True)}
        return of_points

    def _mask_shape(
        self, stored: StoredArray, function: Function, questions: tuple[int, ...] = ()
    ) -> tuple[int, ...] | None:
        """The full shape of a mask of a function's points; None if it is none."""
        grid = self.grids.get(function.name)
        points = (self.arrays[function.coords].shape[-2],) if grid is None else grid.shape
        values = self.arrays.get(function.values, self.arrays["output_values"])
        inner = (*questions, *points)
        channels = stored.shape[len(inner) :]
        if stored.shape[: len(inner)] != inner or channels not in ((), (1,), values.shape[-1:]):
            return None
        lead = questions or (1,) * (len(SPECS[function.mask].axes) - 2)
        return (*lead, prod(points), *(channels or (1,)))


def _full_shapes(
    axes: tuple[str, ...], shape: tuple[int, ...], sizes: Mapping[str, int | None]
) -> list[tuple[int, ...]]:
    """Every shape with all axes that an array can be meant to have, 1 for each that it lacks."""
    found: dict[tuple[int, ...], set[str]] = {}
    for given in combinations(axes, len(shape)):
        lengths, lacks = dict(zip(given, shape, strict=True)), set(axes) - set(given)
        full = {axis: lengths.get(axis, 1) for axis in axes}
        fits = all(sizes[axis] in (None, n) or (axis in _SHARED and n == 1) for axis, n in full.items())
        if fits and lacks <= {*_SHARED, "k"}:
            found.setdefault(tuple(full.values()), lacks)
    # A single number in a row is the coordinate of a point sooner than the only point of a question.
    if len(found) > 1 and shape[-1] == 1 and sizes[axes[-2]] is None:
        return [full for full, lacks in found.items() if "k" not in lacks]
    return list(found)
