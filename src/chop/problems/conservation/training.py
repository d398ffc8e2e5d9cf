"""Training data of the cubic family, made while training runs.

Truth costs time, so a block of solved fluxes serves several batches. A batch is a function of (settings,
number) alone: training that was interrupted at batch k goes on from batch k with the very same data,
without storing any.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import torch

from chop.core.errors import ProblemError, SolveError
from chop.numerics import Array
from chop.problems.case import EXAMPLE_COUNT, Case, Stream
from chop.problems.conservation.flux import CUBIC, Flux
from chop.problems.conservation.sampling import FRAME_STEP, GRID, InitialCondition, circle_prompt
from chop.problems.conservation.solver import solve
from chop.problems.random_streams import random_stream

Mode = Literal["mixed", "pairs", "windows"]
_ROLES = _INITIAL, _START, _COEFFICIENTS, _CHOICE = range(4)


def solve_cubics(coefficients: Array, initial: Array, starts: Array, step: float, frames: int) -> Array:
    """Frames ``(fluxes, trajectories, frame, points)``, float32, of the fluxes a u^3 + b u^2 + c u.

    ``coefficients`` is ``(fluxes, 3)``; ``initial`` ``(rows, points)`` and the times of the first frames,
    ``starts`` ``(rows,)``, go through the trajectories of one flux after the other.
    """
    fluxes, rows = len(coefficients), len(initial)
    each = rows // fluxes
    solution = solve(
        CUBIC,
        initial,
        starts[:, None] + step * np.arange(frames),
        parameters=np.repeat(coefficients, each, axis=0),
        speed=np.repeat(Flux.parse(CUBIC).speed(InitialCondition().span, coefficients), each),
    )
    if solution.failures:
        raise SolveError(solution.failures, rows)
    return solution.values.reshape(fluxes, each, frames, -1).astype(np.float32)


def draw_pairs(stream: np.random.Generator, frames: Array, count: int, window: bool) -> tuple[Array, Array]:
    """Which ``count`` steps of one flux's frames ``(trajectories, frame, points)`` are shown as pairs.

    Trajectories and frames ``(count,)``: consecutive steps of one trajectory, or any different steps.
    """
    trajectories, steps = len(frames), frames.shape[1] - 1
    if window:
        row, start = stream.integers(trajectories), stream.integers(steps - count + 1)
        return np.full(count, row), start + np.arange(count)
    rows, starts = np.divmod(stream.permutation(trajectories * steps)[:count], steps)
    return rows, starts


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
    examples: int = EXAMPLE_COUNT
    trajectories: int = 6
    frames: int = 20
    reuse: int = 8
    step: float = FRAME_STEP
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
        kinds = {"pairs": (False, False), "windows": (True, True), "mixed": (False, True)}[self.mode]
        windows = np.array([kinds[i % 2] for i in range(self.batch)])
        x, y = (np.empty((self.batch, self.examples + 1, GRID), dtype=np.float32) for _ in range(2))
        for i, (own, window) in enumerate(zip(frames, windows, strict=True)):
            rows, starts = draw_pairs(stream, own, self.examples + 1, bool(window))
            x[i], y[i] = own[rows, starts], own[rows, starts + 1]
        answers = torch.from_numpy(y)
        return Case(
            prompt=circle_prompt(torch.from_numpy(x), answers[:, :-1]),
            target=answers[:, -1].unsqueeze(-1),
            meta={"problem": "conservation stream", "flux": CUBIC, "seed": self.seed, "number": number},
            rows={"window": windows, **{name: coefficients[:, i] for i, name in enumerate("abc")}},
        )


@lru_cache(maxsize=2)
def _block(settings: CubicStream, number: int) -> tuple[Array, Array]:
    """Coefficients (batch, 3) and frames (batch, trajectories, frame, points), float32."""
    condition = InitialCondition(length=settings.length)

    def stream(index: int, role: int) -> np.random.Generator:
        return random_stream("conservation stream", settings.split, settings.seed, index, role)

    fluxes = range(number * settings.batch, (number + 1) * settings.batch)
    rows = range(fluxes.start * settings.trajectories, fluxes.stop * settings.trajectories)
    coefficients = np.array([stream(i, _COEFFICIENTS).uniform(-1, 1, 3) for i in fluxes])
    starts = np.array([stream(i, _START).uniform(0, settings.step) for i in rows])
    initial = np.array([condition.draw(stream(i, _INITIAL), GRID) for i in rows])
    return coefficients, solve_cubics(coefficients, initial, starts, settings.step, settings.frames)
