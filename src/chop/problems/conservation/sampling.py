"""Scalar conservation laws u_t + f(u)_x = 0 on the circle: any flux, batched exact-frame truth.

The prompt of a case shows five consecutive steps of one trajectory and asks for the next, as the paper
does; ``steps=144`` gives the frames that score its long rollouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from chop.core.errors import FluxError, ProblemError, SolveError
from chop.core.prompt import Axis, Field, Prompt
from chop.numerics.tape import Array
from chop.problems.case import Case
from chop.problems.conservation.flux import CUBIC, FLUXES, Flux, as_range
from chop.problems.conservation.initial import GRID, InitialCondition
from chop.problems.conservation.solver import CFL, Solution, Speed, solve
from chop.problems.conservation.training import CubicStream
from chop.problems.random_streams import random_stream

STEP = 0.1
EXAMPLES = 5
_ROLES = _INITIAL, _START, _COEFFICIENTS = range(3)  # of the random streams of one case


def sample(
    flux: str | Flux = "sin_cos",
    n: int = 100,
    *,
    seed: int = 0,
    split: str = "test",
    first: int = 0,
    steps: int = 1,
    examples: int = EXAMPLES,
    step: float = STEP,
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

    ``flux`` is a formula in u, a name of `FLUXES`, or "cubic" (its coefficients (a, b, c) are drawn from
    [-1, 1]^3 for each trajectory unless given). Question i is number ``first + i`` of its split and is
    the same, bit for bit, whatever n is. ``trajectory`` has ``examples + 1 + steps`` frames. Initial
    conditions are ``mean + scale * (Gaussian field)``, drawn again until they lie within ``bound``.
    """
    law = Flux.parse(flux)
    _check_counts(n=n, steps=steps, examples=examples)
    if not 0 < step < np.inf:
        raise ProblemError(f"step must be a positive time, not {step}")
    if on_failure not in ("raise", "drop"):
        raise ProblemError(f"on_failure must be 'raise' or 'drop', not {on_failure!r}")
    if first < 0:
        raise ProblemError(f"first must be 0 or more, not {first}")
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
    x = torch.arange(frames.shape[-1], dtype=torch.float64) / frames.shape[-1]
    coords, values = x.to(frames.dtype).unsqueeze(-1), frames.unsqueeze(-1)
    return Prompt(
        inputs=Field(coords, values[..., :-1, :, :]),
        outputs=Field(coords, values[..., 1:, :, :]),
        query=Field(coords, values[..., -1, :, :]),
        at=coords,
        axes=(Axis("x", 1.0),),
    )


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise ProblemError(f"{name} must be a whole number, 1 or more, not {value!r}")


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


__all__ = ["CUBIC", "FLUXES", "CubicStream", "Flux", "Solution", "sample", "solve", "window"]
