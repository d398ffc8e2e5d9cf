"""Functions on grids as scientists keep them: values with one axis for each coordinate, ``(N, D, ny, nx)``.

The names of the axes (NetCDF dimensions, HDF5 dimension scales) lead to the arrays of coordinates along them.
Where a file has no names, the note ``grid`` gives them: ``"y, x"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from chop.core.errors import FileError
from chop.core.labelled import AXIS_NAMES, CHANNEL_NAMES
from chop.files.layout import FUNCTIONS, SPECS, Function, noted_grids
from chop.files.sources import Stored, Values


@dataclass(frozen=True)
class Grid:
    """The axes of a function by name, in the order of the array, with the coordinates along each."""

    axes: tuple[tuple[str, Stored], ...]

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

    def stated_axes(self) -> tuple[tuple[str, float | None], ...] | None:
        """What the axes are called; None for a single x, whose period its points may show."""
        names = tuple(AXIS_NAMES.get(name, name) for name in self.names)
        return None if names == ("x",) else tuple((name, None) for name in names)


def grids(
    arrays: Mapping[str, Stored], found: Mapping[str, Stored], notes: Mapping[str, Any], where: str
) -> dict[str, Grid]:
    """The grids of those functions that have one, by the name of the function."""
    made: dict[str, Grid] = {}
    for function in FUNCTIONS:
        names = _names(function, arrays, found, noted_grids(notes), where)
        if names is not None:
            made[function.name] = Grid(tuple((name, _coordinates(arrays, name, where)) for name in names))
        elif function.coords not in found and function.stand_in in made:
            made[function.name] = made[function.stand_in]
    return made


def _names(
    function: Function,
    arrays: Mapping[str, Stored],
    found: Mapping[str, Stored],
    noted: Mapping[str, tuple[str, ...]],
    where: str,
) -> tuple[str, ...] | None:
    own = f"{function.name}_grid"
    if function.coords in found:
        if own in noted:
            raise FileError(f"{where} has both {own} and {function.coords}; keep one of them")
        return None
    if own in noted or "grid" in noted:
        return noted.get(own) or noted["grid"]
    if function.values not in found or "input_coords" in found:
        return None
    stored, lead = found[function.values], len(SPECS[function.values].axes) - 2
    inner = list(zip(stored.dims, stored.shape, strict=True))[lead:]
    if inner and (inner[-1][0] in CHANNEL_NAMES or not _leads(arrays, *inner[-1])):
        inner.pop()
    names = tuple(name for name, length in inner if name is not None and _leads(arrays, name, length))
    return names if names and len(names) == len(inner) else None


def _leads(arrays: Mapping[str, Stored], name: str | None, length: int) -> bool:
    """Whether an axis has coordinates: numbers under its name, one for each point along it."""
    stored = None if name is None or name in SPECS else arrays.get(name)
    return stored is not None and stored.shape == (length,) and stored.dtype.kind in "iuf"


def _coordinates(arrays: Mapping[str, Stored], name: str, where: str) -> Stored:
    stored = arrays.get(name)
    if stored is None or len(stored.shape) != 1 or stored.dtype.kind not in "iuf":
        what = "there is none" if stored is None else f"it is {stored.dtype} {stored.shape}"
        raise FileError(f"{where}: the grid needs an array {name!r} of numbers along that axis; {what}")
    return stored


__all__ = ["Grid", "grids"]
