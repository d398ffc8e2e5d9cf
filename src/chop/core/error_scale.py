"""How large an answer's error should be, read off the errors at the examples and the candidates' spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.independence import asked_alike, averaged_together
from chop.core.prompt import Prompt
from chop.core.spread import Spread

_ROUNDING = 1e-7
"""Errors below this part of the outputs' size are not told apart."""
_SHARES = (0.0, 0.5, 0.9)
"""How much of a scale's square may follow the spread."""
_NEEDED_GAIN = 2.0
"""In standard errors: by how much the spread has to tell more before it is used."""


@dataclass(frozen=True, eq=False)
class AnsweredPrompt:
    """An answer with what there is to judge it by; batch axes are those of the prompt."""

    prompt: Prompt
    values: Tensor
    rejected: Tensor
    held_out: Tensor | None
    spread: Spread | None

    def at_query(self, query: int) -> AnsweredPrompt:
        """That of one query of the batch."""

        def one(tensor: Tensor) -> Tensor:
            return tensor.reshape(batch.numel(), *tensor.shape[len(batch) :])[query]

        batch = self.prompt.batch
        return AnsweredPrompt(
            self.prompt.flat()[query],
            one(self.values),
            one(self.rejected),
            None if self.held_out is None else one(self.held_out),
            None if self.spread is None else Spread(*map(one, self.spread)),
        )

    @property
    def can_be_judged(self) -> bool:
        """Whether any answer at an example is there to be compared."""
        return self.held_out is not None and bool(torch.isfinite(self.held_out).any())


@dataclass(frozen=True, eq=False)
class ExampleErrors:
    """The errors at the examples of B queries, and a scale for them and for the error of the answer.

    All in double precision, the batch as one axis. Scales are in the units of the outputs; an error divided
    by its scale is a score.
    """

    sizes: Tensor
    """``(B, D, m, c)`` absolute errors; infinite where an answer is no number."""
    observed: Tensor
    scales: Tensor
    """``(B, D, m, c)`` at the examples."""
    scale: Tensor
    """``(B, m', c)`` at the query."""
    together: Tensor
    """``(B, D, D)`` the mean over examples that are one observation."""
    share: Tensor
    """``(B, D)`` how much of an observation each example is: 0 for those that do not count."""
    follows_spread: Tensor
    """``(B,)`` bool: whether the scale follows the spread."""

    @property
    def observations(self) -> Tensor:
        """How many observations ``(B,)`` the examples are."""
        return self.share.sum(dim=-1)

    @property
    def scores(self) -> Tensor:
        """``(B, D, m, c)``; 0 where nothing was observed."""
        return torch.where(self.observed, self.sizes / self.scales, 0)


def example_errors(answered: AnsweredPrompt) -> ExampleErrors:
    """The errors at the examples, with the scale that they speak for."""
    if answered.held_out is None or not answered.can_be_judged:
        raise ProgramError(
            "there are no answers at the examples to judge by; run with validate=True, or a program that "
            "has them, as auto, krige, weigh or select"
        )
    prompt, count = answered.prompt, answered.prompt.batch.numel()
    outputs = prompt.outputs

    def rows(tensor: Tensor) -> Tensor:
        return tensor.reshape(count, *tensor.shape[len(prompt.batch) :])

    truth, observed = rows(outputs.values).double(), rows(outputs.observed)
    sizes = (rows(answered.held_out).double() - truth).abs()
    sizes = torch.where(observed, torch.where(torch.isfinite(sizes), sizes, torch.inf), 0)
    together = rows(averaged_together(prompt))
    share = together.diagonal(dim1=-2, dim2=-1) * rows(asked_alike(prompt)) * observed.flatten(-2).any(dim=-1)
    # Where no answer at an example is a number, nothing was held out.
    share = share * torch.isfinite(rows(answered.held_out)).flatten(1).any(dim=1, keepdim=True)
    apart = _spreads(answered.spread, rows)
    weights = share[..., None, None] * observed  # each point counts as much as its example does
    size = _channel_root_mean(truth.abs(), weights)
    if apart is None:
        shape, shapes = torch.ones_like(rows(answered.values), dtype=torch.float64), torch.ones_like(sizes)
        follows = torch.zeros(count, dtype=torch.bool, device=sizes.device)
    else:
        shape, shapes, follows = _shaped(sizes, weights, *apart)
    unit = _channel_root_mean(torch.where(torch.isfinite(sizes), sizes / shapes, 0), weights)
    unit = torch.maximum(unit, _ROUNDING * torch.where(size > 0, size, 1))
    return ExampleErrors(
        sizes=sizes,
        observed=observed,
        scales=shapes * unit[:, None, None, :],
        scale=shape * unit[:, None, :],
        together=together,
        share=share,
        follows_spread=follows,
    )


