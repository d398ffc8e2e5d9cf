"""How a prompt is laid out: whether its pairs are frames of one history, and on what grid they are given."""

from __future__ import annotations

import torch
from torch import Tensor

from chop.operators.inspection.observed import (
    TOLERANCE,
    Evidence,
    Measurement,
    Observed,
    Trait,
    over_channels,
    ratio,
    root_mean_square,
)

ONE_GRID = "outputs at the points and with the channels of their inputs"
REGULAR_LINE = "functions of one coordinate on one regular grid"
CIRCLE = f"{REGULAR_LINE}, all around its period"
_FEWEST_POINTS = 8
"""Of a line on which something is said about shifts and seams."""
_STEEPER = 1.5
"""The steepest place may be the seam itself, and so a little steeper than any other."""
_STEEP = 0.95
"""Steps of a function that are not among its steepest."""


def on_line(data: Observed) -> Tensor:
    """Pairs of functions of one coordinate on the same points."""
    return data.paired if data.prompt.dimensions == 1 else data.nowhere


def on_regular_line(data: Observed) -> Tensor:
    """The same with equally spaced points, and enough of them."""
    if not bool(on_line(data).any()) or data.prompt.inputs.points < _FEWEST_POINTS:
        return data.nowhere
    return on_line(data) & (_unevenness(data) <= TOLERANCE).all(dim=-1)


def on_circle(data: Observed) -> Tensor:
    """The same where the coordinate has a period and the grid fills it."""
    period = None if data.prompt.axes is None else data.prompt.axes[0].period
    if period is None or data.prompt.dimensions > 1:
        return data.nowhere
    return on_regular_line(data) & (
        (_spacing(data) * data.prompt.inputs.points / period - 1).abs() < TOLERANCE
    )


def _successors(data: Observed) -> Evidence:
    """Each output beside the input, or the query, whose time is one later."""
    prompt = data.prompt
    assert prompt.times is not None
    follows = prompt.times.unsqueeze(-2) == prompt.times[..., :-1].unsqueeze(-1) + 1
    which = follows.to(torch.uint8).argmax(dim=-1)[..., None, None].expand_as(prompt.outputs.values)
    frames = torch.cat([prompt.inputs.values, prompt.query.values.unsqueeze(-3)], dim=-3)
    seen = torch.cat([prompt.inputs.observed, prompt.query.observed.unsqueeze(-3)], dim=-3)
    both = seen.gather(-3, which) & prompt.outputs.observed
    gap = root_mean_square(prompt.outputs.values - frames.gather(-3, which), both)
    telling = data.moves & both.any(dim=-2) & follows.any(dim=-1, keepdim=True)
    return over_channels(ratio(gap, data.change), telling)


def _unevenness(data: Observed) -> Tensor:
    """The worse of input and output, and of the query: ``(..., D)``."""
    prompt = data.prompt
    pairs = torch.maximum(unevenness(prompt.inputs.coords), unevenness(prompt.outputs.coords))
    return torch.maximum(pairs, unevenness(prompt.query.coords).unsqueeze(-1))


def unevenness(coords: Tensor) -> Tensor:
    """By how much of a cell the points ``(..., n, k)`` miss a regular grid; infinity where they make none.

    The order of the points does not matter. n points make a grid if the numbers of different coordinates
    along each axis multiply to n.
    """
    cells, cell, off = _steps(coords)
    complete = (cells + 1).prod(dim=-1) == coords.shape[-2]
    return torch.where(complete, ratio(off, cell).amax(dim=-1), torch.inf)


