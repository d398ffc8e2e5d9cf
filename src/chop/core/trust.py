"""How far an answer can be trusted: a probability that its error is small, and what speaks against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from chop.core.conformal import ConformalScores
from chop.core.error_scale import AnsweredPrompt, ExampleErrors, example_errors
from chop.core.errors import ProgramError
from chop.core.fields import Field
from chop.core.next_error import predicted_relative_error
from chop.core.prompt import Prompt, without_repeats
from chop.core.words import count

_SHOWN = 10
"""Queries of a batch that are told of one by one."""
_OUTSIDE = 0.05
"""Share of a query's values outside the examples' range from which that is said."""
_LARGER = 1.5
"""How much larger than every example's input a query is before that is said."""
_NEARLY_SAME, _DIFFERENT = 0.01, 0.1
"""Of inputs and outputs, beside their size: examples that contradict each other."""
_UNLIKE = "the probability is for questions like those of the calibration; this one is unlike its examples"
_SCATTER = 10.0
"""Ratio of the largest to the smallest error at the examples from which that is said."""


@dataclass(frozen=True, eq=False)
class Trust:
    """The probability that answers are good enough, and what speaks against them."""

    probability: Tensor
    """``(...)`` that the relative L2 error is at most the tolerance; 0 for answers that were rejected."""
    reasons: tuple[tuple[str, ...], ...]
    """For each query what speaks against its answer, in words."""
    tolerance: float
    how: str

    def __str__(self) -> str:
        chances = self.probability.reshape(-1).tolist()
        what = f"that the relative error is at most {self.tolerance:g}"
        if len(chances) == 1:
            return "\n  ".join([f"{_percent(chances[0])} {what} ({self.how})", *self.reasons[0]])
        lines = [f"{what} ({self.how}):"]
        for query in range(min(_SHOWN, len(chances))):
            lines.append("; ".join([f"query {query}: {_percent(chances[query])}", *self.reasons[query]]))
        rest = len(chances) - _SHOWN
        return "\n  ".join(
            lines
            + ([f"and {count(rest, 'more query')}"] if rest == 1 else [])
            + ([f"and {rest} more queries"] if rest > 1 else [])
        )


def _percent(chance: float) -> str:
    return "no probability" if chance != chance else f"{100 * chance:.0f} %"


def trust_in(answered: AnsweredPrompt, tolerance: float, scores: ConformalScores | None = None) -> Trust:
    """How likely answers are good enough, from calibration scores where there are some."""
    given: object = tolerance
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 < float(given) < float("inf"):
        raise ProgramError(f"a tolerance is a relative error above 0, as 0.1; not {tolerance!r}")
    prompt = answered.prompt
    errors = example_errors(answered) if scores is None or answered.can_be_judged else None
    outputs = prompt.outputs.values.double().reshape(-1, *prompt.outputs.values.shape[-3:])
    if scores is not None:
        chance, how = scores.probability_below(answered, tolerance), scores.how(simultaneous=False)
    else:
        assert errors is not None
        limit = torch.tensor(tolerance, dtype=torch.float64).log()
        chance = predicted_relative_error(errors, outputs).below(float(limit))
        how = f"from {count(errors.sizes.shape[1], 'held-out error')} of the program itself"
    chance = torch.where(answered.rejected, 0.0, chance.reshape(prompt.batch).to(answered.values.device))
    flat = _Flat(answered, errors, outputs, calibrated=scores is not None)
    reasons = tuple(tuple(flat.reasons(query, tolerance)) for query in range(prompt.batch.numel()))
    return Trust(chance.to(answered.values.dtype), reasons, float(tolerance), how)


