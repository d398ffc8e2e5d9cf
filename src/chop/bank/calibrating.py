"""How a calibration is made: past questions are chosen, asked, and judged by what was fitted without them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from chop.bank.calibration import DIGITS, Calibration, LearntWeights
from chop.bank.candidates import candidates_of
from chop.bank.past_answers import AnsweredBatch, Heard, PastQuestions, answer_past
from chop.core.conformal import ConformalScores
from chop.core.errors import BankError
from chop.core.model import FrozenModel
from chop.core.program import Outcome, Program, Result
from chop.core.prompt import Field, Prompt
from chop.core.text import program_of
from chop.numerics.aggregation import Boa
from chop.numerics.past_weights import PastWeights, log_gains, weights_of_past
from chop.operators.mixtures import error_moments
from chop.operators.weighing import Weigh

if TYPE_CHECKING:
    from chop.bank.bank import Bank
    from chop.bank.choosing import By

QUESTIONS = 200
FOLDS = 6
_TRUSTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
"""How much the examples of a question may count beside the past."""
_LOOKED_AT = 24
"""Questions on which `auto` shows what it makes use of."""


def calibrate(
    bank: Bank,
    program: Program | str,
    model: FrozenModel,
    *,
    k: int,
    by: By,
    questions: int = QUESTIONS,
    like: Field | None = None,
    lead: int | None = None,
    examples: bool = True,
    seed: int = 0,
    folder: Path | None = None,
    heard: Heard = lambda done, total: None,
) -> Calibration:
    """What `Bank.calibrate` does."""
    rows = asked_rows(bank, questions, k, like, lead, seed)
    past = PastQuestions(bank, rows, k, by, seed)
    spread = torch.linspace(0, len(rows) - 1, min(_LOOKED_AT, len(rows))).round().long().unique()
    looked_at = bank.question(rows[spread], k, by, seed)[0]
    candidates = candidates_of(program_of(program), model, looked_at)
    batches = answer_past(past, candidates, model, examples, folder, heard)
    folds = torch.arange(len(rows)) * min(FOLDS, len(rows)) // len(rows)
    parts = [error_moments(batch.answers, batch.truth) for batch in batches]
    moments, counted = torch.cat([part[0] for part in parts], dim=1), torch.cat([p[1] for p in parts], dim=1)
    found = weights_of_past(torch.where(counted[..., None, None], moments, 0), counted, folds)
    trust, crossed = (
        _examples_count(batches, moments, counted, found, folds) if examples else (0.0, found.gains)
    )
    first = torch.where(counted, moments[..., 0, 0], 0).sum(dim=1) / counted.sum(dim=1).clamp(min=1)
    unit = torch.where(first > 0, first, 1)
    return Calibration(
        candidates=candidates,
        weights=found.weights.round(decimals=DIGITS),
        trust=trust,
        examples=examples,
        kept=found.kept,
        errors=_beside_first(moments, counted).round(decimals=DIGITS),
        gain=_mean_gain(moments, counted, crossed),
        questions=len(rows),
        k=k,
        by=by,
        lead=_common_lead(bank, rows),
        scores=_scores(batches, candidates, found, trust, examples, folds),
        learnt=LearntWeights(Boa.start(found.weights), unit),
    )


def asked_rows(bank: Bank, questions: int, k: int, like: Field | None, lead: int | None, seed: int) -> Tensor:
    """Rows that are asked, in the order of time: those with enough examples before them.

    With ``like``, the most similar to some queries; else by chance.
    """
    asked, known = bank.asked, bank.known
    allowed = torch.ones(len(bank), dtype=torch.bool)
    if asked is not None and known is not None:
        before = torch.searchsorted(known.sort().values, asked, right=True)
        allowed = before > k
        if lead is not None:
            allowed = allowed & (known - asked == lead)
    elif lead is not None:
        raise BankError("this bank has no times, so its pairs have no lead")
    pool = allowed.nonzero().squeeze(-1)
    if len(pool) < 2 * FOLDS or len(bank) <= k:
        raise BankError(
            f"to calibrate, {2 * FOLDS} pairs are needed that {k} others precede; of the {len(bank)} of this "
            f"bank {len(pool)} are"
        )
    number = min(questions, len(pool))
    if like is not None:
        each = max(1, -(-2 * number // len(like.values)))
        near = bank.examples(like, min(each, len(bank)), "similar")
        ranked = torch.stack([row for column in near.mT for row in column])
        chosen = [row for row in dict.fromkeys(ranked.tolist()) if bool(allowed[row])][:number]
        picked = torch.tensor(chosen, dtype=torch.int64)
    else:
        order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(seed))[:number]
        picked = pool[order]
    return picked[asked[picked].argsort(stable=True)] if asked is not None else picked.sort().values


def _common_lead(bank: Bank, rows: Tensor) -> int | None:
    if bank.asked is None or bank.known is None:
        return None
    leads = (bank.known - bank.asked)[rows].unique()
    return int(leads[0]) if len(leads) == 1 else None


def _examples_count(
    batches: Sequence[AnsweredBatch], moments: Tensor, counted: Tensor, found: PastWeights, folds: Tensor
) -> tuple[float, Tensor]:
    """How much the examples of a question count: as far as that helped in the past by more than chance."""
    logs, seen = zip(*(batch.logs() for batch in batches), strict=True)
    means = torch.cat([(x * s.unsqueeze(-1)).sum(dim=-2) / s.sum(dim=-1, keepdim=True).clamp(min=1)
                       for x, s in zip(logs, seen, strict=True)]).transpose(0, 1)  # fmt: skip
    prior = found.crossed.clamp(min=1e-12).log()
    gains = []
    for trust in _TRUSTS:
        weights = torch.where(found.crossed > 0, (prior - trust * means).softmax(dim=-1), 0)
        gains.append(log_gains(moments, counted, weights / weights.sum(dim=-1, keepdim=True)))
    number = counted.sum(dim=0).clamp(min=1)
    each = torch.stack([gain.sum(dim=0) / number for gain in gains])  # (trusts, Q)
    by_fold = torch.stack([each[:, folds == fold].mean(dim=1) for fold in folds.unique()], dim=1)
    more = by_fold - by_fold[:1]
    clear = more.mean(dim=1) - more.std(dim=1) / max(1, more.shape[1]) ** 0.5
    best = int(clear.argmax())
    return _TRUSTS[best], gains[best]


def _beside_first(moments: Tensor, counted: Tensor) -> Tensor:
    own = moments.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()
    sums = torch.where(counted.unsqueeze(-1), own, 0).sum(dim=1)
    first = sums[:, :1]
    return torch.where(first > 0, sums / torch.where(first > 0, first, 1), 1)


def _mean_gain(moments: Tensor, counted: Tensor, gains: Tensor) -> Tensor:
    """By what part the mean error falls, from logarithms of ratios for each question."""
    first = torch.where(counted, moments[..., 0, 0].clamp(min=0).sqrt(), 0)
    total = first.sum(dim=1)
    return 1 - (first * (-gains).exp()).sum(dim=1) / torch.where(total > 0, total, 1)


def _scores(
    batches: Sequence[AnsweredBatch],
    candidates: tuple[Program, ...],
    found: PastWeights,
    trust: float,
    examples: bool,
    folds: Tensor,
) -> ConformalScores:
    """Errors of the mixture at the past questions, each answered by what was fitted without its fold."""
    results, start = [], 0
    for batch in batches:
        size = batch.answers.shape[1]
        for place in range(size):
            weights = found.crossed[:, start + place]
            given = tuple(weights.mT.clamp(min=0).flatten().tolist())
            one = batch.prompt[place : place + 1]
            answers = list(batch.answers[:, place : place + 1].unbind())
            if examples:
                assert batch.held_out is not None
                held = list(batch.held_out[:, place : place + 1].unbind())
                outcome = Weigh(candidates, trust=trust, prior=given).decide(one, answers, held)
            else:
                outcome = Outcome(torch.einsum("ck,kqmc->qmc", weights.to(answers[0]), torch.stack(answers)))
            results.append(_result(one, outcome, candidates[0]))
        start += size
    truth = torch.cat([batch.truth.values for batch in batches])
    mask = torch.cat([batch.truth.observed for batch in batches])
    return ConformalScores.of(results, truth, mask, folds)


def _result(prompt: Prompt, outcome: Outcome, program: Program) -> Result:
    rejected = ~torch.isfinite(outcome.values).all(dim=-1).all(dim=-1)
    return Result(
        values=outcome.values, rejected=rejected, error=None, held_out=outcome.held_out, calls=0, rounds=0,
        prompt=prompt, programs=(program,) * prompt.batch.numel(), _trace=None, spread=outcome.spread,
    )  # fmt: skip
