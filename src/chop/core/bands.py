"""Bands around an answer: where the truth should lie, from the errors at the examples or at other questions.

Five examples say little about rare errors by themselves: no five numbers reach the 90 % quantile. So sizes of
errors, one for each example, are taken as lognormal with an unknown middle and scatter, which gives the next
one Student's t; how errors are distributed within an example is taken as it was seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.core.conformal import ConformalScores
from chop.core.error_scale import AnsweredPrompt, ExampleErrors, example_errors
from chop.core.levels import check_level
from chop.core.next_error import LEAST, predicted_logarithm, weighted_quantiles
from chop.core.words import count, representation, span

_NODES = 100
"""Quantiles that stand for a distribution."""


@dataclass(frozen=True, eq=False)
class Band:
    """Where the truth should lie, with a probability of ``level``."""

    lower: Tensor
    """``(..., m, c)``; NaN for answers that were rejected."""
    upper: Tensor
    level: float
    simultaneous: bool
    """Whether all of an answer lies inside with this probability, not this share of it on average."""
    how: str
    """Where it comes from, in one sentence."""

    @property
    def half_width(self) -> Tensor:
        """``(..., m, c)``."""
        return (self.upper - self.lower) / 2

    def covers(self, truth: Tensor) -> Tensor:
        """Where the truth lies inside: ``(..., m, c)`` bool."""
        return (truth >= self.lower) & (truth <= self.upper)

    def __repr__(self) -> str:
        return representation(
            "Band", {"level": f"{self.level:g}", "half-width": span(self.half_width), "how": self.how}
        )


def can_be_told(answered: AnsweredPrompt, scores: ConformalScores | None, level: float) -> bool:
    """Whether there is something to tell a band of this level, and the trust, by."""
    if scores is None:
        return answered.can_be_judged
    return scores.enough_for(level) and (answered.can_be_judged or not scores.needs_examples)


def half_width_text(band: Band) -> str:
    """How wide a band is, in a few words."""
    half = band.half_width
    what = "all points at once" if band.simultaneous else "of the truth"
    if not half.numel() or not bool(torch.isfinite(half).all()):
        return f"no bound for {100 * band.level:g} % {what}"
    low, high = (f"{float(one):.3g}" for one in (half.min(), half.max()))
    return f"±{low if low == high else f'{low} .. ±{high}'} for {100 * band.level:g} % {what}"


def band_of(
    answered: AnsweredPrompt, level: float, simultaneous: bool, scores: ConformalScores | None = None
) -> Band:
    """The band around an answer, from calibration scores where there are some."""
    check_level(level)
    prompt = answered.prompt
    if scores is not None:
        half, how = scores.half_width(answered, level, simultaneous), scores.how(simultaneous)
    else:
        errors = example_errors(answered)
        factor = (_simultaneous_factor if simultaneous else _pointwise_factor)(errors, level)
        half, how = factor[:, None, :] * errors.scale, _told(errors, simultaneous)
    half = half.reshape(prompt.answer_shape)
    half = torch.where(answered.rejected[..., None, None], torch.nan, half).to(answered.values.dtype)
    return Band(answered.values - half, answered.values + half, level, simultaneous, how)


def _told(errors: ExampleErrors, simultaneous: bool) -> str:
    examples = errors.sizes.shape[1]
    fewest = float(errors.observations.min()) if len(errors.share) else float(examples)
    words = f"from {count(examples, 'held-out error')} of the program itself"
    if round(fewest) < examples:
        words += f", of which {fewest:.3g} count" if fewest != 1 else ", of which 1 counts"
    if bool(errors.follows_spread.any()):
        words += ", wider where candidates disagree"
    return words + (", for all points at once" if simultaneous else "")


def _simultaneous_factor(errors: ExampleErrors, level: float) -> Tensor:
    """The next example's largest score ``(B, 1)``: the prediction bound of its logarithm."""
    largest = errors.scores.amax(dim=(-1, -2))
    levels = torch.tensor([level], dtype=torch.float64, device=largest.device)
    return predicted_logarithm(largest, errors).quantiles(levels).exp()


def _pointwise_factor(errors: ExampleErrors, level: float) -> Tensor:
    """The quantile ``(B, c)`` of the next example's scores: its size times how scores spread within one."""
    scores, weights = errors.scores, errors.share[..., None, None] * errors.observed
    number = errors.observed.sum(dim=2).clamp(min=1)  # (B, D, c)
    sizes = (scores.square().sum(dim=2) / number).sqrt().clamp(min=LEAST)
    nodes = (torch.arange(_NODES, dtype=torch.float64, device=scores.device) + 0.5) / _NODES
    factors = []
    for size, score, weight in zip(sizes.unbind(-1), scores.unbind(-1), weights.unbind(-1), strict=True):
        next_size = predicted_logarithm(size, errors).quantiles(nodes)
        within = torch.where(torch.isfinite(size).unsqueeze(-1), score / size.unsqueeze(-1), 1)
        shape = weighted_quantiles(within.flatten(1), weight.flatten(1), nodes)
        logs = next_size.unsqueeze(-1) + shape.clamp(min=LEAST).log().unsqueeze(-2)
        place = math.ceil(level * _NODES**2 - 1e-9) - 1
        factors.append(logs.flatten(1).sort(dim=1).values[:, place].exp())
    return torch.stack(factors, dim=-1)
