"""What calibration questions, whose truth is known, say of a program's errors: conformal scores.

A score is an error divided by the scale that was predicted for it. If the next question is like the others,
exchangeable with them, the band that a quantile of their scores gives covers as often as it says, however
good or bad the prediction was: split conformal prediction for all points at once, and conformal risk control
(Angelopoulos and others, 2022) for the share of points inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from chop.core.error_scale import AnsweredPrompt, example_errors
from chop.core.errors import ProgramError
from chop.core.metrics import rel_l2
from chop.core.next_error import predicted_relative_error
from chop.core.prompt import without_repeats
from chop.core.words import count, representation

if TYPE_CHECKING:
    from chop.core.running import Result

FORMAT = "chop-scores-1"
_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How far a scale may follow the prediction: 0 is one scale for all questions."""
_MOST_KEPT = 400
"""Scores of a channel that are kept."""
_ENOUGH_FOR_POINTS = 50
"""Questions at the same points from which each point may have a scale of its own."""
_PRIOR_QUESTIONS = 10.0
"""Questions that a point's scale is drawn to the others' by."""


class ScoreQuantiles(NamedTuple):
    """Scores in ascending order, and the share of all that lies at or below each."""

    scores: tuple[float, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, scores: Tensor, weights: Tensor) -> ScoreQuantiles:
        """Of scores ``(N,)`` with weights that sum to 1; where there are many, the next larger one counts."""
        ordered, order = scores.sort()
        shares = weights[order].cumsum(dim=0).clamp(max=1)
        kept = torch.arange(len(ordered), device=scores.device)
        if len(ordered) > _MOST_KEPT:
            half = torch.linspace(0, 1, _MOST_KEPT // 2, dtype=torch.float64, device=scores.device)
            wanted = torch.cat([half, 0.9 + half / 10]).sort().values
            kept = torch.searchsorted(shares, wanted).clamp(max=len(ordered) - 1).unique()
        return cls(tuple(ordered[kept].tolist()), tuple(shares[kept].tolist()))

    def at(self, share: float) -> float:
        """The smallest score with so much at or below it; infinite where that is more than all."""
        for score, reached in zip(self.scores, self.shares, strict=True):
            if reached >= share - 1e-9:
                return score
        return math.inf

    def below(self, score: float) -> float:
        """The share at or below a score, between neighbours in proportion."""
        if not self.scores or score < self.scores[0]:
            return 0.0
        place = sum(one <= score for one in self.scores) - 1
        if place + 1 == len(self.scores):
            return self.shares[place]
        low, high = self.scores[place], self.scores[place + 1]
        part = (score - low) / (high - low) if math.isfinite(high) and high > low else 0.0
        return self.shares[place] + part * (self.shares[place + 1] - self.shares[place])


@dataclass(frozen=True)
class ConformalScores:
    """Scores of a program's errors at calibration questions; plain numbers."""

    questions: int
    """How many they were."""
    power: float
    """The power of the predicted scale that the scores are divided by; 0: the same for all questions."""
    units: tuple[float, ...]
    """What a scale of 1 is, for each channel."""
    pointwise: tuple[ScoreQuantiles, ...]
    """For each channel, of all points: each question has the same weight."""
    largest: ScoreQuantiles
    """Of the largest score of each question, over points and channels."""
    ratios: ScoreQuantiles
    """Logarithms of relative L2 errors over what was predicted, to the power of ``ratio_power``."""
    ratio_power: float
    points: tuple[tuple[float, ...], ...] | None = None
    """The scale ``(m, c)`` of each point beside the others, where all questions share them."""
    crossed: bool = False
    """Whether each question was answered by what was chosen without its fold."""

    @classmethod
    def of(
        cls,
        results: Result | AnsweredPrompt | Sequence[Result | AnsweredPrompt],
        truth: Tensor,
        mask: Tensor | None = None,
        folds: Tensor | None = None,
    ) -> ConformalScores:
        """From answers to calibration questions and the truth ``(..., m, c)``, observed where ``mask`` says.

        Results follow each other along the truth's first axis. ``folds`` says for each question to which part
        it belongs, where answers of a part were made without it (cross-conformal).
        """
        given = list(results) if isinstance(results, Sequence) else [results]
        if not given:
            raise ProgramError("calibration needs at least one answered question")
        answers = [one if isinstance(one, AnsweredPrompt) else one.answered for one in given]
        errors, seen, relative = _true_errors(answers, truth, mask)
        questions = len(errors)
        if folds is not None and folds.numel() != questions:
            raise ProgramError(f"folds has {folds.numel()} entries for {questions} questions")
        predicted, centres = _predictions(answers)
        power = _best_power(errors, seen, predicted)
        scores = errors / predicted.pow(power)
        points, scores = _point_scales(answers, scores, seen)
        units = _units(scores, seen)
        scores = torch.where(seen, scores / units, 0)
        counted = seen.flatten(1).any(dim=1)
        if not bool(counted.any()):
            raise ProgramError("nothing of the calibration questions' truth was observed")
        ratio_power, ratios = _ratios(relative[counted], centres[counted])
        return cls(
            questions=int(counted.sum()),
            power=power,
            units=tuple(units.tolist()),
            pointwise=tuple(_pooled(scores[..., c], seen[..., c]) for c in range(scores.shape[-1])),
            largest=_evenly(scores[counted].amax(dim=(-1, -2))),
            ratios=_evenly(ratios),
            ratio_power=ratio_power,
            points=None if points is None else tuple(tuple(row) for row in points.tolist()),
            crossed=folds is not None,
        )

    def how(self, simultaneous: bool) -> str:
        """Where a band comes from, in one sentence."""
        kind = "cross-conformal" if self.crossed else "split conformal"
        scale = "one scale for all" if self.power == 0 else "scaled by each question's own held-out errors"
        end = ", for all points at once" if simultaneous else ""
        return f"{kind}, from the errors at {count(self.questions, 'calibration question')}, {scale}{end}"

    @property
    def needs_examples(self) -> bool:
        """Whether a question's own held-out errors have to be there."""
        return self.power > 0 or self.ratio_power > 0

    def enough_for(self, level: float) -> bool:
        """Whether there are enough questions for a band of this level."""
        return self.questions >= _needed(level)

    def half_width(self, answered: AnsweredPrompt, level: float, simultaneous: bool) -> Tensor:
        """``(B, m, c)`` of a band around answers."""
        if not self.enough_for(level):
            raise ProgramError(
                f"a band of level {level:g} needs at least {_needed(level)} calibration questions, "
                f"there are {self.questions}; ask for a lower level or calibrate with more"
            )
        shape = answered.values.shape[-2:]
        if shape[-1] != len(self.units) or (self.points is not None and shape[0] != len(self.points)):
            raise ProgramError(
                f"answers of {shape[0]} points and {shape[1]} channels are not like those of the calibration"
            )
        # The question itself is one more, and may have any score.
        share = level * (self.questions + 1) / self.questions
        found = [self.largest] * len(self.units) if simultaneous else self.pointwise
        scale = torch.tensor(self.units, dtype=torch.float64, device=answered.values.device)
        scale = scale * torch.tensor([one.at(share) for one in found], dtype=torch.float64).to(scale)
        if self.points is not None:
            scale = scale * torch.tensor(self.points, dtype=torch.float64).to(scale)
        if self.power == 0:
            return scale.expand(answered.prompt.batch.numel(), *shape)
        return scale * example_errors(answered).scale.pow(self.power)

    def probability_below(self, answered: AnsweredPrompt, relative_error: float) -> Tensor:
        """The probability ``(B,)`` that the relative L2 error of answers is at most this."""
        logs = [0.0] * answered.prompt.batch.numel()
        if self.ratio_power:
            errors = example_errors(answered)
            outputs = answered.prompt.outputs.values.double().reshape(errors.sizes.shape)
            logs = predicted_relative_error(errors, outputs).centre.tolist()
        limit = math.log(relative_error) if relative_error > 0 else -math.inf
        part = self.questions / (self.questions + 1)
        chances = [self.ratios.below(limit - self.ratio_power * one) * part for one in logs]
        return torch.tensor(chances, dtype=torch.float64)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file; numbers that are infinite become None."""
        return {
            "format": FORMAT,
            "questions": self.questions,
            "power": self.power,
            "units": list(self.units),
            "pointwise": [_plain(one) for one in self.pointwise],
            "largest": _plain(self.largest),
            "ratios": _plain(self.ratios),
            "ratio_power": self.ratio_power,
            "points": None if self.points is None else [list(row) for row in self.points],
            "crossed": self.crossed,
        }

    @classmethod
    def from_dict(cls, content: Any) -> ConformalScores:
        """What `to_dict` gave; anything else is an error."""
        try:
            if content["format"] != FORMAT:
                raise ValueError
            read = cls(
                questions=_whole(content["questions"]),
                power=_number(content["power"]),
                units=_numbers(content["units"]),
                pointwise=tuple(map(_quantiles, content["pointwise"])),
                largest=_quantiles(content["largest"]),
                ratios=_quantiles(content["ratios"]),
                ratio_power=_number(content["ratio_power"]),
                points=None if content["points"] is None else tuple(map(_numbers, content["points"])),
                crossed=content["crossed"] is True,
            )
            if len(read.units) != len(read.pointwise) or read.questions < 1:
                raise ValueError
            if read.points is not None and any(len(row) != len(read.units) for row in read.points):
                raise ValueError
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ProgramError(
                "these are not conformal scores; give what ConformalScores.to_dict wrote"
            ) from None
        return read

    def __repr__(self) -> str:
        return representation("ConformalScores", {"how": self.how(simultaneous=False)})


def _needed(level: float) -> int:
    """Questions below which the next one's score may be the largest too often."""
    return math.ceil(level / (1 - level) - 1e-9)


def _true_errors(
    answers: Sequence[AnsweredPrompt], truth: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Absolute errors and what was observed ``(N, m, c)``, relative L2 errors ``(N,)``."""
    values = torch.cat([one.values.reshape(-1, *one.values.shape[-2:]) for one in answers]).double()
    if truth.numel() != values.numel() or truth.shape[-2:] != values.shape[-2:]:
        raise ProgramError(
            f"the truth has shape {tuple(truth.shape)}, the answers are {len(values)} of "
            f"{tuple(values.shape[-2:])}"
        )
    target = truth.reshape(values.shape).to(values)
    seen = torch.ones_like(target, dtype=torch.bool)
    if mask is not None:
        if mask.dtype != torch.bool or mask.numel() != target.numel():
            raise ProgramError(f"the mask must be bool and fit the truth, not {mask.dtype} {mask.shape}")
        seen = mask.reshape(target.shape)
    target = torch.where(seen, target, 0)
    if not bool(torch.isfinite(target).all()):
        raise ProgramError("the truth holds numbers that are not finite where it was observed")
    rejected = torch.cat([one.rejected.reshape(-1) for one in answers])[:, None, None]
    off = (values - target).abs()
    errors = torch.where(seen, torch.where(torch.isfinite(off) & ~rejected, off, torch.inf), 0)
    relative = rel_l2(values, target, seen)
    return errors, seen, torch.where(torch.isfinite(relative), relative, torch.inf)


def _predictions(answers: Sequence[AnsweredPrompt]) -> tuple[Tensor, Tensor]:
    """Predicted scales ``(N, m, c)`` and logarithms of relative errors ``(N,)``.

    They are 1 and 0 where some question has none.
    """
    shape = answers[0].values.shape[-2:]
    number = sum(one.prompt.batch.numel() for one in answers)
    device = answers[0].values.device
    none = (
        torch.ones(number, *shape, dtype=torch.float64, device=device),
        torch.zeros(number, dtype=torch.float64, device=device),
    )
    if not all(one.can_be_judged for one in answers):
        return none
    scales, centres = [], []
    for one in answers:
        errors = example_errors(one)
        outputs = one.prompt.outputs.values.double()
        scales.append(errors.scale)
        centres.append(predicted_relative_error(errors, outputs.reshape(errors.sizes.shape)).centre)
    scale, centre = torch.cat(scales), torch.cat(centres)
    usable = torch.isfinite(scale).all() & torch.isfinite(centre).all() & (scale > 0).all()
    return (scale, centre) if bool(usable) else none


def _best_power(errors: Tensor, seen: Tensor, predicted: Tensor) -> float:
    """The power of the prediction under which each question's errors are likeliest, told by the others."""
    finite = torch.isfinite(errors) & seen
    likelihoods = [float(_left_out(errors, finite, predicted.pow(power)).mean()) for power in _POWERS]
    return _POWERS[max(range(len(_POWERS)), key=likelihoods.__getitem__)]


def _left_out(errors: Tensor, seen: Tensor, scales: Tensor) -> Tensor:
    """For each question ``(N,)``: the logarithm of its errors' likelihood, exponential with others' mean."""
    scores = torch.where(seen, errors / scales, 0)
    number = seen.sum(dim=1)  # (N, c)
    each = scores.sum(dim=1) / number.clamp(min=1)
    counted = (number > 0).double()
    others = (each.sum(dim=0) - each) / (counted.sum(dim=0) - counted).clamp(min=1)
    mean = torch.where(others > 0, others, 1).unsqueeze(1)
    logs = torch.where(seen, -scores / mean - (mean * scales).log(), 0)
    return logs.sum(dim=(1, 2)) / number.sum(dim=1).clamp(min=1)


def _point_scales(
    answers: Sequence[AnsweredPrompt], scores: Tensor, seen: Tensor
) -> tuple[Tensor | None, Tensor]:
    """A scale ``(m, c)`` for each point where that tells more, and the scores divided by those of the others.

    Each question's scores are divided by what the other questions say, as those of a new one will be.
    """
    number = len(scores)
    if number < _ENOUGH_FOR_POINTS or scores.shape[1] < 2 or not _share_points(answers):
        return None, scores
    finite = seen & torch.isfinite(scores)
    clean = torch.where(finite, scores, 0)
    mean = clean.sum(dim=1, keepdim=True) / finite.sum(dim=1, keepdim=True).clamp(min=1)
    relative = clean / torch.where(mean > 0, mean, 1)
    total, counts = relative.sum(dim=0), finite.sum(dim=0)
    left_out = (total - relative + _PRIOR_QUESTIONS) / (counts - finite.double() + _PRIOR_QUESTIONS)
    gains = _left_out(clean, finite, left_out) - _left_out(clean, finite, torch.ones_like(left_out))
    if not float(gains.mean()) > float(gains.std()) / math.sqrt(number):
        return None, scores
    return (total + _PRIOR_QUESTIONS) / (counts + _PRIOR_QUESTIONS), scores / left_out


def _share_points(answers: Sequence[AnsweredPrompt]) -> bool:
    places = [without_repeats(one.prompt.at) for one in answers]
    return all(
        place.shape[:-2].numel() == 1 and torch.equal(place.flatten(0, -3), places[0].flatten(0, -3))
        if place.ndim > 2
        else torch.equal(place, places[0])
        for place in places
    )


def _units(scores: Tensor, seen: Tensor) -> Tensor:
    """A typical score ``(c,)`` of each channel; 1 where there is none."""
    found = []
    for channel in range(scores.shape[-1]):
        own = scores[..., channel][seen[..., channel] & torch.isfinite(scores[..., channel])]
        typical = float(own.square().mean().sqrt()) if own.numel() else 0.0
        found.append(typical if typical > 0 else 1.0)
    return torch.tensor(found, dtype=torch.float64, device=scores.device)


def _pooled(scores: Tensor, seen: Tensor) -> ScoreQuantiles:
    """Scores ``(N, m)`` of all points; each question of which something was seen has the same weight."""
    number = seen.sum(dim=1, keepdim=True)
    weights = (seen / number.clamp(min=1)).double() / max(1, int((number > 0).sum()))
    return ScoreQuantiles.of(scores[seen], weights[seen])


def _evenly(scores: Tensor) -> ScoreQuantiles:
    return ScoreQuantiles.of(scores, torch.full_like(scores, 1 / max(1, len(scores))))


def _ratios(relative: Tensor, centres: Tensor) -> tuple[float, Tensor]:
    """The power of the prediction that leaves the least scatter of logarithms, and what it leaves."""
    logs = relative.clamp(min=1e-300).log()
    finite = torch.isfinite(logs)
    if int(finite.sum()) < 2:
        return 0.0, logs
    left = {power: float((logs - power * centres)[finite].std()) for power in _POWERS}
    power = min(left, key=left.__getitem__)
    return power, logs - power * centres


def _plain(one: ScoreQuantiles) -> dict[str, Any]:
    return {"scores": [s if math.isfinite(s) else None for s in one.scores], "shares": list(one.shares)}


def _quantiles(content: Any) -> ScoreQuantiles:
    scores = tuple(math.inf if one is None else _number(one) for one in content["scores"])
    shares = _numbers(content["shares"])
    if len(scores) != len(shares) or list(scores) != sorted(scores) or list(shares) != sorted(shares):
        raise ValueError
    return ScoreQuantiles(scores, shares)


def _numbers(content: Any) -> tuple[float, ...]:
    return tuple(map(_number, content))


def _number(content: Any) -> float:
    if isinstance(content, bool) or not isinstance(content, int | float) or not math.isfinite(content):
        raise ValueError
    return float(content)


def _whole(content: Any) -> int:
    if isinstance(content, bool) or not isinstance(content, int):
        raise ValueError
    return content
