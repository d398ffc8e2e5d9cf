"""What kind of change the examples show: a shift, or one that a linear map makes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from chop.operators.inspection.fact import LEAST
from chop.operators.inspection.observed import Evidence, Measurement, Observed, Trait, ratio
from chop.operators.inspection.structure import CIRCLE, on_circle
from chop.operators.leaves import Ridge
from chop.operators.statistics import first_smallest

_FINER = 16
"""Shifts are tried in steps of this part of a cell."""
_UNEXPLAINED = 1e-2
"""Of a change or a variance: what may be left where something is said to explain it."""


def _told(data: Observed) -> Tensor:
    """Examples ``(..., D)`` that were observed throughout and change."""
    return data.both.flatten(-2).all(dim=-1) & data.moves.any(dim=-1)


def _spectra(data: Observed) -> tuple[Tensor, Tensor]:
    """Fourier coefficients ``(..., D, K, c)`` of inputs and outputs, channels in units of their change.

    An input's mean, which no shift changes, is taken from both. Coefficients that stand for their mirror
    images too count twice in squares.
    """
    inputs, outputs = data.prompt.inputs.values, data.prompt.outputs.values
    scale = data.change.square().mean(dim=-2, keepdim=True).sqrt().unsqueeze(-2)
    centre, n = inputs.mean(dim=-2, keepdim=True), inputs.shape[-2]
    before, after = (torch.fft.rfft(ratio(part - centre, scale), dim=-2) for part in (inputs, outputs))
    twice = torch.full((n // 2 + 1, 1), math.sqrt(2), dtype=inputs.dtype, device=inputs.device)
    twice[0] = 1
    if n % 2 == 0:
        twice[-1] = 1
    return before * twice, after * twice


def _best_shift(before: Tensor, after: Tensor, told: Tensor, n: int) -> Tensor:
    """The shift in cells ``(...)`` that suits all examples best, the smallest on ties."""
    product = torch.where(told.unsqueeze(-1), (before.conj() * after).sum(dim=-1), 0).sum(dim=-2)
    # Twice or not is counted already; irfft counts twice all but the mean, which all shifts share.
    fits = torch.fft.irfft(product / 2, n=_FINER * n, dim=-1) * (_FINER * n)
    cells = torch.arange(_FINER * n, device=fits.device)
    cells = torch.where(cells > _FINER * n // 2, cells - _FINER * n, cells)
    order = cells.abs().argsort(stable=True)
    size = (before.abs().square() + after.abs().square()).sum(dim=(-1, -2))
    best = first_smallest(-fits[..., order], torch.where(told, size, 0).sum(dim=-1))
    return cells[order][best].to(fits.dtype) / _FINER


def _off(before: Tensor, after: Tensor, cells: Tensor, n: int) -> Tensor:
    """Squares of what is left of ``(..., D)`` when the inputs are shifted by so many cells ``(...)``."""
    angle = -2 * math.pi / n * torch.arange(before.shape[-2], device=cells.device) * cells[..., None]
    phase = torch.polar(torch.ones_like(angle), angle)
    if n % 2 == 0:  # the highest mode of an even grid has no phase; it goes up and down with the shift
        phase = torch.cat([phase[..., :-1], phase[..., -1:].real.to(phase.dtype)], dim=-1)
    return (after - before * phase[..., None, :, None]).abs().square().sum(dim=(-1, -2))


def _travel(data: Observed) -> Evidence:
    """What is left of the change ``|y - x|^2`` after the best shift of x, the same for all examples."""
    (before, after), told, n = _spectra(data), _told(data), data.prompt.inputs.points
    cells = _best_shift(before, after, told, n)
    left, change = (_off(before, after, shift, n) for shift in (cells, torch.zeros_like(cells)))
    whole = torch.where(told, change, 0).sum(dim=-1)
    return Evidence(ratio(left, change), told, 1 - ratio(torch.where(told, left, 0).sum(dim=-1), whole))


def _speed(data: Observed) -> Tensor:
    told = _told(data)
    cells = _best_shift(*_spectra(data), told, data.prompt.inputs.points)
    return torch.where(told.any(dim=-1), cells, torch.nan)


def _linear(data: Observed) -> Evidence:
    """Squared error of ridge regression on the other examples, beside that of their mean output."""
    prompt, outputs = data.prompt, data.prompt.outputs
    values, seen, examples = outputs.values, outputs.observed, prompt.examples
    if examples < LEAST:
        nothing = torch.zeros(outputs.batch, dtype=values.dtype, device=values.device)
        return Evidence(nothing, nothing > 0)
    answers, _ = Ridge().answer(prompt.held_out(pad=False))
    others = (values.sum(dim=-3, keepdim=True) - values) / (examples - 1)
    size = torch.where(seen, values.abs(), 0).amax(dim=(-3, -2), keepdim=True)
    spread = torch.where(seen, values - others, 0).square().mean(dim=(-3, -2), keepdim=True).sqrt()
    weight = torch.where(spread > data.visible(size), 1 / torch.where(spread > 0, spread, 1), 0)
    left, whole = (
        (torch.where(seen, values - answer, 0) * weight).square().sum(dim=(-1, -2))
        for answer in (answers, others)
    )
    telling = (whole > 1e-6 * whole.amax(dim=-1, keepdim=True)) & (whole > 0)
    total = whole.sum(dim=-1)
    share = torch.where(total > 0, 1 - ratio(left.sum(dim=-1), total), torch.nan)
    return Evidence(ratio(left, whole), telling, share)


CHANGE: tuple[Trait[Observed] | Measurement[Observed], ...] = (
    Trait(
        "travels",
        "the change is one cyclic shift",
        "share of the change that the best shift explains",
        CIRCLE,
        on_circle,
        _travel,
        limit=_UNEXPLAINED,
    ),
    Measurement("speed", "cells a step, by the best shift", CIRCLE, on_circle, _speed),
    Trait(
        "linear",
        "a linear map fitted to the other examples gives each output",
        "share of the outputs' variance that it explains",
        "examples",
        lambda data: data.everywhere,
        _linear,
        limit=_UNEXPLAINED,
    ),
)
