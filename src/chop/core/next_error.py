"""The next of a few sizes of errors: what is known of it from the others, one for each example."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from chop.core.error_scale import ExampleErrors
from chop.core.units import binary_unit

LEAST = 1e-12
"""Sizes below this are not told apart."""


class PredictedLogarithm(NamedTuple):
    """Student's t for the logarithm of the next size, each ``(B,)``."""

    centre: Tensor
    """Infinite where an answer at an example is no number, NaN where fewer than two examples are known."""
    width: Tensor
    freedom: Tensor

    def quantiles(self, levels: Tensor) -> Tensor:
        """``(B, K)`` at levels ``(K,)``."""
        from scipy.special import stdtrit  # imported where it is used: it takes its time

        steps = stdtrit(self.freedom.cpu().numpy()[:, None], levels.cpu().numpy())
        steps = torch.from_numpy(steps).to(self.centre)
        return self.centre[:, None] + torch.where(self.width[:, None] > 0, self.width[:, None] * steps, 0)

    def below(self, logarithm: float) -> Tensor:
        """The probability ``(B,)`` that the next one is smaller."""
        from scipy.special import stdtr

        steps = ((logarithm - self.centre) / self.width.clamp(min=LEAST)).cpu().numpy()
        return torch.from_numpy(stdtr(self.freedom.cpu().numpy(), steps)).to(self.centre)


def predicted_logarithm(sizes: Tensor, errors: ExampleErrors) -> PredictedLogarithm:
    """What sizes ``(B, D)``, taken as lognormal, say of the next.

    Examples that are one observation count together; where they are fewer than two in all, their own scatter
    is taken, with one degree of freedom.
    """
    share, number = errors.share, errors.observations
    logs = torch.where(share > 0, sizes.clamp(min=LEAST).log(), 0)
    part = share / number.clamp(min=LEAST).unsqueeze(-1)
    centre = torch.where(part > 0, part * logs, 0).sum(dim=-1)
    several = number >= 2 - 1e-9
    known = errors.together * (share > 0).unsqueeze(-2)
    known = known / known.sum(dim=-1, keepdim=True).clamp(min=LEAST)
    finite = torch.where(torch.isfinite(logs), logs, 0)
    grouped = torch.where(several.unsqueeze(-1), (known @ finite.unsqueeze(-1)).squeeze(-1), finite)
    number = number.clamp(min=1)
    freedom = (number - 1).clamp(min=1)
    apart = (part * (grouped - centre.unsqueeze(-1)).square()).sum(dim=-1)
    variance = torch.where(several, apart * number / freedom, 2 * apart)
    width = torch.where(torch.isfinite(centre), (variance * (1 + 1 / number)).sqrt(), 0)
    enough = (share > 0).sum(dim=-1) >= 2
    return PredictedLogarithm(torch.where(enough, centre, torch.nan), width, freedom)


def predicted_relative_error(errors: ExampleErrors, outputs: Tensor) -> PredictedLogarithm:
    """The logarithm of an answer's relative L2 error; ``outputs (B, D, m, c)`` are what was seen.

    Where scales follow the spread, so does this.
    """
    seen = errors.observed
    size = _root_mean(torch.where(seen, outputs.abs(), 0), seen)
    relative = _root_mean(errors.sizes, seen) / size
    relative = torch.where(torch.isnan(relative), 0, relative)  # nothing missed of nothing
    shape = _root_mean(torch.where(seen, errors.scales, 0), seen).clamp(min=LEAST * LEAST)
    everywhere = torch.ones_like(errors.scale, dtype=torch.bool)
    here = _root_mean(errors.scale.unsqueeze(1), everywhere.unsqueeze(1))
    return predicted_logarithm(relative * here / shape, errors)


def _root_mean(sizes: Tensor, seen: Tensor) -> Tensor:
    """Roots of mean squares ``(B, D)`` over what was seen."""
    unit = binary_unit(sizes.amax(dim=(-1, -2), keepdim=True))
    squares = (sizes / unit).square().sum(dim=(-1, -2)) / seen.sum(dim=(-1, -2)).clamp(min=1)
    return squares.sqrt() * unit[..., 0, 0]


def weighted_quantiles(values: Tensor, weights: Tensor, levels: Tensor) -> Tensor:
    """Quantiles ``(B, K)`` of values ``(B, N)``: the smallest with so much of the weight at or below it.

    NaN where nothing has weight.
    """
    ordered, order = values.sort(dim=1)
    shares = weights.gather(1, order).cumsum(dim=1)
    total = shares[:, -1:]
    shares = shares / torch.where(total > 0, total, 1)
    place = torch.searchsorted(shares, (levels - 1e-12).expand(len(values), -1).contiguous())
    found = ordered.gather(1, place.clamp(max=values.shape[1] - 1))
    return torch.where(total > 0, found, torch.nan)
