"""Training batches of the cubic family, made while training runs.

Truth costs time, so a block of solved fluxes serves a few batches before the next block is made. A batch
is a function of (settings, number) alone: training that was interrupted at batch k goes on from batch k
with the very same data, without storing any.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from chop.core.errors import ProblemError, SolveError
from chop.core.prompt import Axis, Field, Prompt
from chop.problems.case import Case
from chop.problems.conservation.flux import CUBIC, Flux
from chop.problems.conservation.initial import GRID, InitialCondition
from chop.problems.conservation.solver import solve
from chop.problems.random_streams import random_stream
from chop.problems.training_stream import Stream

Array = NDArray[Any]
Mode = Literal["mixed", "pairs", "windows"]
_ROLES = _INITIAL, _START, _COEFFICIENTS, _CHOICE = range(4)


@dataclass(frozen=True)
class CubicStream(Stream):
    """Endless cases of random fluxes a u^3 + b u^2 + c u with (a, b, c) uniform in [-1, 1]^3.

    Every case has ``batch`` fluxes with ``examples`` pairs and a query each (`Case.pairs` joins them).
    A row is made of random pairs of its flux (other trajectories, other times) or of one consecutive
    window; ``mode`` "mixed" takes half of each, and ``case.rows["window"]`` tells which is which.
    A block solves ``trajectories`` x ``frames`` for each flux and serves ``reuse`` batches.
    """

    batch: int = 16
    seed: int = 0
    split: str = "train"
    mode: Mode = "mixed"
    examples: int = 5
    trajectories: int = 6
    frames: int = 20
    reuse: int = 8
    step: float = 0.1
    length: float = 1.0

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ProblemError(f"mode must be one of {', '.join(get_args(Mode))}, not {self.mode!r}")
        if min(self.batch, self.examples, self.trajectories, self.reuse) < 1:
            raise ProblemError("batch, examples, trajectories and reuse must be 1 or more")
        if self.frames < self.examples + 2:
            raise ProblemError(
                f"a window of {self.examples} pairs and a query needs {self.examples + 2} frames, "
                f"not {self.frames}"
            )

    def case(self, number: int) -> Case:
        """Batch ``number``, in float32."""
        coefficients, frames = _block(self, number // self.reuse)
        stream = random_stream("conservation stream", self.split, self.seed, number, _CHOICE)
        inputs, outputs = zip(
            *(self._pairs(row, kind, stream) for row, kind in self._plan(frames)), strict=True
        )
        x, y = (torch.from_numpy(np.stack(part)).unsqueeze(-1) for part in (inputs, outputs))
        coords = (torch.arange(GRID, dtype=torch.float64) / GRID).unsqueeze(-1)
        return Case(
            prompt=Prompt(
                inputs=Field(coords, x[:, :-1]),
                outputs=Field(coords, y[:, :-1]),
                query=Field(coords, x[:, -1]),
                at=coords,
                axes=(Axis("x", 1.0),),
            ),
            target=y[:, -1],
            meta={"problem": "conservation stream", "flux": CUBIC, "seed": self.seed, "number": number},
            rows={
                "window": np.array([kind for _, kind in self._plan(frames)]),
                **{name: coefficients[:, i] for i, name in enumerate("abc")},
            },
        )

    def _plan(self, frames: Array) -> list[tuple[Array, bool]]:
        """Each flux's frames and whether it shows a window."""
        kinds = {"pairs": (False, False), "windows": (True, True), "mixed": (False, True)}[self.mode]
        return [(row, kinds[i % 2]) for i, row in enumerate(frames)]

    def _pairs(self, frames: Array, window: bool, stream: np.random.Generator) -> tuple[Array, Array]:
        count = self.examples + 1
        if window:
            row, start = stream.integers(self.trajectories), stream.integers(self.frames - count)
            rows, starts = np.full(count, row), start + np.arange(count)
        else:
            steps = self.frames - 1
            rows, starts = np.divmod(stream.permutation(self.trajectories * steps)[:count], steps)
        return frames[rows, starts], frames[rows, starts + 1]


@lru_cache(maxsize=2)
def _block(settings: CubicStream, number: int) -> tuple[Array, Array]:
    """Coefficients (batch, 3) and frames (batch, trajectories, frame, points), float32."""
    fluxes, each = settings.batch, settings.trajectories
    condition = InitialCondition(length=settings.length)

    def stream(index: int, role: int) -> np.random.Generator:
        return random_stream("conservation stream", settings.split, settings.seed, index, role)

    first = number * fluxes
    coefficients = np.array([stream(first + i, _COEFFICIENTS).uniform(-1, 1, 3) for i in range(fluxes)])
    rows = range(first * each, (first + fluxes) * each)
    starts = np.array([stream(i, _START).uniform(0, settings.step) for i in rows])
    solution = solve(
        CUBIC,
        np.array([condition.draw(stream(i, _INITIAL), GRID) for i in rows]),
        starts[:, None] + settings.step * np.arange(settings.frames),
        parameters=np.repeat(coefficients, each, axis=0),
        speed=np.repeat(Flux.parse(CUBIC).speed(condition.span, coefficients), each),
    )
    if solution.failures:
        raise SolveError(solution.failures, len(rows))
    frames = solution.values.reshape(fluxes, each, settings.frames, GRID).astype(np.float32)
    return coefficients, frames


__all__ = ["CubicStream", "Mode"]
