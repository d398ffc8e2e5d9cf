"""A mixture by evidence: candidates weighed by what they would have answered at the examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from chop.core.parameters import flag, number, numbers, subprogram_list
from chop.core.program import Outcome, Program
from chop.core.prompt import Prompt
from chop.core.running import error_unit
from chop.core.spread import Spread, weighted_spread
from chop.core.units import in_units
from chop.operators.evidence import evidence_weights, judge, log_errors, mixed, shares, squared_errors
from chop.operators.residuals import HeldOutValidator, gap_number, pad_flag
from chop.operators.statistics import everywhere


@final
@dataclass(frozen=True)
class Weigh(HeldOutValidator):
    """A mixture of candidates, weighed by the mean logarithm of their errors at the examples.

    Each channel has weights of its own. With ``shrink`` the mixture is drawn back to the first candidate as
    far as few examples demand: its gain over that, example by example and each without its own evidence, must
    be large beside how much the gain varies. That does less harm where little is to be gained, and gains less
    elsewhere. A candidate whose answer is not finite has no weight.

    ``prior`` has a number for each candidate, or for each candidate one for each channel: what was known
    before the examples, from other questions. The examples then multiply it.
    """

    name: ClassVar[str] = "weigh"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "The weights are positive and sum to 1; candidates that agree are unchanged."
    helps: ClassVar[str] = "when several routes are good and five examples are too few to choose one of them"
    candidates: tuple[Program, ...] = subprogram_list("what is mixed; the first is the reference", at_least=1)
    trust: float = number(4.0, 0.0, 100.0, "how much a smaller error at the examples counts")
    shrink: bool = flag(False, "draw back to the first as far as few examples demand")
    prior: tuple[float, ...] = numbers("weights before the examples; none: all alike", 0.0, 1e6)
    pad: bool = pad_flag(True)
    gap: int = gap_number()

    def decide(self, prompt: Prompt, answers: list[Tensor], held_out: list[Tensor]) -> Outcome:
        outputs, unit = prompt.outputs, error_unit(prompt.outputs).double()
        observed = outputs.observed
        truth, *guesses = (
            in_units(part.double(), unit[..., None, None, None]) for part in (outputs.values, *held_out)
        )
        asked = [in_units(part.double(), everywhere(unit)) for part in answers]
        logs, counted = judge(outputs, answers, held_out)
        prior = shares(self.prior, len(self.candidates), prompt, self.name)
        weights, deleted = evidence_weights(logs, counted, self.trust, prior)
        values, own = mixed(asked, weights), mixed(guesses, deleted.transpose(-3, -2))
        kept = torch.ones_like(weights[..., 0])
        if self.shrink:
            mixture, _ = log_errors(squared_errors(own, truth, observed).unsqueeze(-1), truth, observed)
            gains = torch.where(counted, logs[..., 0] - mixture[..., 0], 0)
            kept, kept_without = _kept(gains, counted)
            values = _between(asked[0], values, kept.unsqueeze(-2))
            own = _between(guesses[0], own, kept_without.mT.unsqueeze(-2))
        notes = {"weights": weights.to(prompt.dtype), "kept of the mixture": kept.to(prompt.dtype)}
        apart = weighted_spread(asked, weights, values)
        own_apart = weighted_spread(guesses, deleted.transpose(-3, -2), own)
        values, apart = ((part * everywhere(unit)).to(prompt.dtype) for part in (values, apart))
        own, own_apart = (
            (part * everywhere(unit).unsqueeze(-1)).to(prompt.dtype) for part in (own, own_apart)
        )
        return Outcome(values, own, notes, spread=Spread(apart, own_apart))


def _kept(gains: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """How much of a mixture is kept ``(..., c)``, and without each example's own gain ``(..., c, D)``.

    ``gains`` are logarithms of error ratios ``(..., c, D)``: g²/(g² + s²/D) of their mean g and variance s²,
    and nothing where they are losses.
    """
    d = gains.shape[-1]
    rows = torch.ones(d + 1, d, dtype=gains.dtype, device=gains.device)
    rows[1:].fill_diagonal_(0)
    rows = rows * counted.unsqueeze(-2)
    number = rows.sum(dim=-1).clamp(min=1)
    mean = (rows @ gains.unsqueeze(-1)).squeeze(-1) / number
    apart = rows * (gains.unsqueeze(-2) - mean.unsqueeze(-1)).square()
    doubt = apart.sum(dim=-1) / (number - 1).clamp(min=1) / number
    total = mean.square() + doubt
    found = torch.where((mean > 0) & (total > 0), mean.square() / torch.where(total > 0, total, 1), 0)
    return found[..., 0], found[..., 1:]


def _between(reference: Tensor, mixture: Tensor, share: Tensor) -> Tensor:
    """So far from one to the other; a reference that is not finite is left."""
    usable = torch.isfinite(reference)
    return torch.where(usable, reference + share * (mixture - reference), mixture)
