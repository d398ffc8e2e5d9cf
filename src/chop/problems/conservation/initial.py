"""Initial conditions of conservation laws: Gaussian fields that stay within the data range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chop.core.errors import ProblemError
from chop.numerics.random_field import CircleField, on_grid
from chop.numerics.tape import Array
from chop.problems.conservation.flux import Range

GRID = 100
_TRIES = 1000


@dataclass(frozen=True)
class InitialCondition:
    """``mean + scale * (Gaussian field of a length scale)``, drawn again until inside the range."""

    length: float = 1.0
    mean: float = 0.0
    scale: float = 1.0
    span: Range = (-3.0, 3.0)

    def draw(self, stream: np.random.Generator, points: int) -> Array:
        """One initial condition. The 100-point grid decides what is inside, so that refining the grid
        does not change the function; what a finer grid sees beyond the range in between is cut off."""
        if points < 4:
            raise ProblemError(f"points must be 4 or more, not {points}")
        field = CircleField(self.length)
        low, high = self.span
        for _ in range(_TRIES):
            drawn = field.draw(stream)
            seen = self.mean + self.scale * on_grid(drawn, GRID)
            if low < seen.min() and seen.max() < high:
                if points == GRID:
                    return seen
                return np.clip(self.mean + self.scale * on_grid(drawn, points), low, high)
        raise ProblemError(
            f"no initial condition with mean {self.mean} and scale {self.scale} stayed within "
            f"[{low}, {high}] in {_TRIES} draws; change mean, scale or bound"
        )


__all__ = ["GRID", "InitialCondition"]
