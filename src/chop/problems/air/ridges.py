"""Mountains between stations, which keep their air apart: the edges of a graph that the paper leaves out.

A line of grid cells runs from one station to the other. Where it crosses a ridge, that is, where a few of its
cells lie far above one of the two stations, they are no neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.lib.format import open_memmap

from chop.core.errors import DataError
from chop.numerics import Array

ALTITUDES = "altitude.npy"
"""The file that lies beside the data."""
NORTH, SOUTH, WEST, EAST = 55.0, 15.0, 70.0, 140.0  # degrees
HIGHER = 1200.0  # metres above a station
CELLS = 3  # that are so high make a ridge

_BROKEN = (TokenError, SyntaxError, ValueError, TypeError, ArithmeticError, RuntimeError, MemoryError)
"""What numpy raises on a file that it did not write."""


@dataclass(frozen=True, eq=False)
class Altitudes:
    """Heights on a regular grid: rows from latitude 55 down to 15, columns from longitude 70 to 140.

    ``metres`` ``(rows, columns)`` may be whole numbers, of which it makes floating-point ones; what is not
    finite counts as 0 m.
    """

    metres: Array

    def __post_init__(self) -> None:
        given = self.metres
        if given.ndim != 2 or min(given.shape) < 2 or given.dtype.kind not in "fiu":
            raise DataError(
                f"altitudes are numbers on a grid of 2 rows and 2 columns or more, not {given.dtype} "
                f"{given.shape}"
            )
        metres = np.array(given, dtype=np.result_type(given.dtype, np.float32))
        metres[~np.isfinite(metres)] = 0.0
        object.__setattr__(self, "metres", metres)

    def cells(self, lon: Array, lat: Array) -> Array:
        """Row and column ``(..., 2)`` of places; those outside take the nearest at the border."""
        last = np.array(self.metres.shape) - 1
        south, east = (NORTH - lat) / ((NORTH - SOUTH) / last[0]), (lon - WEST) / ((EAST - WEST) / last[1])
        return np.clip(np.stack([south, east], axis=-1).astype(np.int64), 0, last)

    def ridge_between(self, lon: Array, lat: Array, other_lon: Array, other_lat: Array) -> Array:
        """Whether at least 3 cells on the way to another place ``(E,)`` lie over 1200 m above one of the two.

        The way is Bresenham's line from the first cell to the last, both among them. Where it passes right
        between two cells it takes the one farther from where it began: the way back may be another one.
        """
        start, end = self.cells(lon, lat), self.cells(other_lon, other_lat)
        foot, other_foot = self.metres[tuple(start.T)], self.metres[tuple(end.T)]
        apart = np.abs(end - start)
        steps = apart.max(axis=-1)
        high, other_high = np.zeros((2, len(start)), dtype=np.int64)
        for step in range(steps.max(initial=-1) + 1):
            gone = (2 * step * apart + steps[:, None]) // np.maximum(2 * steps, 1)[:, None]
            height = self.metres[tuple((start + np.sign(end - start) * np.minimum(gone, apart)).T)]
            on = step <= steps
            high += on & (height - foot > HIGHER)
            other_high += on & (height - other_foot > HIGHER)
        return np.asarray((high >= CELLS) | (other_high >= CELLS))


def altitudes_beside(data: Path) -> Altitudes | None:
    """The altitudes in the folder of a data file, if there are any."""
    path = data.with_name(ALTITUDES)
    if not path.exists():
        return None
    try:
        # Mapped, not read: what claims more than the file holds is refused before memory is taken, and
        # nothing is ever unpickled.
        return Altitudes(open_memmap(path, mode="r"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except _BROKEN:
        raise DataError(f"{path} is not an array of numbers as numpy.save writes it") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
