"""What kind of change the examples show: a shift, or one that a linear map makes."""

from __future__ import annotations

import torch
from torch import Tensor

from chop.operators.inspection.fact import LEAST
from chop.operators.inspection.observed import Evidence, Law, Measurement, Observed, ratio
from chop.operators.inspection.structure import CIRCLE, on_circle
from chop.operators.leaves import Ridge

_FINER = 16
"""Shifts are tried in steps of this part of a cell."""
_UNEXPLAINED = 1e-2
"""Of a change or a variance: what may be left where something is said to explain it."""


def _correlations(data: Observed) -> tuple[Tensor, Tensor]:
    """For every shift ``(..., D, S)`` the product of shifted input and output, and half their squares.

    By Fourier series, between grid points too; means are removed, channels in units of their change.
    """
    scale = data.change.square().mean(dim=-2, keepdim=True).sqrt().unsqueeze(-2)
    before, after = (
        ratio(values - values.mean(dim=-2, keepdim=True), scale)
        for values in (data.prompt.inputs.values, data.prompt.outputs.values)
    )
    n = before.shape[-2]
    product = (torch.fft.rfft(before, dim=-2).conj() * torch.fft.rfft(after, dim=-2)).sum(dim=-1)
    if n % 2 == 0:  # the highest mode of an even grid stands for itself and its mirror image
        product[..., -1] /= 2
    squares = (before.square() + after.square()).sum(dim=(-1, -2)) / 2
    return torch.fft.irfft(product, n=_FINER * n, dim=-1) * _FINER, squares


def _told(data: Observed) -> Tensor:
    """Examples ``(..., D)`` that were observed throughout and change."""
    return data.both.all(dim=-1).all(dim=-1) & data.moves.any(dim=-1)


def _best_shift(products: Tensor, told: Tensor) -> Tensor:
    """The position of the shift that suits all examples best: ``(...)``."""
    return torch.where(told.unsqueeze(-1), products, 0).sum(dim=-2).argmax(dim=-1)


def _travel(data: Observed) -> Evidence:
    """What is left of the change ``|y - x|^2`` after the best shift of x, the same for all examples."""
    (products, squares), told = _correlations(data), _told(data)
    best = _best_shift(products, told)[..., None, None].expand(*products.shape[:-1], 1)
    left, change = squares - products.gather(-1, best).squeeze(-1), squares - products[..., 0]
    whole = torch.where(told, change, 0).sum(dim=-1)
    share = 1 - ratio(torch.where(told, left, 0).sum(dim=-1), whole)
    return Evidence(ratio(left, change), told, torch.where(whole > 0, share, torch.nan))


def _speed(data: Observed) -> Tensor:
    products, told = _correlations(data)[0], _told(data)
    cells = _best_shift(products, told).double() / _FINER
    n = data.prompt.inputs.points
    return torch.where(told.any(dim=-1), torch.where(cells > n / 2, cells - n, cells), torch.nan)


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


CHANGE: tuple[Law | Measurement, ...] = (
    Law(
        "travels",
        "the change is one cyclic shift",
        "share of the change that the best shift explains",
        CIRCLE,
        on_circle,
        _travel,
        limit=_UNEXPLAINED,
    ),
    Measurement("speed", "cells a step, by the best shift", CIRCLE, on_circle, _speed),
    Law(
        "linear",
        "a linear map fitted to the other examples gives each output",
        "share of the outputs' variance that it explains",
        "examples",
        lambda data: data.everywhere,
        _linear,
        limit=_UNEXPLAINED,
    ),
)