def _spreads(spread: Spread | None, rows: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor] | None:
    """The spread at the query and at the examples; 0 for queries where it is no number."""
    if spread is None:
        return None
    here, there = (rows(part).double() for part in spread)
    known = torch.isfinite(here).flatten(1).all(dim=1) & torch.isfinite(there).flatten(1).all(dim=1)
    return torch.where(known[:, None, None], here, 0), torch.where(known[:, None, None, None], there, 0)


def _channel_root_mean(sizes: Tensor, weights: Tensor) -> Tensor:
    """Roots of weighted mean squares ``(B, c)`` of ``(B, D, m, c)``; 0 where nothing counts."""
    largest = sizes.amax(dim=(1, 2), keepdim=True)
    unit = torch.where(largest > 0, largest, 1)
    squares = ((sizes / unit).square() * weights).sum(dim=(1, 2))
    return (squares / weights.sum(dim=(1, 2)).clamp(min=1e-12)).sqrt() * unit[:, 0, 0]


def _shaped(sizes: Tensor, weights: Tensor, here: Tensor, there: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The shape of the scale at the query and at the examples, and whether it follows the spread.

    Shapes are roots of (1 - b) + b s²/mean(s²) for a spread s. Each b is judged by the likelihood of every
    example's errors, taken as exponential with the mean of the others' scores; a b above 0 has to be better
    by more than chance.
    """
    squares, told = _within(there, weights > 0)
    squares_here, told_here = _within(here.unsqueeze(1), torch.ones_like(here, dtype=torch.bool).unsqueeze(1))
    told = told & told_here
    squares, squares_here = torch.where(told, squares, 1), torch.where(told, squares_here, 1).squeeze(1)
    shapes = [(1 - b + b * squares).sqrt() for b in _SHARES]
    likelihoods = torch.stack([_left_out_likelihoods(sizes, weights, shape) for shape in shapes], dim=-1)
    gains = likelihoods - likelihoods[..., :1]  # (B, D, b)
    counted = (weights.sum(dim=(-1, -2)) > 0).double().unsqueeze(-1)
    number = counted.sum(dim=1)
    mean = (gains * counted).sum(dim=1) / number.clamp(min=1)
    variance = ((gains - mean.unsqueeze(1)).square() * counted).sum(dim=1) / (number - 1).clamp(min=1)
    clear = mean - _NEEDED_GAIN * (variance / number.clamp(min=1)).sqrt()
    best = torch.where(torch.isfinite(clear), clear, -torch.inf).argmax(dim=-1)  # the first of equals: none
    best = torch.where((number.squeeze(-1) >= 3) & told.flatten(1).any(dim=-1), best, 0)
    index = torch.tensor(_SHARES, dtype=torch.float64, device=sizes.device)[best]
    b = index[:, None, None]
    return (1 - b + b * squares_here).sqrt(), (1 - b[:, None] + b[:, None] * squares).sqrt(), best > 0


def _within(spread: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Squares of a spread ``(B, D, m, c)`` beside their mean over points, and which channels have one.

    Hiding an example makes candidates harder to tell apart everywhere: only where they differ is compared.
    """
    largest = torch.where(counted, spread, 0).amax(dim=2, keepdim=True)
    squares = (spread / torch.where(largest > 0, largest, 1)).square()
    mean = torch.where(counted, squares, 0).sum(dim=2, keepdim=True) / counted.sum(dim=2, keepdim=True).clamp(
        min=1
    )
    told = (mean > 0).all(dim=1, keepdim=True)
    return squares / torch.where(mean > 0, mean, 1), told


def _left_out_likelihoods(sizes: Tensor, weights: Tensor, shapes: Tensor) -> Tensor:
    """The mean logarithm ``(B, D)`` of each example's errors, with the scale of the others' scores."""
    scores = torch.where(weights > 0, sizes / shapes, 0)
    totals = (scores * weights).sum(dim=2)  # (B, D, c)
    counts = weights.sum(dim=2)
    others = (totals.sum(dim=1, keepdim=True) - totals) / (counts.sum(dim=1, keepdim=True) - counts).clamp(
        min=1e-12
    )
    usable = others > 0
    mean = torch.where(usable, others, 1).unsqueeze(2)
    each = torch.where(usable.unsqueeze(2), -scores / mean - (mean * shapes).log(), 0) * weights
    return each.sum(dim=(2, 3)) / weights.sum(dim=(2, 3)).clamp(min=1e-12)
