"""`auto`: for each question by itself, the operators that its own examples speak for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, final

import torch
from torch import Tensor

from chop.core.counting import CallCount, Where
from chop.core.independence import averaged_together, with_more
from chop.core.parameters import flag, integer, names, number
from chop.core.program import Leaf, Outcome, Program, Projected, Projection
from chop.core.prompt import Prompt
from chop.core.spread import Spread, weighted_spread
from chop.core.tasks import Answer, HeldOut, HeldOutPrompts, Request, Steps
from chop.core.trace import StageKind, Told
from chop.operators.auto.forecasting import forecast_examples, last_examples, projected
from chop.operators.auto.looking import Possible, look
from chop.operators.auto.proposing import Exploration, Proposing, RouteProposal
from chop.operators.auto.routes import BARE, PROBES, Route, seen_from, through
from chop.operators.auto.telling import told
from chop.operators.auto.trials import (
    CandidateAnswer,
    Candidates,
    QuestionRows,
    mean_log,
    mean_trial,
    rows_of,
)
from chop.operators.evidence import Judged, cautious_weights, judge, mixed
from chop.operators.leaves import Ridge
from chop.operators.mixtures import Average

_LEAST = 0.01
"""Weight below which a candidate is left out."""
_DIGITS = 3
"""Of weights: what is told is what is used."""

FAMILIES = (
    "moving_frame", "rescale", "normalize", "views", "krige", "law", "last_frame", "first_frame",
    "query_mean", "mean_output", "nearest_output", "conserve_mean", "nonnegative", "unit_mass",
    "bound_variation",
)  # fmt: skip
"""What may be left out, by the names of operators."""


class WeighedMixture(NamedTuple):
    """What was made of the candidates of some rows."""

    values: Tensor
    held_out: Tensor
    spread: Spread
    weights: Tensor
    """``(rows, c, K)``, in few digits."""
    judged: Judged


@final
@dataclass(frozen=True)
class Auto(Program):
    """Looks at the examples, probes the model, and mixes what they speak for; no program need be known.

    For each question by itself: what its examples show decides which frames, scales, views, leaves and
    projections make sense. Routes are asked one after the other, the best one is refined, as long as the
    budget lasts. The candidates are weighed by the mean logarithm of their held-out errors, less what chance
    would give the best of several; the bare model stays where nothing is clearly better. Examples that share
    frames count once. ``result.program`` is the fixed program that was built.

    With ``ahead``, which rollouts state by themselves, it decides for a forecast: frames of one trajectory
    are also forecast over several steps, each from the answer before; errors are not corrected by their
    likeness to the examples, which a forecast leaves; and the variation is bounded where no example's grows.
    """

    name: ClassVar[str] = "auto"
    kind: ClassVar[StageKind] = "validator"
    calls_at_most: ClassVar[bool] = True
    law: ClassVar[str] = "Never more model evaluations than the budget; each question by itself."
    helps: ClassVar[str] = "when it is not known which program to use"
    budget: int = integer(24, 1, 1000, "model evaluations for each query, at most")
    leaves: bool = flag(True, "also answers without the model: persistence, the examples' mean, a law, ...")
    trust: float = number(4.0, 0.0, 100.0, "how much a smaller error at the examples counts")
    without: tuple[str, ...] = names("operators that are not to be used", FAMILIES)
    ahead: int = integer(
        1, 1, 1_000_000, "steps that will follow each other, each from the last one's answer"
    )

    @property
    def reports_held_out(self) -> bool:
        return True

    def for_forecast(self, steps: int) -> Program:
        return replace(self, ahead=max(steps, self.ahead))

    def count(self, where: Where, calls: CallCount) -> None:
        calls.at_most(where, self.budget)

    def plan(self, prompt: Prompt) -> Steps:
        steps = min(self.ahead, prompt.examples // 2) if self.ahead > 1 else 0
        price = prompt.examples + 1 + steps
        if prompt.examples < 2 or self.budget < price:
            return (yield from self._unjudged(prompt))
        possible = look(prompt, frozenset(self.without), self.leaves, self.ahead > 1)
        questions = QuestionRows(prompt)
        correcting = "krige" not in self.without and self.ahead == 1
        progress = [Exploration(one, self.budget, price, steps, correcting) for one in possible]
        found = yield from explore(questions, progress)
        leaves = [self._leaves(*each) for each in zip(possible, found, strict=True)]
        yield from ask_leaves(questions, leaves, found)
        return (yield from self._weighed(questions, possible, found, steps))

    def _leaves(self, possible: Possible, found: Candidates) -> tuple[Leaf, ...]:
        """What is asked without the model; where that fails, also the regression inside corrections."""
        bare = found[BARE]
        sound = bool(torch.isfinite(bare.values).all()) and bool(torch.isfinite(bare.held_out).all())
        return possible.leaves if sound or not self.leaves else (*possible.leaves, Ridge())

    def _unjudged(self, prompt: Prompt) -> Steps:
        """The bare model, where nothing can be held out or paid for."""
        (outcome,) = yield [Answer(BARE, prompt)]
        unknown = torch.full_like(prompt.outputs.values, torch.nan)
        why = "the bare model: " + (
            "a single example cannot be held out"
            if prompt.examples < 2
            else f"a budget of {self.budget} is too small to judge by {prompt.examples} examples"
        )
        count = prompt.batch.numel()
        return Outcome(outcome.values, unknown, {"kept": Told((why,) * count)}, (BARE,) * count)

    def _weighed(
        self, questions: QuestionRows, possible: Sequence[Possible], found: Sequence[Candidates], steps: int
    ) -> Steps:
        """The mixture of each question's candidates, with what its examples obey."""
        prompt = questions.prompt
        values: list[Tensor] = [prompt.query.values] * questions.count
        held_out, apart, own_apart = list(values), list(values), list(values)
        texts = [""] * questions.count
        programs: list[Program] = [BARE] * questions.count
        alike: dict[object, list[int]] = defaultdict(list)
        for row, candidates in enumerate(found):
            alike[tuple(candidates), possible[row].projections, possible[row].consecutive].append(row)
        for rows in alike.values():
            part, projections = questions.part(rows), possible[rows[0]].projections
            forecasts = None
            if steps and possible[rows[0]].consecutive:
                forecasts = yield from forecast_examples(part, list(found[rows[0]]), projections, steps)
            verdict = _verdict(part, [found[row] for row in rows], self.trust, forecasts)
            answer = projected(projections, part, verdict.values)
            (hidden,) = yield [HeldOutPrompts(part, pad=False, gap=0)]
            own = projected(projections, hidden, verdict.held_out)
            parts = (answer, own, *verdict.spread)
            here = zip(rows, *(rows_of(each, part.batch) for each in parts), strict=True)
            for place, (row, *each) in enumerate(here):
                values[row], held_out[row], apart[row], own_apart[row] = each
                tried = list(found[row])
                weights = verdict.weights[place]
                programs[row] = _with_projections(_mixture(tried, weights), projections)
                texts[row] = told(
                    possible[row], tried, weights, verdict.judged.gains[place],
                    verdict.judged.deviations[place], projections,
                )  # fmt: skip
        (answers, off), (at_examples, off_there) = (
            [torch.stack(each).reshape(shape) for each in pair]
            for pair, shape in (
                ((values, apart), prompt.answer_shape),
                ((held_out, own_apart), prompt.outputs.values.shape),
            )
        )
        found_out = {"found": Told(tuple(texts))}
        return Outcome(answers, at_examples, found_out, tuple(programs), Spread(off, off_there))


