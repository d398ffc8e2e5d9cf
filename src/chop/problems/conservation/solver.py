"""Following many trajectories of a conservation law: checks before, compiled stepping, reports after."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from chop.core.errors import Failure, ProblemError
from chop.numerics import Array
from chop.problems.conservation.flux import Flux, Range, as_range

CFL = 0.5
MAX_STEPS = 20_000_000
Speed = float | Literal["local"] | Array | None


@dataclass(frozen=True, eq=False)
class Solution:
    """Frames ``values`` (rows, frames, points); a failed row is NaN from its failure on."""

    values: Array
    failures: tuple[Failure, ...]
    speed: Array | None

    @property
    def kept(self) -> NDArray[np.intp]:
        """The rows that reached their last frame."""
        failed = {failure.index for failure in self.failures}
        return np.array([i for i in range(len(self.values)) if i not in failed], dtype=np.intp)


def solve(
    flux: str | Flux,
    initial: Any,
    times: Any,
    *,
    parameters: Any = None,
    bound: float | Sequence[float] = 3.0,
    speed: Speed = None,
    cfl: float = CFL,
    max_steps: int = MAX_STEPS,
    threads: int = 1,
) -> Solution:
    """u at the given times, for u_t + f(u)_x = 0 on [0, 1) with periodic ends, from ``initial`` at 0.

    A trajectory that fails does not disturb the others.

    Args:
        flux: a formula in u, a name of `FLUXES`, or "cubic"
        initial: (points,) or (rows, points)
        times: (frames,) or (rows, frames), increasing
        parameters: of the flux, (rows, number of parameters) or one row for all
        bound: the data range (low, high), b for (-b, b), on which the flux must be defined
        speed: of the Lax-Friedrichs splitting: None takes max|f'| over ``bound`` + 0.1, one number for the
            flux whatever the initial condition; a number (or one per row) is used if it suffices; "local"
            takes max|f'| over the range of each state at each step
        cfl: the Courant number, in (0, 3]
        max_steps: after which a trajectory has failed
        threads: that solve, each some of the rows
    """
    law = Flux.parse(flux)
    span = as_range(bound)
    start = _initial(initial)
    rows = len(start)
    when = _times(times, rows)
    values = law.rows(None if parameters is None else np.asarray(parameters, dtype=np.float64))
    if len(values) not in (1, rows):
        raise ProblemError(f"{rows} trajectories but {len(values)} rows of parameters")
    if not 0 < cfl <= 3:
        raise ProblemError(f"cfl must lie in (0, 3], not {cfl}")
    law.check(span, values)
    speeds = _speeds(law, speed, span, values, rows)
    values = np.ascontiguousarray(np.broadcast_to(values, (rows, values.shape[1])))

    frames = np.full((rows, when.shape[1], start.shape[1]), np.nan)
    status, reached, needed = np.zeros(rows, dtype=np.int64), np.zeros(rows), np.zeros(rows)
    early = _unfit(start, span)
    ready = np.array([i for i in range(rows) if i not in early], dtype=np.intp)
    local = isinstance(speed, str)

    def work(part: NDArray[np.intp]) -> None:
        from chop.numerics import kernels  # numba is only loaded when something is solved

        out = np.full((len(part), *frames.shape[1:]), np.nan)
        state = np.zeros(len(part), dtype=np.int64)
        last, fastest = np.zeros(len(part)), np.zeros(len(part))
        tape, slope = law.tape, law.slope_tape
        kernels.integrate(
            start[part], when[part], values[part], speeds[part], local, float(cfl), float(max_steps),
            tape.code, tape.numbers, tape.registers, tape.result,
            slope.code, slope.numbers, slope.registers, slope.result,
            out, state, last, fastest,
        )  # fmt: skip
        frames[part], status[part], reached[part], needed[part] = out, state, last, fastest

    parts = [part for part in np.array_split(ready, max(1, threads)) if part.size]
    if len(parts) > 1:
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(work, parts))
    elif parts:
        work(parts[0])

    failures = [Failure(i, 0.0, reason) for i, reason in early.items()]
    for i in np.flatnonzero(status):
        reason = _why(int(status[i]), reached[i], speeds[i], needed[i], max_steps)
        failures.append(Failure(int(i), float(reached[i]), reason))
    ordered = tuple(sorted(failures, key=lambda failure: failure.index))
    return Solution(frames, ordered, None if local else speeds)


def _initial(initial: Any) -> Array:
    start = np.array(initial, dtype=np.float64, ndmin=2)
    if start.ndim != 2 or start.shape[0] < 1 or start.shape[1] < 4:
        raise ProblemError(f"initial must be (rows, points) with 4 points or more, not {start.shape}")
    return start


def _times(times: Any, rows: int) -> Array:
    when = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if when.ndim > 2 or when.shape[-1] < 1 or (when.ndim == 2 and len(when) not in (1, rows)):
        raise ProblemError(f"times must be (frames,) or ({rows}, frames), not {when.shape}")
    if not np.isfinite(when).all() or (when < 0).any() or (np.diff(when, axis=-1) < 0).any():
        raise ProblemError("times must be finite, 0 or more, and increasing along the frames")
    return np.ascontiguousarray(np.broadcast_to(when, (rows, when.shape[-1])))


def _speeds(law: Flux, speed: Speed, span: Range, values: Array, rows: int) -> Array:
    if speed is None:
        found = law.speed(span, values)
    elif isinstance(speed, str):
        if speed != "local":
            raise ProblemError(f"speed must be None, 'local' or a positive number, not {speed!r}")
        found = np.ones(1)
    else:
        found = np.atleast_1d(np.asarray(speed, dtype=np.float64))
        if found.ndim != 1 or not (np.isfinite(found).all() and (found > 0).all()):
            raise ProblemError(f"speed must be None, 'local' or a positive number, not {speed!r}")
    if len(found) not in (1, rows):
        raise ProblemError(f"{rows} trajectories but {len(found)} speeds")
    return np.ascontiguousarray(np.broadcast_to(found, (rows,)))


def _unfit(start: Array, span: Range) -> dict[int, str]:
    """Rows that cannot be started, and why."""
    with np.errstate(invalid="ignore"):
        low, high = start.min(axis=1), start.max(axis=1)
    reasons = {}
    for i in range(len(start)):
        if not np.isfinite(start[i]).all():
            reasons[i] = "starts from values that are not finite"
        elif low[i] < span[0] or high[i] > span[1]:
            reasons[i] = (
                f"starts from values in [{low[i]:.4g}, {high[i]:.4g}], outside the data range "
                f"[{span[0]:.4g}, {span[1]:.4g}] that `bound` allows,"
            )
    return reasons


def _why(status: int, reached: float, speed: float, needed: float, max_steps: int) -> str:
    if status == 1:
        return "became non-finite"
    if status == 2:
        return f"would need more than {max_steps} steps"
    grown = "blew up: it " if reached > 0 else ""
    return f"{grown}needs a splitting speed of {needed:.4g}, not {speed:.4g},"
