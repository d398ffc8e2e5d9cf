"""Several candidates for one question: select, combine, average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from chop.core.counting import CallCount, Where
from chop.core.errors import ProgramError
from chop.core.parameters import flag, indices, numbers, subprogram_list
from chop.core.program import Outcome, Program
from chop.core.prompt import Field, Prompt
from chop.core.running import error_in_units, error_unit
from chop.core.spread import Spread, weighted_spread
from chop.core.tasks import Answer, Steps
from chop.core.trace import StageKind
from chop.core.units import binary_unit, in_units
from chop.numerics.simplex import LEAST_EIGENVALUE, smallest_quadratic
from chop.operators.evidence import mixed, shares
from chop.operators.residuals import HeldOutValidator, finite_or_zero, gap_number, pad_flag

_LOST = 1e3
"""Times the largest error at a question: that of an answer which is no number."""


@final
@dataclass(frozen=True)
class Select(HeldOutValidator):
    """The branch with the smallest in-context error, if it beats the last one, the fallback.

    An error that is not finite loses; on ties the first branch wins, and the fallback wins against
    its equals.
    """

    name: ClassVar[str] = "select"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = (
        "The answer is that of one branch, with an in-context error no larger than the last's."
    )
    helps: ClassVar[str] = "when it is not known beforehand whether a route pays"
    branches: tuple[Program, ...] = subprogram_list(
        "what is chosen from; the last is the fallback", at_least=2
    )
    pad: bool = pad_flag(True)
    gap: int = gap_number()

    def decide(self, prompt: Prompt, answers: list[Tensor], held_out: list[Tensor]) -> Outcome:
        unit = error_unit(prompt.outputs)
        errors = torch.stack([error_in_units(prompt.outputs, part, unit) for part in held_out], dim=-1)
        judged = torch.where(torch.isfinite(errors), errors, torch.inf)
        fallback = len(answers) - 1
        best, first = judged[..., :-1].min(dim=-1)
        chosen = torch.where(best < judged[..., -1], first, fallback)
        notes = {"chose branch": chosen + 1, "errors": errors * unit.square().unsqueeze(-1)}
        return Outcome(_pick(answers, chosen), _pick(held_out, chosen), notes)


@final
@dataclass(frozen=True)
class Combine(HeldOutValidator):
    """A convex mixture of candidates, fitted at the example inputs and shrunk towards the first.

    For each channel the weights minimise the in-context squared error over the simplex; a delete-one
    jackknife measures how far they can be trusted and shrinks them towards candidate 1 accordingly.
    Channels that are not listed keep candidate 1. Answers that are not finite become zero, as in the
    paper.
    """

    name: ClassVar[str] = "combine"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "The weights are non-negative and sum to 1; one candidate alone is unchanged."
    helps: ClassVar[str] = "when candidates err in different ways"
    candidates: tuple[Program, ...] = subprogram_list("what is mixed; the first is the reference", at_least=1)
    channels: tuple[int, ...] = indices("channels to be mixed, each with its own weights; none listed: all")
    shrink: bool = flag(True, "shrink towards candidate 1 by the jackknife estimate")
    pad: bool = pad_flag(False)
    gap: int = gap_number()

    def decide(self, prompt: Prompt, answers: list[Tensor], held_out: list[Tensor]) -> Outcome:
        channels = self._channels(prompt.outputs.channels)
        d = prompt.examples
        # (..., K, D, m, c) and (..., K, m, c)
        rows = torch.stack([finite_or_zero(part) for part in held_out], dim=-4)
        candidates = torch.stack(answers, dim=-3)
        moments, counted, least = _error_moments(rows[..., channels], prompt.outputs, channels)
        # Row 0 keeps every example, row 1 + h leaves out example h.
        keep = torch.ones(d + 1, d, dtype=rows.dtype, device=rows.device)
        keep[1:].fill_diagonal_(0)
        keep = keep * counted.unsqueeze(-2)
        number = keep.sum(dim=-1, keepdim=True)
        means = ((keep / number.clamp(min=1)) @ moments.flatten(-2)).unflatten(-1, moments.shape[-2:])
        # Where nothing was observed there is nothing to fit: the reference stays.
        fits = torch.where(number > 0, smallest_quadratic(means, least[..., None]), _reference(means))
        weights, deleted, trust = _stabilised(means[..., 0, :, :], fits, self.shrink)
        mixed = torch.einsum("...ck,...kmc->...mc", weights, candidates[..., channels])
        mixed_rows = torch.einsum("...chk,...khmc->...hmc", deleted, rows[..., channels])
        values = finite_or_zero(_with_channels(answers[0], mixed, channels))
        own = finite_or_zero(_with_channels(rows.select(-4, 0), mixed_rows, channels))
        spread = Spread(
            _spread_in(channels, candidates.unbind(dim=-3), weights, values),
            _spread_in(channels, rows.unbind(dim=-4), deleted.transpose(-3, -2), own),
        )
        return Outcome(values, own, {"weights": weights, "trust": trust}, spread=spread)

    def _channels(self, available: int) -> list[int]:
        wrong = [c for c in self.channels if not -available <= c < available]
        if wrong:
            raise ProgramError(f"combine: channel {wrong[0]} does not exist; outputs have {available}")
        chosen = [c % available for c in self.channels] or list(range(available))
        if len(set(chosen)) != len(chosen):
            raise ProgramError(f"combine: channels {self.channels} name a channel twice")
        return chosen


@final
@dataclass(frozen=True)
class Average(Program):
    """The mean of several programs' answers, plain or with fixed weights. Ensembling without any fit.

    ``weights`` has a number for each member, or for each member one for each channel; they are divided by
    their sum. A member without weight may answer anything.
    """

    name: ClassVar[str] = "average"
    unit_free: ClassVar[bool] = True
    kind: ClassVar[StageKind] = "mixture"
    law: ClassVar[str] = "Without weights it does not depend on the order of its members, to rounding."
    helps: ClassVar[str] = "when members err differently and the examples are too few to fit weights"
    members: tuple[Program, ...] = subprogram_list("what is averaged", at_least=1)
    weights: tuple[float, ...] = numbers("of the members, member by member; none: all alike", 0.0, 1e6)

    @property
    def reports_held_out(self) -> bool:
        return bool(self.weights) and all(member.reports_held_out for member in self.members)

    def plan(self, prompt: Prompt) -> Steps:
        weights = shares(self.weights, len(self.members), prompt, self.name)
        outcomes = yield [Answer(member, prompt) for member in self.members]
        parts = [outcome.values for outcome in outcomes]
        if weights is None:
            return Outcome(torch.stack(parts).mean(dim=0))
        mixture = mixed(parts, weights)
        if not self.reports_held_out:
            return Outcome(mixture)
        rows = [outcome.held_out for outcome in outcomes]
        own = mixed(rows, weights)
        spread = Spread(weighted_spread(parts, weights, mixture), weighted_spread(rows, weights, own))
        return Outcome(mixture, own, spread=spread)

    def count(self, where: Where, calls: CallCount) -> None:
        for member in self.members:
            member.count(where, calls)


def _pick(options: list[Tensor], chosen: Tensor) -> Tensor:
    """Row by row the chosen option; ``chosen`` has the batch axes only."""
    picked = options[-1]
    for i, option in enumerate(options[:-1]):
        is_chosen = (chosen == i).reshape(*chosen.shape, *[1] * (option.ndim - chosen.ndim))
        picked = torch.where(is_chosen, option, picked)
    return picked


def _error_moments(rows: Tensor, outputs: Field, channels: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Each example's matrix of error products, whether it was observed, and what counts as no error.

    ``rows`` is ``(..., K, D, m, c)``; returns ``(..., c, D, K, K)``, ``(..., c, D)`` and ``(..., c)``.
    Weights depend on ratios only, so products are taken in a unit of each channel.
    """
    truth = outputs.values[..., channels].movedim(-1, -3)  # (..., c, D, m)
    errors = rows.movedim(-1, -4).movedim(-3, -2) - truth.unsqueeze(-2)  # (..., c, D, K, m)
    seen = None
    if outputs.mask is not None:
        seen = outputs.mask[..., channels].movedim(-1, -3)
        errors, truth = torch.where(seen.unsqueeze(-2), errors, 0), torch.where(seen, truth, 0)
    errors = torch.nan_to_num(errors)  # the difference of two finite numbers may be infinite
    unit = binary_unit(errors.abs().amax(dim=(-1, -2, -3)))
    errors = in_units(errors, unit[..., None, None, None])
    if seen is None:
        number = torch.full(errors.shape[:-2], errors.shape[-1], dtype=errors.dtype, device=errors.device)
    else:
        number = seen.sum(dim=-1).to(errors.dtype)
    moments = errors @ errors.mT / number[..., None, None].clamp(min=1)
    size = torch.linalg.vector_norm(truth / unit[..., None, None], dim=(-1, -2)) / number.sum(dim=-1).sqrt()
    return moments, (number > 0).to(errors.dtype), LEAST_EIGENVALUE * torch.where(size > 0, size, 1).square()


