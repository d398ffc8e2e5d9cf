"""Conservation laws u_t + f(u)_x = 0 on the circle: any flux as text, trajectories as questions."""

from typing import TYPE_CHECKING

from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop.problems.conservation.flux import CUBIC, FLUXES, Flux
    from chop.problems.conservation.sampling import sample, window
    from chop.problems.conservation.solver import Solution, solve
    from chop.problems.conservation.training import CubicStream

__all__ = ["CUBIC", "FLUXES", "CubicStream", "Flux", "Solution", "sample", "solve", "window"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "chop.problems.conservation.flux": ("CUBIC", "FLUXES", "Flux"),
        "chop.problems.conservation.sampling": ("sample", "window"),
        "chop.problems.conservation.solver": ("Solution", "solve"),
        "chop.problems.conservation.training": ("CubicStream",),
    },
)
