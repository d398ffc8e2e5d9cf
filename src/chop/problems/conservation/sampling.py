"""Scalar conservation laws u_t + f(u)_x = 0 on the circle: any flux, batched exact-frame truth.

The prompt of a case shows five consecutive steps of one trajectory and asks for the next, as the paper
does; ``steps=144`` gives the frames that score its long rollouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from chop.core.errors import FluxError, ProblemError, SolveError
from chop.core.prompt import Axis, Field, Prompt
from chop.numerics import Array
from chop.numerics.random_field import CircleField, on_grid
from chop.problems.case import EXAMPLE_COUNT, Case, check_counts
from chop.problems.conservation.flux import CUBIC, Flux, Range, as_range
from chop.problems.conservation.solver import CFL, Speed, solve
from chop.problems.random_streams import random_stream

GRID = 100
FRAME_STEP = 0.1
_TRIES = 1000
_ROLES = _INITIAL, _START, _COEFFICIENTS = range(3)  # of the random streams of one case


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


def sample(
    flux: str | Flux = "sin_cos",
    n: int = 100,
    *,
    seed: int = 0,
    split: str = "test",
    first: int = 0,
    steps: int = 1,
    examples: int = EXAMPLE_COUNT,
    step: float = FRAME_STEP,
    points: int = GRID,
    length: float = 1.0,
    mean: float = 0.0,
    scale: float = 1.0,
    bound: float | Sequence[float] = 3.0,
    coefficients: Any = None,
    speed: Speed = None,
    cfl: float = CFL,
    on_failure: Literal["raise", "drop"] = "raise",
    threads: int = 1,
    dtype: torch.dtype = torch.float32,
) -> Case:
    """n trajectories of one flux: each shows ``examples`` consecutive pairs and asks for the next frame.

    Args:
        flux: a formula in u, a name of `FLUXES`, or "cubic"
        n, first: questions ``first`` .. ``first + n - 1`` of the split; each is the same, bit for bit,
            whatever n is
        seed, split: of all random draws; splits ("train", "evolution", "test") never share one
        steps: frames after the query; ``trajectory`` has ``examples + 1 + steps``
        examples: pairs shown
        step: time between frames; the first frame lies at a random time in [0, step)
        points: of the periodic grid j / points
        length, mean, scale: initial conditions are ``mean + scale * (Gaussian field of this length scale)``,
            drawn again until they lie within ``bound``
        bound: the data range (low, high), b for (-b, b); the flux must be defined on it
        coefficients: for the parameters of the flux, one row or a row for each trajectory; those of "cubic"
            (a, b, c) are drawn from [-1, 1]^3 unless given
        speed: of the Lax-Friedrichs splitting, as in `solve`
        cfl: the Courant number, in (0, 3]
        on_failure: "raise" `SolveError`, or "drop" the trajectories that fail
        threads: that solve
        dtype: of the case; everything is solved in float64
    """
    law = Flux.parse(flux)
    check_counts(first, n=n, steps=steps, examples=examples)
    if not 0 < step < np.inf:
        raise ProblemError(f"step must be a positive time, not {step}")
    if on_failure not in ("raise", "drop"):
        raise ProblemError(f"on_failure must be 'raise' or 'drop', not {on_failure!r}")
    span = as_range(bound)
    condition = InitialCondition(length, mean, scale, span)
    index = np.arange(first, first + n, dtype=np.uint64)
    streams = [[random_stream("conservation", split, seed, i, role) for i in index] for role in _ROLES]
    starts = np.array([stream.uniform(0, step) for stream in streams[_START]])
    initial = np.array([condition.draw(stream, points) for stream in streams[_INITIAL]])
    numbers = _coefficients(law, coefficients, streams[_COEFFICIENTS])
    frames = examples + 1 + steps
    solution = solve(
        law,
        initial,
        starts[:, None] + step * np.arange(frames),
        parameters=numbers,
        bound=span,
        speed=speed,
        cfl=cfl,
        threads=threads,
    )
    failures = [replace(failure, index=first + failure.index) for failure in solution.failures]
    if failures and (on_failure == "raise" or not solution.kept.size):
        raise SolveError(failures, n)
    kept = solution.kept
    rows = {"index": index, "start": starts}
    if solution.speed is not None:
        rows["speed"] = solution.speed
    if numbers is not None:
        rows |= {name: numbers[:, i] for i, name in enumerate(law.parameters)}
    meta = {
        "problem": "conservation", "flux": law.text, "seed": int(seed), "split": split, "first": first,
        "n": n, "steps": steps, "examples": examples, "step": step, "points": points, "length": length,
        "mean": mean, "scale": scale, "bound": list(span), "cfl": cfl, "speed": _speed_text(speed),
        "failures": [str(failure) for failure in failures],
    }  # fmt: skip
    values = torch.from_numpy(solution.values[kept]).to(dtype)
    return Case(
        prompt=window(values[:, : examples + 1]),
        target=values[:, examples + 1, :, None],
        trajectory=values,
        meta=meta,
        rows={name: values_[kept] for name, values_ in rows.items()},
    )


def window(frames: torch.Tensor) -> Prompt:
    """Consecutive frames ``(..., D + 1, points)`` as D pairs and the query, on the grid j / points."""
    return circle_prompt(frames, frames[..., 1:, :])


def circle_prompt(inputs: torch.Tensor, outputs: torch.Tensor) -> Prompt:
    """Inputs ``(..., D + 1, points)``, the query last, and outputs ``(..., D, points)`` on the circle."""
    x = torch.arange(inputs.shape[-1], dtype=torch.float64) / inputs.shape[-1]
    coords, values = x.to(inputs.dtype).unsqueeze(-1), inputs.unsqueeze(-1)
    return Prompt(
        inputs=Field(coords, values[..., :-1, :, :]),
        outputs=Field(coords, outputs.unsqueeze(-1)),
        query=Field(coords, values[..., -1, :, :]),
        at=coords,
        axes=(Axis("x", 1.0),),
    )


def _speed_text(speed: Speed) -> Any:
    return speed.tolist() if isinstance(speed, np.ndarray) else speed


def _coefficients(law: Flux, given: Any, streams: list[np.random.Generator]) -> Array | None:
    names = len(law.parameters)
    if given is None and law is Flux.parse(CUBIC):
        return np.array([stream.uniform(-1.0, 1.0, names) for stream in streams])
    if given is None:
        if names:
            raise FluxError(f"flux {law.text!r} needs coefficients for {', '.join(law.parameters)}")
        return None
    return np.ascontiguousarray(np.broadcast_to(law.rows(np.asarray(given)), (len(streams), names)))