def error_moments(rows: Tensor, outputs: Field) -> tuple[Tensor, Tensor]:
    """Mean products ``(c, D, K, K)`` of the errors of K answers ``(K, D, m, c)``, and which were observed.

    In double precision; a candidate whose answer is no number has an error beyond all others.
    """
    truth, seen = outputs.values.double(), outputs.observed
    errors = torch.where(seen, rows.double() - truth, 0)
    finite = torch.isfinite(errors)
    worst = torch.where(finite, errors, 0).abs().amax(dim=(0, 2), keepdim=True)
    errors = torch.where(finite, errors, _LOST * torch.where(worst > 0, worst, 1))
    number = seen.sum(dim=-2).mT  # (c, D)
    products = torch.einsum("kdmc,ldmc->cdkl", errors, errors)
    return products / number.clamp(min=1)[..., None, None], number > 0


def _stabilised(moments: Tensor, fits: Tensor, shrink: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, delete-one weights and trust from the full fit (row 0) and the delete-one fits."""
    full, deleted = fits[..., 0, :], fits[..., 1:, :]
    reference = _reference(full)
    if not shrink:
        return full, deleted, torch.ones_like(full[..., 0])
    d = deleted.shape[-2]
    shift = full - reference
    spread = deleted - deleted.mean(dim=-2, keepdim=True)
    moved = torch.einsum("...k,...kl,...l->...", shift, moments, shift)
    unrest = torch.einsum("...hk,...kl,...hl->...", spread, moments, spread) * (d - 1) / d
    total = moved + unrest
    trust = torch.where(total > 0, moved / torch.where(total > 0, total, 1), 0)
    wide = trust.unsqueeze(-1)
    return reference + wide * shift, reference + wide.unsqueeze(-1) * (deleted - reference), trust


def _reference(weights: Tensor) -> Tensor:
    reference = torch.zeros(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    reference[0] = 1
    return reference


def _spread_in(channels: list[int], parts: Sequence[Tensor], weights: Tensor, mixture: Tensor) -> Tensor:
    """The spread of what was mixed; none in the channels that keep candidate 1."""
    chosen = weighted_spread([part[..., channels] for part in parts], weights, mixture[..., channels])
    return _with_channels(torch.zeros_like(mixture), chosen, channels)


def _with_channels(base: Tensor, mixed: Tensor, channels: list[int]) -> Tensor:
    """``base`` with some channels replaced."""
    values = base.clone()
    values[..., channels] = mixed
    return values
