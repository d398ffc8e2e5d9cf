"""What the examples say for candidates: weights from the errors that each would have made there.

The mean of logarithms counts, not that of the errors: one example that all get wrong must not decide alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.fields import Field
from chop.core.prompt import Prompt
from chop.core.running import error_unit
from chop.core.units import in_units

_ROUNDING = 1e-7
"""Relative error at the examples below which candidates are not told apart."""
_HOPELESS = 700.0
"""Logarithm of the error of what cannot be told."""


def squared_errors(guess: Tensor, outputs: Tensor, observed: Tensor) -> Tensor:
    """Mean squared errors ``(..., c, D)`` of answers ``(..., D, m, c)``; NaN where nothing was observed."""
    squares = torch.where(observed, (guess - outputs).square(), 0).sum(dim=-2)
    count = observed.sum(dim=-2)
    return torch.where(count > 0, squares / count.clamp(min=1), torch.nan).mT


def log_errors(errors: Tensor, outputs: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of errors ``(..., c, D, K)``, and which examples count ``(..., c, D)``.

    Where nothing is known of an example they are 0; what is not known of one candidate alone is hopeless.
    """
    size = torch.where(observed, outputs.square(), 0).mean(dim=(-3, -2))[..., None, None]
    least = _ROUNDING**2 * torch.where(size > 0, size, 1)
    counted = ~torch.isnan(errors).all(dim=-1)
    logs = torch.where(torch.isnan(errors), _HOPELESS, (errors + least).log().clamp(max=_HOPELESS))
    return torch.where(counted.unsqueeze(-1), logs, 0), counted


def judge(outputs: Field, values: Sequence[Tensor], held_out: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Logarithms of squared errors ``(..., c, D, K)`` of K candidates, and which examples count.

    A candidate whose answer is not finite is hopeless.
    """
    unit = error_unit(outputs).double()
    truth = in_units(outputs.values.double(), unit[..., None, None, None])
    observed = outputs.observed
    errors = torch.stack(
        [
            squared_errors(in_units(part.double(), unit[..., None, None, None]), truth, observed)
            for part in held_out
        ],
        dim=-1,
    )
    lost = torch.stack([~torch.isfinite(part).all(dim=-2) for part in values], dim=-1)
    errors = torch.where(lost.unsqueeze(-2) | ~torch.isfinite(errors), torch.nan, errors)
    return log_errors(errors, truth, observed)


def evidence_weights(
    logs: Tensor, counted: Tensor, trust: float, prior: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Weights of candidates ``(..., c, K)``, and those without each example's own error ``(..., c, D, K)``.

    One candidate alone has all the weight; where nothing is known of the examples, weights are those of the
    ``prior`` ``(c, K)``, and without one the first has all.
    """
    others = 1 - torch.eye(logs.shape[-2], dtype=logs.dtype, device=logs.device)
    wide = None if prior is None else prior.unsqueeze(-2)
    return (
        _evidence(logs.sum(dim=-2), counted.sum(dim=-1), trust, prior),
        _evidence(others @ logs, counted.to(logs.dtype) @ others, trust, wide),
    )


def _evidence(logs: Tensor, count: Tensor, trust: float, prior: Tensor | None) -> Tensor:
    """Weights ``(..., K)`` from sums of logarithms of errors at so many examples."""
    before = torch.zeros_like(logs) if prior is None else prior.to(logs.dtype).log().expand_as(logs)
    weights = torch.softmax(before - trust * logs / count.clamp(min=1).unsqueeze(-1), dim=-1)
    if prior is not None:
        return torch.where(count.unsqueeze(-1) > 0, weights, prior.to(logs.dtype))
    first = torch.zeros_like(weights)
    first[..., 0] = 1
    return torch.where(count.unsqueeze(-1) > 0, weights, first)


def shares(given: tuple[float, ...], members: int, prompt: Prompt, who: str) -> Tensor | None:
    """Numbers for each member, or for each member one for each channel, as ``(c, members)`` that sum to 1.

    None where none are given. ``who`` has them, such as "average".
    """
    if not given:
        return None
    channels = prompt.outputs.channels
    if len(given) not in (members, members * channels):
        raise ProgramError(
            f"{who} of {members} programs of {channels} channels needs {members} weights"
            f"{f' or {members * channels}' if channels > 1 else ''}, not {len(given)}"
        )
    table = torch.tensor(given, dtype=prompt.dtype, device=prompt.device).reshape(members, -1)
    total = table.sum(dim=0)
    if not bool((total > 0).all()):
        raise ProgramError(f"the weights of {who} must not all be 0")
    return (table / total).expand(members, channels).mT


def cautious_weights(logs: Tensor, counted: Tensor, together: Tensor, trust: float) -> Judged:
    """Weights of candidates beside the first, the reference, which stays where nothing is clearly better.

    A candidate's gain is the mean over examples of how much smaller the logarithm of its error is, less as
    many standard errors as chance would let the best of the close rivals appear better by: sqrt(2 ln K) for
    K of them, so none where there is one alone. ``together (..., D, D)`` averages examples that are one
    observation (see `independence`); with fewer than two observations the reference has all the weight.
    """
    share = together.diagonal(dim1=-2, dim2=-1).unsqueeze(-2) * counted  # (..., c, D)
    number = share.sum(dim=-1).unsqueeze(-1)
    gains = logs[..., :1] - logs
    part = (share / number.clamp(min=1e-9).squeeze(-1).unsqueeze(-1)).unsqueeze(-1)
    mean = (part * gains).sum(dim=-2)
    known = together.unsqueeze(-3) * counted.unsqueeze(-2)
    grouped = (known / known.sum(dim=-1, keepdim=True).clamp(min=1e-9)) @ gains
    variance = (part * (grouped - mean.unsqueeze(-2)).square()).sum(dim=-2) / (number - 1).clamp(min=0.5)
    deviation = variance.clamp(min=0).sqrt()
    rivals = torch.exp(-2 * trust * mean[..., 1:].abs()).sum(dim=-1, keepdim=True).clamp(min=1)
    scores = mean - (2 * rivals.log()).sqrt() * deviation
    weights = torch.softmax(trust * number / logs.shape[-2] * scores, dim=-1)
    first = torch.zeros_like(weights)
    first[..., 0] = 1
    return Judged(torch.where(number >= 2 - 1e-9, weights, first), mean, deviation)


class Judged(NamedTuple):
    """What evidence says of candidates, each ``(..., c, K)``."""

    weights: Tensor
    gains: Tensor
    """Mean logarithms of ratios of squared errors, the reference's over its own."""
    deviations: Tensor
    """Standard errors of the gains."""


def mixed(parts: list[Tensor], weights: Tensor) -> Tensor:
    """Answers ``(..., m, c)`` mixed by weights ``(..., c, K)``; what has none may be anything."""
    total = torch.zeros_like(parts[0])
    for place, part in enumerate(parts):
        weight = weights[..., place].unsqueeze(-2)
        total = total + torch.where(weight > 0, weight * part, 0)
    return total
