"""What an operator may take a prompt's coordinates for; where nobody has said, it asks."""

from __future__ import annotations

from chop.core.errors import ProgramError
from chop.core.fields import covers_period
from chop.core.grids import same_grid
from chop.core.program import Transform
from chop.core.prompt import Prompt, without_repeats


def time_axis(prompt: Prompt, who: str) -> int | None:
    """The position of time among the coordinates, None where there is none; ``who`` needs to know."""
    axes = prompt.axes or ()
    if len(axes) > 1 and not prompt.axes_stated:
        shown = ", ".join(f'chop.Axis("{name}")' for name in _names(len(axes)))
        raise ProgramError(
            f"{who} needs to know which of the {len(axes)} coordinates is time, if any: make the prompt with "
            f'axes=({shown}), naming time t, or write axes = "{", ".join(_names(len(axes)))}" into the file'
        )
    return prompt.axis("t")


def periodic_axis(prompt: Prompt, who: str) -> tuple[int, float]:
    """The position and the period of the one coordinate that closes on itself."""
    axes = prompt.axes or ()
    periodic = [(i, axis.period) for i, axis in enumerate(axes) if axis.period is not None]
    if len(periodic) == 1:
        return periodic[0]
    if not prompt.axes_stated:
        raise ProgramError(_ask_for_period(prompt, who))
    raise ProgramError(
        f"{who} needs exactly one periodic axis; this prompt's axes are {', '.join(map(str, axes))}"
    )


def circle(prompt: Prompt, who: str) -> tuple[int, float]:
    """The same, where points may be put in another order."""
    found = periodic_axis(prompt, who)
    if prompt.graph is not None:
        raise ProgramError(f"{who} would reorder the points of a graph; it is for grids")
    return found


def suits(transform: Transform, prompt: Prompt) -> bool:
    """Whether a transform accepts a prompt."""
    try:
        transform.fitted(prompt)
    except ProgramError:
        return False
    return True


def allows_turning(prompt: Prompt) -> bool:
    """Whether there is one coordinate that closes on itself, and points may be put in another order."""
    periodic = [axis for axis in prompt.axes or () if axis.period is not None]
    return prompt.graph is None and len(periodic) == 1


def need_cyclic_grid(prompt: Prompt, who: str) -> None:
    """One regular grid around one periodic axis, for every field."""
    axes = prompt.axes or ()
    if len(axes) != 1 or (axes[0].stated and axes[0].period is None):
        raise ProgramError(f"{who} goes around a circle and needs functions of one periodic coordinate")
    _, period = periodic_axis(prompt, who)
    if prompt.inputs.channels != prompt.outputs.channels:
        raise ProgramError(
            f"{who} compares inputs with outputs, but they have {prompt.inputs.channels} and "
            f"{prompt.outputs.channels} channels"
        )
    if prompt.query.points < 4:
        raise ProgramError(f"{who} needs at least 4 grid points, not {prompt.query.points}")
    if not same_grid(prompt.query.coords, prompt.at, prompt.inputs.coords, prompt.outputs.coords):
        raise ProgramError(
            f"{who} goes around a circle and needs inputs, outputs, query and answer on one grid"
        )
    grid = without_repeats(prompt.query.coords)[..., 0]
    if not covers_period(grid, period):
        raise ProgramError(
            f"{who} goes around a circle and needs a regular grid of spacing {period / grid.shape[-1]:g}"
        )


def _ask_for_period(prompt: Prompt, who: str) -> str:
    names = [axis.name for axis in prompt.axes or ()] if prompt.dimensions == 1 else _names(prompt.dimensions)
    length = _likely_period(prompt)
    shown = [*(f'chop.Axis("{name}")' for name in names[:-1]), f'chop.Axis("{names[-1]}", period={length})']
    written = ", ".join([*names[:-1], f"{names[-1]}={length}"])
    return (
        f"{who} needs the period of a coordinate, and the grid does not show one: make the prompt with "
        f'axes=({", ".join(shown)}{"," * (len(shown) == 1)}) or write axes = "{written}" into the file'
    )


def _likely_period(prompt: Prompt) -> str:
    """The length that n cells of a regular grid of one coordinate make up; else 1, as an example."""
    points = without_repeats(prompt.query.coords)[..., -1].reshape(-1, prompt.query.points)[0]
    if prompt.dimensions == 1 and len(points) > 1:
        length = float((points[-1] - points[0]) / (len(points) - 1) * len(points))
        if length > 0 and covers_period(points, length):
            return f"{length:.6g}"
    return "1"


def _names(k: int) -> tuple[str, ...]:
    """Names to show how axes are stated."""
    return {2: ("t", "x"), 3: ("t", "x", "y")}.get(k) or ("t", *(f"x{i}" for i in range(1, k)))
