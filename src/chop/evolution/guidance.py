"""What a built-in agent goes by: how often it makes which move, and which operators it likes.

Guidance is a value. It is revised from what won: moves and operators whose proposals improved on their
parents come more often afterwards, none ever disappears, and steps of numbers grow or shrink with their
success.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from chop.core.parameters import Operator

T = TypeVar("T")

MOVES = (
    "grow", "insert", "delete", "replace", "set", "tune", "cross", "join", "wrap", "simplify",
)  # fmt: skip
LEAST = 0.02
"""No move is made more rarely than this, once an agent makes it at all."""
PRIOR = 4.0
"""Imagined proposals with the overall success rate, before a rate is believed."""
STEP = (0.05, 1.2)
"""Bounds of the step of numbers, in natural logarithms of the number."""


@dataclass(frozen=True)
class Guidance:
    """Weights of moves and of operators (1 where nothing is said), and the step of numbers."""

    moves: Mapping[str, float]
    operators: Mapping[str, float] = field(default_factory=dict)
    step: float = 0.4

    def move(self, random: Random) -> str:
        """A move to make."""
        return weighted(random, tuple(self.moves), tuple(self.moves.values()))

    def operator(self, random: Random, among: Sequence[type[Operator]]) -> type[Operator]:
        """An operator to use."""
        return weighted(random, among, [self.operators.get(op.name, 1.0) for op in among])

    def to_json(self) -> dict[str, Any]:
        return {
            "moves": {name: round(value, 6) for name, value in self.moves.items()},
            "operators": {name: round(value, 6) for name, value in self.operators.items()},
            "step": round(self.step, 6),
        }


def weighted(random: Random, among: Sequence[T], weights: Sequence[float]) -> T:
    """One of a few, in proportion to its weight."""
    return random.choices(among, weights)[0]


@dataclass(frozen=True)
class Trial:
    """One proposal, looked back on: what was done with which new operators, and whether it paid."""

    move: str
    operators: tuple[str, ...]
    won: bool


def revised(guidance: Guidance, trials: Sequence[Trial]) -> Guidance:
    """The guidance after some trials."""
    if not trials:
        return guidance
    overall = (sum(trial.won for trial in trials) + 1) / (len(trials) + 2)
    moves = _shifted(guidance.moves, [((t.move,), t.won) for t in trials], overall)
    known = {name: 1.0 for trial in trials for name in trial.operators} | dict(guidance.operators)
    operators = _shifted(known, [(t.operators, t.won) for t in trials], overall)
    tuned = [trial.won for trial in trials if trial.move in ("tune", "set")]
    step = guidance.step
    if len(tuned) >= 3:  # the one-fifth rule
        step = min(max(step * (1.3 if sum(tuned) > len(tuned) / 5 else 1 / 1.3), STEP[0]), STEP[1])
    return Guidance(_normal(moves), _around_one(operators), step)


def _shifted(
    weights: Mapping[str, float], trials: Iterable[tuple[tuple[str, ...], bool]], overall: float
) -> dict[str, float]:
    tries, wins = dict.fromkeys(weights, 0.0), dict.fromkeys(weights, 0.0)
    for names, won in trials:
        for name in names:
            if name in tries:
                tries[name] += 1
                wins[name] += won
    rates = {name: (wins[name] + PRIOR * overall) / (tries[name] + PRIOR) for name in weights}
    return {name: value * rates[name] / overall for name, value in weights.items()}


def _normal(weights: Mapping[str, float]) -> dict[str, float]:
    """Summing to 1, none below `LEAST`."""
    total = sum(weights.values())
    raised = {name: max(value / total, LEAST) for name, value in weights.items()}
    total = sum(raised.values())
    return {name: value / total for name, value in raised.items()}


def _around_one(weights: Mapping[str, float]) -> dict[str, float]:
    return {name: min(max(value, 0.2), 5.0) for name, value in weights.items()}


def only(**weights: float) -> Guidance:
    """Guidance that makes some moves, each as often as said, and every other rarely."""
    unknown = set(weights) - set(MOVES)
    assert not unknown, unknown
    return Guidance(_normal({name: weights.get(name, 0.0) for name in MOVES}))


__all__ = ["MOVES", "Guidance", "Trial", "only", "revised", "weighted"]
