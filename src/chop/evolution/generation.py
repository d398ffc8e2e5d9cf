"""Random programs, typed and within the declared ranges, and the strategy by which an agent makes them.

A strategy says how often an agent makes which move and which operators it likes. It is a value, adapted to
what won: moves and operators whose proposals improved on their parents come more often afterwards, none ever
disappears, and steps of numbers grow or shrink with their success.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from chop.core.editing import as_program, program_parameters, surround
from chop.core.parameters import Operator, Param
from chop.core.program import Icon, Program, Projection, Transform
from chop.evolution.space import Space, value_parameters

RAREST_MOVE = 0.02
"""No move is made more rarely than this, once an agent makes it at all."""
PRIOR = 4.0
"""Imagined proposals with the overall success rate, before a rate is believed."""
STEP_RANGE = (0.05, 1.2)
"""Bounds of the step of numbers, in natural logarithms of the number."""
KEEP_DEFAULT = 0.6
"""How often a new operator's parameter stays at its default, which somebody chose with care."""
MOST_MEMBERS = 3
"""Members of a new mixture, at most."""


@dataclass(frozen=True)
class Strategy:
    """Weights of moves and of operators (1 where nothing is said), and the step of numbers."""

    moves: Mapping[str, float]
    operators: Mapping[str, float] = field(default_factory=dict)
    step: float = 0.4

    def to_json(self) -> dict[str, Any]:
        return {
            "moves": {name: round(value, 6) for name, value in self.moves.items()},
            "operators": {name: round(value, 6) for name, value in self.operators.items()},
            "step": round(self.step, 6),
        }


@dataclass(frozen=True)
class Trial:
    """One proposal, looked back on: what was done with which new operators, and whether it paid."""

    move: str
    operators: tuple[str, ...]
    won: bool


def adapted(strategy: Strategy, trials: Sequence[Trial]) -> Strategy:
    """The strategy after some trials."""
    if not trials:
        return strategy
    overall = (sum(trial.won for trial in trials) + 1) / (len(trials) + 2)
    moves = _reweighted(strategy.moves, [((t.move,), t.won) for t in trials], overall)
    known = {name: 1.0 for trial in trials for name in trial.operators} | dict(strategy.operators)
    operators = _reweighted(known, [(t.operators, t.won) for t in trials], overall)
    tuned = [trial.won for trial in trials if trial.move in ("tune", "set")]
    step = strategy.step
    if len(tuned) >= 3:  # the one-fifth rule
        lowest, highest = STEP_RANGE
        step = min(max(step * (1.3 if sum(tuned) > len(tuned) / 5 else 1 / 1.3), lowest), highest)
    bounded = {name: min(max(value, 0.2), 5.0) for name, value in operators.items()}
    return Strategy(move_shares(moves), bounded, step)


def _reweighted(
    weights: Mapping[str, float], trials: Iterable[tuple[tuple[str, ...], bool]], overall: float
) -> dict[str, float]:
    """Weights times the success rate of what they stand for, relative to the overall rate."""
    tries, wins = dict.fromkeys(weights, 0.0), dict.fromkeys(weights, 0.0)
    for names, won in trials:
        for name in names:
            if name in tries:
                tries[name] += 1
                wins[name] += won
    rates = {name: (wins[name] + PRIOR * overall) / (tries[name] + PRIOR) for name in weights}
    return {name: value * rates[name] / overall for name, value in weights.items()}


def move_shares(weights: Mapping[str, float]) -> dict[str, float]:
    """Summing to 1, none below `RAREST_MOVE`."""
    total = sum(weights.values())
    raised = {name: max(value / total, RAREST_MOVE) for name, value in weights.items()}
    total = sum(raised.values())
    return {name: value / total for name, value in raised.items()}


def nearby_value(param: Param, value: float | None, step: float, random: Random) -> float | int:
    """A number near another, within its range, in three significant digits.

    Positive ranges over more than a decade are moved by factors: there what counts is the order of
    magnitude.
    """
    low, high = range_of(param)
    if param.kind == "whole":
        jump = random.choice((-1, 1)) * (1 + int(random.expovariate(1.0 / max(step, 0.3))))
        return int(min(max((int(low) if value is None else int(value)) + jump, low), high))
    if value is None:
        return rounded_inside(random.uniform(low, high), param)
    if is_logarithmic(param):
        return rounded_inside(math.exp(math.log(max(value, low)) + random.gauss(0.0, step)), param)
    return rounded_inside(value + random.gauss(0.0, step * min(high - low, 1.0)), param)