def explore(questions: QuestionRows, progress: Sequence[Proposing]) -> Steps:
    """The candidates of each question: route after route is asked until all have what they can have."""
    found: list[Candidates] = [{} for _ in progress]
    sides: list[dict[tuple[Route, Program], list[CandidateAnswer]]] = [defaultdict(list) for _ in progress]
    while True:
        wanted: dict[RouteProposal, list[int]] = defaultdict(list)
        for row, one in enumerate(progress):
            proposal = one.propose()
            if proposal is not None:
                wanted[proposal].append(row)
        if not wanted:
            return found
        asked: list[tuple[RouteProposal, list[int], Program, Request]] = []
        for proposal, rows in wanted.items():
            part = questions.part(rows)
            asked += [
                (proposal, rows, inner, Answer(through(proposal.route + view, PROBES[inner]), part))
                for view in proposal.views
                for inner in proposal.inner
            ]
        outcomes = yield [request for *_, request in asked]
        for (proposal, rows, inner, _), outcome in zip(asked, outcomes, strict=True):
            batch = questions.part(rows).batch
            pairs = zip(rows_of(outcome.values, batch), rows_of(outcome.held_out, batch), strict=True)
            for row, (values, held_out) in zip(rows, pairs, strict=True):
                sides[row][proposal.route, inner].append(CandidateAnswer(values, held_out))
        for proposal, rows in wanted.items():
            _enter(questions, proposal, rows, progress, sides, found)


