"""How the query compares with the examples, and how large everything is."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from chop.core.grids import nearest_index, resample
from chop.core.prompt import Prompt
from chop.operators.inspection.observed import Measurement, Observed, lowest_and_highest, mean_of, ratio
from chop.operators.inspection.structure import REGULAR_LINE, on_regular_line

_MOST = 0.9
"""Of the energy: what lies up to the typical wave number."""


def _distances(prompt: Prompt, scale: Tensor) -> Tensor:
    """Mean squared difference of each input from the query, ``(..., D)``, where both were observed."""
    index = nearest_index(prompt.inputs.coords, prompt.query.coords.unsqueeze(-3))
    seen = resample(prompt.inputs.observed, index) & prompt.query.observed.unsqueeze(-3)
    off = (resample(prompt.inputs.values, index) - prompt.query.values.unsqueeze(-3)) / scale
    total = torch.where(seen, off.square(), 0).sum(dim=(-1, -2)) / seen.sum(dim=(-1, -2)).clamp(min=1)
    return torch.where(seen.flatten(-2).any(dim=-1), total, torch.inf)


def _distance(data: Observed) -> Tensor:
    """To the nearest example, beside the median distance of an example from its nearest other one."""
    inputs = data.prompt.inputs
    values, seen = inputs.values.flatten(-3, -2), inputs.observed.flatten(-3, -2)
    spread = mean_of((values - mean_of(values, seen).unsqueeze(-2)).square(), seen).sqrt()
    scale = torch.where(spread > 0, spread, 1)[..., None, None, :]
    near = _distances(data.prompt, scale).amin(dim=-1).sqrt()
    held = data.prompt.held_out(pad=False)
    own = _distances(held, scale.unsqueeze(-4)).amin(dim=-1).sqrt().median(dim=-1).values
    return torch.where((own > 0) & torch.isfinite(own + near), ratio(near, own), torch.nan)


def _several(data: Observed) -> Tensor:
    return data.everywhere if data.prompt.examples > 1 else data.nowhere


def _beyond(data: Observed) -> Tensor:
    """By how much the query leaves the range of all example inputs, of that range; 0 inside."""
    inputs, query = data.prompt.inputs, data.prompt.query
    low, high = lowest_and_highest(inputs.values.flatten(-3, -2), inputs.observed.flatten(-3, -2))
    least, most = lowest_and_highest(query.values, query.observed)
    width = high - low
    beyond = ratio(torch.maximum(most - high, low - least).clamp(min=0), width)
    known = (width > 0) & torch.isfinite(width) & (least <= most)
    found = torch.where(known, beyond, -1).amax(dim=-1)
    return torch.where(found < 0, torch.nan, found)


def _finer(data: Observed) -> Tensor:
    """The query's energy above the wave number up to which the examples have most of theirs."""

    def energy(values: Tensor) -> Tensor:
        waves: Tensor = torch.fft.rfft(values, dim=-2)
        return waves.abs().square().sum(dim=-1)

    examples, query = energy(data.prompt.inputs.values).sum(dim=-2), energy(data.prompt.query.values)
    # Functions that are flat up to rounding have no wave number.
    waving = [part[..., 1:].sum(dim=-1) > data.epsilon**2 * part[..., 0] for part in (examples, query)]
    examples, query = examples[..., 1:], query[..., 1:]
    below = ratio(examples.cumsum(dim=-1), examples.sum(dim=-1, keepdim=True)) < _MOST
    above = torch.cat([torch.zeros_like(below[..., :1]), ~below[..., :-1]], dim=-1)
    share = ratio(torch.where(above, query, 0).sum(dim=-1), query.sum(dim=-1))
    return torch.where(waving[0] & waving[1], share, torch.nan)


def _observed_throughout(data: Observed) -> Tensor:
    prompt = data.prompt
    whole = prompt.inputs.observed.flatten(-3).all(dim=-1) & prompt.query.observed.flatten(-2).all(dim=-1)
    return on_regular_line(data) & whole


def _pooled(data: Observed, part: str, what: str) -> Tensor:
    """Root mean square, mean or spread of all that was observed of one part, in the data's units."""
    found = getattr(data.prompt, part)
    values, seen = found.values.flatten(-3).unsqueeze(-1), found.observed.flatten(-3).unsqueeze(-1)
    centre = mean_of(values, seen)
    if what == "mean":
        return centre.squeeze(-1) * data.unit
    off = values - centre.unsqueeze(-2) if what == "spread" else values
    return mean_of(off.square(), seen).squeeze(-1).sqrt() * data.unit


QUERY: tuple[Measurement[Observed], ...] = (
    Measurement(
        "query distance",
        "to the nearest example, of the examples' own nearest distance",
        "two examples",
        _several,
        _distance,
    ),
    Measurement(
        "query range",
        "beyond the range of all inputs, of that range",
        "inputs",
        lambda data: data.everywhere,
        _beyond,
    ),
    Measurement(
        "query spectrum",
        "share of its energy above the wave number that the examples have 90 % of theirs up to",
        f"{REGULAR_LINE}, observed throughout",
        _observed_throughout,
        _finer,
    ),
)
SCALE: tuple[Measurement[Observed], ...] = tuple(
    Measurement(
        f"{part[:-1]} {what}",
        f"of all {part}",
        part,
        lambda data: data.everywhere,
        partial(_pooled, part=part, what=what),
    )
    for part in ("inputs", "outputs")
    for what in ("rms", "mean", "spread")
)
