"""Training batches of mean-field control, made while training runs; batch k is always the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch

from chop.core.errors import ProblemError
from chop.numerics.heat import SubGrid
from chop.problems.case import EXAMPLE_COUNT, Case, Stream
from chop.problems.mfc.sampling import (
    FAMILIES,
    POINTS,
    TIME_LEVELS,
    OperatorFamily,
    draw_operators,
    even_grid,
    family_named,
    pairs_case,
    time_indices,
)
from chop.problems.random_streams import random_stream

Spacing = Literal["mixed", "even", "random", "rows"]
_GRID = 2  # a role of its own beside those of the operators


@dataclass(frozen=True)
class MfcStream(Stream):
    """Endless cases with ``batch`` operators each, one family after the other.

    Functions of (t, x) are given on sub-grids of ``times`` x ``points`` that change from batch to batch,
    so that a network learns to be used on others: evenly spread with a random offset, or drawn at random
    without replacement ("mixed": one or the other by chance). "rows" chooses times and points apart: times
    even or at random, points even with a random offset (a fifth of those below 20 at random). Functions
    of x alone have all 100 points.
    """

    batch: int = 16
    seed: int = 0
    split: str = "train"
    families: tuple[str, ...] = tuple(FAMILIES)
    length: float = 1.0
    examples: int = EXAMPLE_COUNT
    times: int = 10
    points: int = 10
    spacing: Spacing = "mixed"

    def __post_init__(self) -> None:
        if self.spacing not in get_args(Spacing):
            raise ProblemError(f"spacing must be one of {', '.join(get_args(Spacing))}, not {self.spacing!r}")
        if min(self.batch, self.examples, len(self.families)) < 1:
            raise ProblemError("batch, examples and the number of families must be 1 or more")
        for name in self.families:
            family_named(name)
        even_grid((0.0, 0.5), self.times, self.points)

    def case(self, number: int) -> Case:
        """Batch ``number``, in float32."""
        family = FAMILIES[self.families[number % len(self.families)]]
        into, out = self.grids(family, number)
        index = number * self.batch + np.arange(self.batch, dtype=np.uint64)
        x, y, condition = draw_operators(
            "mfc stream", family, self.length, self.examples + 1, self.seed, self.split, index, into, out
        )
        meta = {"problem": "mfc stream", "family": family.name, "seed": self.seed, "number": number}
        return pairs_case(x, y, into, out, torch.float32, meta, {"index": index, "condition": condition})

    def grids(self, family: OperatorFamily, number: int) -> tuple[SubGrid, SubGrid]:
        """The sub-grids of batch ``number``."""
        stream = random_stream("mfc stream", self.split, self.seed, number, _GRID)
        even = self.spacing == "even" or (self.spacing in ("mixed", "rows") and stream.random() < 0.5)
        into = self._grid(family.input_window or (0.0, 0.0), even, stream)
        return into, self._grid(family.output_window, even, stream)

    def _grid(self, window: tuple[float, float], even: bool, stream: np.random.Generator) -> SubGrid:
        if window[0] == window[1]:
            return even_grid(window)
        grid, (first, last) = even_grid(window, self.times, self.points), time_indices(window)
        if even and self.spacing != "rows":
            shift = int(stream.integers(POINTS)) / POINTS
            return SubGrid(grid.times, tuple(sorted(round((x + shift) % 1.0, 12) % 1.0 for x in grid.points)))
        rows = first + np.sort(stream.permutation(last - first + 1)[: self.times])
        times = tuple(rows / (TIME_LEVELS - 1))
        if self.spacing != "rows":
            return SubGrid(times, tuple(np.sort(stream.permutation(POINTS)[: self.points]) / POINTS))
        offset, scattered = int(stream.integers(POINTS)), stream.random() < 0.2
        columns = np.round(np.array(grid.points) * POINTS).astype(int)
        if scattered and self.points < 20:
            columns = stream.permutation(POINTS)[: self.points]
        return SubGrid(grid.times if even else times, tuple(np.sort((columns + offset) % POINTS) / POINTS))