def _enter(
    questions: QuestionRows,
    proposal: RouteProposal,
    rows: Sequence[int],
    progress: Sequence[Proposing],
    sides: Sequence[dict[tuple[Route, Program], list[CandidateAnswer]]],
    found: Sequence[Candidates],
) -> None:
    """Make candidates of what was answered, and note how well they did at the examples."""
    part = questions.part(rows)
    route, level = proposal.route, proposal.level
    for inner in proposal.inner:
        means = [mean_trial(sides[row][route, inner]) for row in rows]
        shape, examples = part.answer_shape, part.outputs.values.shape
        logs = mean_log(
            part,
            torch.stack([one.values for one in means]).reshape(shape),
            torch.stack([one.held_out for one in means]).reshape(examples),
        )
        for row, trial, log in zip(rows, means, logs, strict=True):
            if level > 1 or (level and inner != BARE):
                # Fewer sides are no candidate of their own; the bare model as it is stays one.
                found[row].pop(through(route, seen_from(level - 1, inner)), None)
            found[row][through(route, seen_from(level, inner))] = trial
            progress[row].logs[route, inner] = log


def ask_leaves(
    questions: QuestionRows, leaves: Sequence[Sequence[Leaf]], found: Sequence[Candidates]
) -> Steps:
    """Answers that need no model, each for the questions that it makes sense for."""
    wanted: dict[Leaf, list[int]] = defaultdict(list)
    for row, own in enumerate(leaves):
        for leaf in own:
            wanted[leaf].append(row)
    asked: list[Request] = []
    for leaf, rows in wanted.items():
        part = questions.part(rows)
        asked += [Answer(leaf, part), HeldOut(leaf, part, pad=True, gap=0)]
    results = yield asked
    for place, (leaf, rows) in enumerate(wanted.items()):
        batch = questions.part(rows).batch
        values, held_out = results[2 * place].values, results[2 * place + 1]
        answers = zip(rows, rows_of(values, batch), rows_of(held_out, batch), strict=True)
        for row, answer, at_examples in answers:
            found[row][leaf] = CandidateAnswer(answer, at_examples)
    return None


def _verdict(
    part: Prompt, candidates: Sequence[Candidates], trust: float, forecasts: Sequence[Tensor] | None
) -> WeighedMixture:
    """The same candidates of some rows, mixed: the first is the bare model, the reference.

    ``forecasts`` of the last frames ``(..., steps, m, c)``, if there are any, count as so many more examples.
    """
    programs = list(candidates[0])
    shape, examples = part.answer_shape, part.outputs.values.shape
    values = [torch.stack([one[p].values for one in candidates]).reshape(shape) for p in programs]
    held_out = [torch.stack([one[p].held_out for one in candidates]).reshape(examples) for p in programs]
    logs, counted = judge(part.outputs, values, held_out)
    together = averaged_together(part)
    if forecasts is not None:
        steps = forecasts[0].shape[-3]
        more, seen = judge(last_examples(part.outputs, steps), values, forecasts)
        logs, counted = torch.cat([logs, more], dim=-2), torch.cat([counted, seen], dim=-1)
        together = with_more(together, steps)
    judged = cautious_weights(logs, counted, together, trust)
    weights = _few_digits(judged.weights)
    own, own_apart = [], []
    for h in range(part.examples):
        others = counted.clone()
        others[..., h] = False
        without = cautious_weights(logs, others, together, trust).weights.to(part.dtype)
        there = [one.select(-3, h) for one in held_out]
        own.append(mixed(there, without))
        own_apart.append(weighted_spread(there, without, own[-1]))
    shares = (weights / weights.sum(dim=-1, keepdim=True)).to(part.dtype)
    mixture = mixed(values, shares)
    rows = len(candidates)
    return WeighedMixture(
        mixture,
        torch.stack(own, dim=-3),
        Spread(weighted_spread(values, shares, mixture), torch.stack(own_apart, dim=-3)),
        weights.reshape(rows, *weights.shape[-2:]),
        Judged(*(each.reshape(rows, *each.shape[-2:]) for each in judged)),
    )


def _few_digits(weights: Tensor) -> Tensor:
    """Weights without the smallest, in a few digits; they sum to about 1."""
    kept = torch.where(weights >= _LEAST, weights, 0).double()
    return (kept / kept.sum(dim=-1, keepdim=True)).round(decimals=_DIGITS)


def _mixture(candidates: Sequence[Program], weights: Tensor) -> Program:
    """The fixed program of weights ``(c, K)``."""
    used = [k for k in range(len(candidates)) if bool((weights[:, k] > 0).any())]
    if len(used) == 1:
        return candidates[used[0]]
    table = weights[:, used].mT
    alike = bool((table == table[:, :1]).all())
    each = (table[:, :1] if alike else table).flatten().tolist()
    return Average(tuple(candidates[k] for k in used), weights=tuple(round(one, _DIGITS) for one in each))


def _with_projections(program: Program, projections: Sequence[Projection]) -> Program:
    for projection in projections:
        program = Projected(program, projection=projection)
    return program