class _Flat:
    """The queries of a batch one by one, in double precision."""

    def __init__(
        self, answered: AnsweredPrompt, errors: ExampleErrors | None, outputs: Tensor, calibrated: bool
    ) -> None:
        prompt = answered.prompt
        self._calibrated = calibrated
        self._rejected = answered.rejected.reshape(-1)
        self._values = answered.values.double().reshape(-1, *answered.values.shape[-2:])
        self._inputs, self._seen = _rows(prompt, prompt.inputs)
        self._query, self._query_seen = _rows(prompt, prompt.query)
        self._outputs = outputs
        self._errors = errors
        spread = answered.spread
        self._apart = None if spread is None else spread.values.double().reshape(self._values.shape)
        self._same_places = _share_places(prompt.inputs) and _share_places(prompt.outputs)

    def reasons(self, query: int, tolerance: float) -> Iterator[str]:
        """What speaks against one answer."""
        if bool(self._rejected[query]):
            yield "the answer is not finite: do not use it"
            return
        outside = tuple(self._range(query))
        yield from outside
        if outside and self._calibrated:
            yield _UNLIKE
        yield from self._disagreement(query, tolerance)
        if self._errors is not None:
            yield from self._contradiction(query)
            yield from self._examples(query, tolerance, self._errors)

    def _range(self, query: int) -> Iterator[str]:
        asked, shown = self._query[query], self._inputs[query]
        outside = _share_outside(asked, self._query_seen[query], shown, self._seen[query])
        places = range(len(shown))
        own = [
            _share_outside(shown[h], self._seen[query, h], *_without(h, shown, self._seen[query]))
            for h in places
            if len(shown) > 1
        ]
        if outside > _OUTSIDE and outside > max(own, default=0.0):
            yield f"{100 * outside:.0f} % of the query's values lie outside the range of the examples' inputs"
        size = _size(asked, self._query_seen[query])
        largest = max(_size(shown[h], self._seen[query, h]) for h in places)
        if size > _LARGER * largest > 0:
            yield f"the query is {size / largest:.2g} times as large as the largest of the examples' inputs"

    def _disagreement(self, query: int, tolerance: float) -> Iterator[str]:
        if self._apart is None:
            return
        size = float(self._values[query].square().mean().sqrt())
        apart = float(self._apart[query].square().mean().sqrt())
        if apart > tolerance * size > 0:
            yield f"the candidates disagree: they lie {100 * apart / size:.0f} % of the answer's size from it"

    def _contradiction(self, query: int) -> Iterator[str]:
        inputs, outputs = self._inputs[query], self._outputs[query]
        if not self._same_places or len(inputs) < 2:
            return
        near, far = _apart(inputs), _apart(outputs)
        wrong = (near < _NEARLY_SAME) & (far > _DIFFERENT)
        first, second = (wrong.triu(1)).nonzero(as_tuple=True)
        if len(first):
            i, j = int(first[0]), int(second[0])
            yield (
                f"examples {i + 1} and {j + 1} contradict each other: inputs {100 * float(near[i, j]):.2g} % "
                f"apart, outputs {100 * float(far[i, j]):.0f} %"
            )

    def _examples(self, query: int, tolerance: float, errors: ExampleErrors) -> Iterator[str]:
        counted = errors.share[query] > 0
        seen, truth = errors.observed[query], self._outputs[query]
        sizes = [_size(truth[h], seen[h]) for h in range(len(truth))]
        off = [_size(errors.sizes[query, h], seen[h]) for h in range(len(truth))]
        used = [h for h in range(len(truth)) if bool(counted[h]) and sizes[h] > 0]
        if not used:
            return
        relative = sorted(off[h] / sizes[h] for h in used)
        if relative[-1] > _SCATTER * relative[0] and relative[-1] > tolerance / 10:
            yield f"errors at the examples differ widely: {relative[0]:.2g} to {relative[-1]:.2g}"
        middle = relative[len(relative) // 2]
        if middle > tolerance:
            yield f"the error at the examples is {middle:.2g} in the middle"
        if self._same_places and len(truth) > 1:
            own = sum(off[h] for h in used)
            mean = [_size(truth[h] - _others_mean(truth, h), seen[h]) for h in range(len(truth))]
            rivals = {"the mean of the other outputs": sum(mean[h] for h in used)}
            if self._inputs.shape == self._outputs.shape:
                kept = [_size(truth[h] - self._inputs[query, h], seen[h]) for h in range(len(truth))]
                rivals["leaving the input as it is"] = sum(kept[h] for h in used)
            for name, rival in rivals.items():
                if own >= rival > 0:
                    share = f"{rival / own:.2g} of its error"
                    yield f"at the examples {name} is no worse than the program ({share})"


def _rows(prompt: Prompt, part: Field) -> tuple[Tensor, Tensor]:
    kept = part.values.shape[len(prompt.batch) :]
    return part.values.double().reshape(-1, *kept), part.observed.reshape(-1, *kept)


def _share_places(part: Field) -> bool:
    """Whether the functions of one query are all given at the same points."""
    coords = without_repeats(part.coords)
    return coords.ndim < 3 or coords.shape[-3] == 1


def _share_outside(asked: Tensor, asked_seen: Tensor, shown: Tensor, shown_seen: Tensor) -> float:
    """The share of values ``(n, c)`` outside the range, channel by channel, of functions ``(D, n, c)``."""
    low = torch.where(shown_seen, shown, torch.inf).amin(dim=(0, 1))
    high = torch.where(shown_seen, shown, -torch.inf).amax(dim=(0, 1))
    outside = ((asked < low) | (asked > high)) & asked_seen
    return float(outside.sum() / asked_seen.sum().clamp(min=1))


def _without(place: int, *parts: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.cat([part[:place], part[place + 1 :]]) for part in parts)


def _size(values: Tensor, seen: Tensor) -> float:
    number = int(seen.sum())
    return float(torch.where(seen, values, 0).square().sum().div(max(1, number)).sqrt())


def _apart(functions: Tensor) -> Tensor:
    """Distances ``(D, D)`` of functions beside their size."""
    flat = functions.flatten(1)
    size = flat.square().mean().sqrt()
    distance = (flat.unsqueeze(0) - flat.unsqueeze(1)).square().mean(dim=-1).sqrt()
    return distance / torch.where(size > 0, size, 1)


def _others_mean(outputs: Tensor, place: int) -> Tensor:
    return _without(place, outputs)[0].mean(dim=0)
