"""What the arrays of a question file are called, and what they tell: one layout for HDF5, NetCDF-4 and npz.

N questions, D examples of each, n points of an input and m of an output, k coordinates, c channels. Functions
on grids may have one axis for each coordinate, ``(N, D, ny, nx)``: the names of the axes (NetCDF dimensions,
HDF5 dimension scales) lead to the arrays of coordinates along them. Where a file has no names, the note
``grid`` gives them: ``"y, x"``.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np

from chop.core.errors import FileError
from chop.core.labelled import AXIS_NAMES, CHANNEL_NAMES
from chop.files.sources import ArraySource, StoredArray, Values
from chop.problems.question_files import CASES_FORMAT

ANSWERS_FORMAT = "chop answers"
"""How answer files call themselves."""
ArrayKind = Literal["values", "coords", "mask", "times", "graph"]
StatedAxes = tuple[tuple[str, float | None], ...]
"""Names of the coordinates, with the periods of those that have one."""


@dataclass(frozen=True)
class Spec:
    """One array of the layout."""

    name: str
    grouped: str
    """The same array in files that keep functions as groups, as ``chop data`` writes them."""
    kind: ArrayKind
    axes: tuple[str, ...]
    """Every axis it can have; what all questions or examples share may leave out theirs."""
    meaning: str

    @property
    def shape(self) -> str:
        """The full shape, for a sentence."""
        return f"({', '.join(self.axes)})"


def _spec(name: str, grouped: str, kind: ArrayKind, axes: str, meaning: str) -> Spec:
    return Spec(name, grouped, kind, tuple(axes.split()), meaning)


LAYOUT = (
    _spec("input_values", "inputs/values", "values", "N D n c", "inputs of the examples"),
    _spec("output_values", "outputs/values", "values", "N D m c", "their outputs"),
    _spec("query_values", "query/values", "values", "N n c", "the input that is asked about"),
    _spec("input_coords", "inputs/coords", "coords", "N D n k", "where the example inputs are known"),
    _spec("output_coords", "outputs/coords", "coords", "N D m k", "where the example outputs are known"),
    _spec("query_coords", "query/coords", "coords", "N n k", "where the query is known"),
    _spec("at", "at", "coords", "N m k", "where the answer is wanted"),
    _spec("input_mask", "inputs/mask", "mask", "N D n c", "1 where an input was observed, else 0"),
    _spec("output_mask", "outputs/mask", "mask", "N D m c", "the same for outputs"),
    _spec("query_mask", "query/mask", "mask", "N n c", "the same for the query"),
    _spec("times", "times", "times", "N D+1", "time index of each example input and of the query"),
    _spec("graph", "graph", "graph", "2 E", "neighbouring output points, by their numbers"),
    _spec("target", "target", "values", "N m c", "the true answer; errors are computed then"),
    _spec("target_mask", "mask", "mask", "N m c", "1 where the target was observed, else 0"),
)
SPECS: Mapping[str, Spec] = {spec.name: spec for spec in LAYOUT}
REQUIRED = ("input_values", "output_values", "query_values")


@dataclass(frozen=True)
class Function:
    """One of the functions a question is made of, and the arrays that tell it."""

    name: str
    values: str
    coords: str
    mask: str
    stand_in: Function | None = None
    """The function whose points are taken where its own are left out, if all examples share them."""


INPUT = Function("input", "input_values", "input_coords", "input_mask")
OUTPUT = Function("output", "output_values", "output_coords", "output_mask", INPUT)
QUERY = Function("query", "query_values", "query_coords", "query_mask", INPUT)
TARGET = Function("target", "target", "at", "target_mask", OUTPUT)
ALL_FUNCTIONS = (INPUT, OUTPUT, QUERY, TARGET)


@dataclass(frozen=True)
class Grid:
    """The axes of a function by name, in the order of the array, with the coordinates along each."""

    axes: tuple[tuple[str, StoredArray], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name.rsplit("/", 1)[-1] for name, _ in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(stored.shape[0] for _, stored in self.axes)

    @property
    def points(self) -> int:
        return prod(self.shape)

    def along(self) -> tuple[Values, ...]:
        """The coordinates along each axis."""
        return tuple(stored.whole() for _, stored in self.axes)

    def coordinates(self) -> Values:
        """Those of all points, the last axis fastest: ``(n, k)``."""
        mesh = np.meshgrid(*self.along(), indexing="ij")
        return np.stack([part.reshape(-1) for part in mesh], axis=-1)

    def stated_axes(self) -> StatedAxes | None:
        """What the axes are called; None for a single x, whose period its points may show."""
        names = tuple(AXIS_NAMES.get(name, name) for name in self.names)
        return None if names == ("x",) else tuple((name, None) for name in names)


@dataclass(frozen=True)
class NamedArrays:
    """The arrays and notes of a file, looked up by the names of the layout."""

    source: ArraySource

    @cached_property
    def found(self) -> dict[str, StoredArray]:
        """The arrays of the layout under their plain names; clear words about what is missing or misspelt."""
        arrays, found = self.source.arrays, dict[str, StoredArray]()
        for spec in LAYOUT:
            spellings = [name for name in dict.fromkeys((spec.name, spec.grouped)) if name in arrays]
            if len(spellings) > 1:
                raise FileError(f"{self.where} has both {spec.name} and {spec.grouped}; keep one of them")
            if spellings:
                found[spec.name] = arrays[spellings[0]]
        self._refuse_misspelt(found)
        missing = [name for name in REQUIRED if name not in found]
        if missing:
            raise self.without(missing)
        return found

    @property
    def where(self) -> str:
        """The file, for a sentence."""
        return str(self.source.path)

    def _refuse_misspelt(self, found: Mapping[str, StoredArray]) -> None:
        """A mask under a wrong name would be left out in silence; an axis ``time`` is no ``times``."""
        free = [spec.name for spec in LAYOUT if spec.name not in found]
        known = {name for spec in LAYOUT for name in (spec.name, spec.grouped)}
        known.update(name for stored in found.values() for name in stored.dims if name is not None)
        known.update(*self._noted_grids.values())
        for name in self.source.arrays:
            near = [] if name in known else difflib.get_close_matches(name, free, n=1, cutoff=0.85)
            if near:
                raise FileError(
                    f"{self.where} has an array {name!r}; rename it to {near[0]!r} if that is meant"
                )

    def without(self, missing: list[str]) -> FileError:
        """What a file lacks, beside what it has."""
        there = ", ".join(sorted(self.source.arrays)[:12]) or "no arrays at all"
        return FileError(
            f"{self.where} has no {' and no '.join(missing)}; questions need {', '.join(REQUIRED)} and "
            f"input_coords, or coordinates along each axis (it has {there})"
        )

    @cached_property
    def _noted_grids(self) -> dict[str, tuple[str, ...]]:
        """The axes that the notes name: ``grid`` for all functions, ``output_grid`` for one."""
        names = ["grid", *(f"{function.name}_grid" for function in ALL_FUNCTIONS)]
        given = {name: self.source.text_note(name) for name in names if name in self.source.notes}
        return {name: tuple(word.strip() for word in text.split(",")) for name, text in given.items()}

    def grids(self) -> dict[str, Grid]:
        """The grids of those functions that have one, by the name of the function."""
        made: dict[str, Grid] = {}
        for function in ALL_FUNCTIONS:
            names = self._grid_axes(function)
            if names is not None:
                made[function.name] = Grid(tuple((name, self._coordinates_along(name)) for name in names))
            elif function.coords not in self.found and function.stand_in and function.stand_in.name in made:
                made[function.name] = made[function.stand_in.name]
        return made

    def _grid_axes(self, function: Function) -> tuple[str, ...] | None:
        own, noted = f"{function.name}_grid", self._noted_grids
        if function.coords in self.found:
            if own in noted:
                raise FileError(f"{self.where} has both {own} and {function.coords}; keep one of them")
            return None
        if own in noted or "grid" in noted:
            return noted.get(own) or noted["grid"]
        if function.values not in self.found or "input_coords" in self.found:
            return None
        stored, lead = self.found[function.values], len(SPECS[function.values].axes) - 2
        inner = list(zip(stored.dims, stored.shape, strict=True))[lead:]
        if inner and (inner[-1][0] in CHANNEL_NAMES or not self._has_coordinates(*inner[-1])):
            inner.pop()
        names = tuple(
            name for name, length in inner if name is not None and self._has_coordinates(name, length)
        )
        return names if names and len(names) == len(inner) else None

    def _has_coordinates(self, axis: str | None, length: int) -> bool:
        """Whether there are numbers under the name of an axis, one for each point along it."""
        stored = None if axis is None or axis in SPECS else self.source.arrays.get(axis)
        return stored is not None and stored.shape == (length,) and stored.dtype.kind in "iuf"

    def _coordinates_along(self, axis: str) -> StoredArray:
        stored = self.source.arrays.get(axis)
        if stored is None or len(stored.shape) != 1 or stored.dtype.kind not in "iuf":
            what = "there is none" if stored is None else f"it is {stored.dtype} {stored.shape}"
            raise FileError(
                f"{self.where}: the grid needs an array {axis!r} of numbers along that axis; {what}"
            )
        return stored

    def stated_axes(self) -> StatedAxes | None:
        """Names and periods of the coordinates as the file gives them, None if it does not.

        The note ``axes`` reads like ``"t, x=1"``: names in order, a period behind those that have one.
        """
        if self.source.text_note("format") == CASES_FORMAT:
            given = settings_of(self.source)["axes"]
            return None if given is None else tuple((name, period) for name, period in given)
        if "axes" not in self.source.notes:
            return None
        found, text = [], self.source.text_note("axes")
        for part in text.split(","):
            name, equals, period = (word.strip() for word in part.partition("="))
            try:
                found.append((name, float(period) if equals else None))
            except ValueError:
                raise FileError(f"{self.where}: axes reads like 't, x=1', not {text[:60]!r}") from None
        return tuple(found)


def settings_of(source: ArraySource) -> dict[str, Any]:
    """How a generated file was made, ``axes`` among it: pairs of names and periods, or None."""
    try:
        settings: dict[str, Any] = {"axes": None, **json.loads(source.text_note("settings"))}
        if settings["axes"] is not None:
            settings["axes"] = [(str(name), period) for name, period in settings["axes"]]
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise FileError(f"{source.path}: its settings cannot be read; make it again with chop data") from None
    return settings


__all__ = [
    "ALL_FUNCTIONS", "ANSWERS_FORMAT", "INPUT", "LAYOUT", "OUTPUT", "QUERY", "REQUIRED", "SPECS", "TARGET",
    "Function", "Grid", "NamedArrays", "Spec", "StatedAxes", "settings_of",
]  # fmt: skip
