"""What can go wrong with a problem, said in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chop.errors import ChopError


class ProblemError(ChopError):
    """A problem was asked for with settings that make no sense."""


class FluxError(ProblemError):
    """A flux text that is not a flux, or one that is not defined on the data range."""


class DataError(ProblemError):
    """A data file that is missing, unfinished, or not one of ours."""


@dataclass(frozen=True)
class Failure:
    """One trajectory that could not be followed to its last frame."""

    index: int
    time: float
    reason: str

    def __str__(self) -> str:
        return f"trajectory {self.index} {self.reason} at t = {self.time:.6g}"


class SolveError(ProblemError):
    """Trajectories failed; `failures` lists them."""

    def __init__(self, failures: Sequence[Failure], total: int) -> None:
        self.failures = tuple(failures)
        self.total = total
        shown = "; ".join(str(failure) for failure in self.failures[:3])
        more = "" if len(self.failures) <= 3 else f" and {len(self.failures) - 3} more"
        super().__init__(
            f"{len(self.failures)} of {total} trajectories failed: {shown}{more} "
            "(on_failure='drop' keeps the others)"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (SolveError, (self.failures, self.total))


__all__ = ["DataError", "Failure", "FluxError", "ProblemError", "SolveError"]