def _steps(coords: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each coordinate ``(..., k)``: how many steps it takes, their mean, and how far one is off it."""
    ordered = coords.sort(dim=-2).values
    steps = torch.cat([ordered[..., 1:, :], ordered[..., -1:, :]], dim=-2) - ordered  # the last is 0
    extent = (ordered[..., -1:, :] - ordered[..., :1, :]).squeeze(-2)
    new = steps > 1e-6 * extent.unsqueeze(-2)  # rounding makes no new coordinate
    cells = new.sum(dim=-2)
    cell = extent / cells.clamp(min=1)
    off = torch.where(new, (steps - cell.unsqueeze(-2)).abs(), 0).amax(dim=-2)
    return cells, cell, off


def _regular(data: Observed) -> Evidence:
    uneven = _unevenness(data)
    return Evidence(uneven, torch.ones_like(uneven, dtype=torch.bool))


def _same_points(data: Observed) -> Evidence:
    return Evidence(data.apart, torch.ones_like(data.apart, dtype=torch.bool))


def _seam(data: Observed) -> Evidence:
    """Steps and bends across the seam beside the largest ones anywhere else, in any example.

    A shock may stand at the seam, but not in every example: where the step there is always among the
    steepest of its function, it is compared with those.
    """
    fields = torch.stack([data.prompt.inputs.values, data.prompt.outputs.values])
    seen = data.both.all(dim=-2)
    told = seen & ((fields.amax(dim=-2) - fields.amin(dim=-2)).amax(dim=0) > data.floor)
    before, after = fields.roll(1, dims=-2), fields.roll(-1, dims=-2)
    steps, bends = (fields - before).abs(), (after - 2 * fields + before).abs()
    excess = []
    for size, seam in ((steps, [0]), (bends, [0, -1])):
        elsewhere = torch.where(seen, size[..., 1:-1, :].amax(dim=-2), 0).amax(dim=(0, -2), keepdim=True)
        excess.append(ratio(size[..., seam, :].amax(dim=-2), elsewhere) / _STEEPER)
    inner = steps[..., 1:, :]
    steep = inner.kthvalue(int(_STEEP * inner.shape[-2]), dim=-2).values
    always = ((steps[..., 0, :] > steep) | ~told).all(dim=-2, keepdim=True).all(dim=0, keepdim=True)
    # Of a jump in a function that is flat elsewhere there is nothing to take a share of.
    excess.append(torch.where(always, torch.where(steep > 0, ratio(steps[..., 0, :], steep), 2), 0))
    return over_channels(torch.stack(excess).amax(dim=(0, 1)), told)


def _spacing(data: Observed) -> Tensor:
    return _steps(data.prompt.query.coords)[1][..., -1]


def _even(data: Observed) -> Tensor:
    cells, cell, off = (part[..., -1] for part in _steps(data.prompt.query.coords))
    return (cells > 0) & (off <= TOLERANCE * cell)


def _has_period(data: Observed) -> Tensor:
    return data.everywhere if len(_periods(data)) == 1 else data.nowhere


def _periods(data: Observed) -> list[float]:
    return [axis.period for axis in data.prompt.axes or () if axis.period is not None]


STRUCTURE: tuple[Trait[Observed] | Measurement[Observed], ...] = (
    Trait(
        "consecutive frames",
        "each output is the next input, the last one the query",
        "largest gap, of the change",
        ONE_GRID,
        lambda data: data.paired,
        _successors,
    ),
    Trait(
        "regular grid",
        "points are equally spaced",
        "largest irregularity, of a cell",
        "points",
        lambda data: data.everywhere,
        _regular,
        least=1,
    ),
    Trait(
        "one grid",
        "outputs are given where their inputs are",
        "largest distance, of a cell",
        "points",
        lambda data: data.everywhere,
        _same_points,
        least=1,
    ),
    Trait(
        "closes on itself",
        "functions go on smoothly from the last point to the first",
        "largest step or bend there, of what is allowed by those elsewhere",
        REGULAR_LINE,
        on_regular_line,
        _seam,
        limit=1.0,
    ),
    Measurement(
        "points",
        "points of an input",
        "points",
        lambda data: data.everywhere,
        lambda data: torch.full_like(data.unit, data.prompt.inputs.points),
    ),
    Measurement(
        "spacing",
        "between neighbouring points along the last coordinate",
        "points that are evenly spaced along the last coordinate",
        _even,
        _spacing,
    ),
    Measurement(
        "period",
        "of the coordinate that has one",
        "one coordinate with a period",
        _has_period,
        lambda data: torch.full_like(data.unit, _periods(data)[0]),
    ),
)