def range_of(param: Param) -> tuple[float, float]:
    """The least and the greatest value of a number."""
    assert param.low is not None
    assert param.high is not None
    return float(param.low), float(param.high)


def is_logarithmic(param: Param) -> bool:
    """Whether a number is better thought of by its order of magnitude."""
    return param.kind == "number" and bool(param.low and param.low > 0 and (param.high or 0) / param.low > 10)


def rounded_inside(value: float, param: Param) -> float:
    """Three significant digits, inside the range."""
    low, high = range_of(param)
    return min(max(float(f"{value:.3g}"), low), high)


@dataclass(frozen=True, eq=False)
class ProgramGenerator:
    """Makes operators and programs of a space at random, operators as often as a strategy says."""

    space: Space
    strategy: Strategy
    random: Random

    def kind(self, among: Sequence[type[Operator]]) -> type[Operator]:
        """An operator to use."""
        return self.random.choices(among, [self.strategy.operators.get(op.name, 1.0) for op in among])[0]

    def operator(self, kind: type[Operator], inside: tuple[Program, ...] = ()) -> Operator:
        """A new operator with random parameters, around the given programs if it takes any."""
        given: dict[str, Any] = {
            key: self._first_value(kind, key, param) for key, param in value_parameters(kind).items()
        }
        for key, param in program_parameters(kind).items():
            given[key] = inside[0] if param.kind == "program" else inside
        return kind(**given)

    def _first_value(self, kind: type[Operator], key: str, param: Param) -> Any:
        """A value of a parameter: mostly the default, where that can run."""
        default = _default(kind, key)
        choices = self.space.choices_of(kind, key, param)
        if self.random.random() < KEEP_DEFAULT and (not choices or default in choices):
            return default
        return self.value(kind, key, param)

    def value(self, kind: type[Operator], key: str, param: Param) -> Any:
        """Any value of a parameter, the likelier the nearer the default where it is a number."""
        choices = self.space.choices_of(kind, key, param)
        if choices:
            return self.random.choice(choices)
        if param.kind == "indices":
            channels = self.space.channels
            chosen = [c for c in range(-channels, 0) if self.random.random() < 0.5]
            return tuple(chosen) if len(chosen) < channels else ()
        if param.optional and self.random.random() < 0.3:
            return None
        return nearby_value(param, _default(kind, key), 1.0, self.random)

    def program(self, size: int) -> Program:
        """A program of about so many operators, from a leaf outwards: the model half of the time."""
        made: Program = Icon()
        if self.random.random() >= 0.5:
            made = as_program(self.operator(self.kind(self.space.leaves)))
        while made.size < size:
            made = self.extended(made, size - made.size)
        return made

    def extended(self, inner: Program, budget: int = 2) -> Program:
        """One more operator: a transform before a program, a projection after it, a mixture above it."""
        space = self.space
        return self.enclosed(
            self.kind((*space.transforms, *space.projections, *space.branching)), inner, budget
        )

    def enclosed(self, kind: type[Operator], inner: Program, budget: int = 2) -> Program:
        """A program inside a particular operator, beside other members where it takes several."""
        if issubclass(kind, Transform | Projection):
            return surround(self.operator(kind), inner)
        (param,) = program_parameters(kind).values()
        members = [inner]
        if param.kind == "programs":
            for _ in range(self.random.randint(max(2, param.at_least), MOST_MEMBERS) - 1):
                members.append(self._second_opinion(inner, budget))
            self.random.shuffle(members)
        return as_program(self.operator(kind, tuple(members)))

    def _second_opinion(self, inner: Program, budget: int) -> Program:
        """The same question seen through a transform, or something else altogether."""
        if self.space.transforms and self.random.random() < 0.5:
            return surround(self.operator(self.kind(self.space.transforms)), inner)
        return self.program(self.random.randint(1, max(1, budget)))


def _default(kind: type[Operator], key: str) -> Any:
    return next(field.default for field in dataclasses.fields(kind) if field.name == key)
