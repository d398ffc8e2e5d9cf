"""What an operator keeps: the mean, a mass of 1, the sign, the range, the total variation."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from chop.core.fields import Field
from chop.operators.inspection.observed import (
    Evidence,
    Observed,
    Trait,
    lowest_and_highest,
    mean_of,
    over_channels,
    ratio,
    root_mean_square,
)
from chop.operators.inspection.structure import ONE_GRID, on_line
from chop.operators.projections import variation
from chop.operators.statistics import mean_at_equal_times

ROUNDING = 1e-6
"""Of a function's size: what single precision leaves, and no more. A sign needs no tolerance beyond it."""


def _same_channels(data: Observed) -> Tensor:
    same = data.prompt.inputs.channels == data.prompt.outputs.channels
    return data.everywhere if same else data.nowhere


def _mean_change(data: Observed, channel: int) -> Evidence:
    """Change of the mean beside the root mean square of the change.

    That is the sharpest measure there is: in a short step all changes are small beside the functions
    themselves. Where points differ there is no change to speak of, and the output's spread serves.
    """
    inputs, outputs = data.prompt.inputs, data.prompt.outputs
    seen, seen_after = inputs.observed, outputs.observed
    paired = data.paired[..., None, None, None]
    if bool(data.paired.any()):
        seen, seen_after = (torch.where(paired, data.both, own) for own in (seen, seen_after))
    after = _means(data, outputs, seen_after)[..., channel]
    before = mean_of(inputs.values, seen)[..., channel]
    off = torch.where(seen_after[..., channel], (after - before.unsqueeze(-1)).abs(), 0).amax(dim=-1)
    centred = outputs.values - mean_of(outputs.values, seen_after).unsqueeze(-2)
    size = root_mean_square(centred, seen_after)
    if bool(data.paired.any()):
        size = torch.where(paired.squeeze(-1), data.change, size)
    told = (size > data.floor) & seen.any(dim=-2) & seen_after.any(dim=-2)
    return Evidence(ratio(off, size[..., channel]), told[..., channel])


def _means(data: Observed, part: Field, seen: Tensor) -> Tensor:
    """The mean at each point's time, ``(..., n, c)``: of all points where there is no time."""
    time = data.prompt.axis("t")
    if time is None:
        return mean_of(part.values, seen).unsqueeze(-2).expand_as(part.values)
    return mean_at_equal_times(part.values, part.coords[..., time], seen)


def _mass(data: Observed) -> Evidence:
    outputs = data.prompt.outputs
    means = _means(data, outputs, outputs.observed) * data.unit[..., None, None, None]
    off = torch.where(outputs.observed, (means - 1).abs(), 0).amax(dim=-2)
    return over_channels(off, outputs.observed.any(dim=-2))


def _inputs_nonnegative(data: Observed) -> Tensor:
    """Inputs and query, up to rounding."""
    inputs, query = data.prompt.inputs, data.prompt.query
    found = _depth(inputs.values, inputs.observed).flatten(len(data.unit.shape)).amax(dim=-1)
    return torch.maximum(found, _depth(query.values, query.observed).amax(dim=-1)) <= ROUNDING


def _depth(values: Tensor, seen: Tensor) -> Tensor:
    """How far functions go below 0, of their size, by channel; negative where they stay above."""
    low, high = lowest_and_highest(values, seen)
    return torch.where(seen.any(dim=-2), ratio(-low, torch.maximum(high.abs(), low.abs())), -torch.inf)


def _sign(data: Observed) -> Evidence:
    outputs = data.prompt.outputs
    varies = outputs.observed & (outputs.values != 0)
    return over_channels(_depth(outputs.values, outputs.observed), varies.any(dim=-2))


def _range(data: Observed) -> Evidence:
    low, high = lowest_and_highest(data.prompt.inputs.values, data.both)
    least, most = lowest_and_highest(data.prompt.outputs.values, data.both)
    width, beyond = high - low, torch.maximum(most - high, low - least)
    return over_channels(ratio(beyond, width), (width > data.floor) & data.moves)


def _variation_growth(data: Observed) -> Evidence:
    prompt, around = data.prompt, data.prompt.axes is not None and data.prompt.axes[0].period is not None
    before, after = (
        variation(_carried(part.values, data.both), part.coords, around).squeeze(-2)
        for part in (prompt.inputs, prompt.outputs)
    )
    return over_channels(ratio(after, before) - 1, (before > data.floor) & data.moves)


def _carried(values: Tensor, seen: Tensor) -> Tensor:
    """The last value that was seen where none was, at the beginning the first: no variation is added."""
    place = torch.arange(values.shape[-2], device=values.device).unsqueeze(-1).expand_as(values)
    last = torch.where(seen, place, 0).cummax(dim=-2).values
    first = seen.to(torch.uint8).argmax(dim=-2, keepdim=True)
    return values.gather(-2, torch.maximum(last, first))


def mean_claims(channels: int) -> tuple[Trait[Observed], ...]:
    """Whether the mean is kept, channel by channel."""
    return tuple(
        Trait(
            "mean kept" if channels == 1 else f"mean kept, channel {channel + 1}",
            "each output has the mean of its input",
            "largest change of the mean, of the change",
            "outputs with the channels of their inputs",
            _same_channels,
            partial(_mean_change, channel=channel),
        )
        for channel in range(channels)
    )


KEPT: tuple[Trait[Observed], ...] = (
    Trait(
        "unit mass",
        "each output has mean 1",
        "largest distance of the mean from 1",
        "outputs",
        lambda data: data.everywhere,
        _mass,
    ),
    Trait(
        "sign kept",
        "no output is below 0, nor is any input",
        "largest depth below 0, of the output's size",
        "inputs and a query that are not below 0",
        _inputs_nonnegative,
        _sign,
        limit=ROUNDING,
    ),
    Trait(
        "range kept",
        "each output stays in the range of its input",
        "largest overshoot, of that range",
        ONE_GRID,
        lambda data: data.paired,
        _range,
    ),
    Trait(
        "variation not growing",
        "no output has more total variation than its input",
        "largest growth, of the input's variation",
        "functions of one coordinate, inputs and outputs at the same points",
        on_line,
        _variation_growth,
    ),
)
