"""Candidates with an explicit order among them, the few that are worth building on, and Elo ratings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from chop.core.editing import named_operators
from chop.core.program import Program
from chop.core.text import parse
from chop.evolution.space import structure_of

Status = Literal["done", "stopped", "failed"]
"""Judged on every question; given up as hopeless on some of them; without a usable answer."""
_ORDER: dict[Status, int] = {"done": 0, "stopped": 1, "failed": 2}

SIZE_PENALTY = 1e-3
CALL_PENALTY = 3e-4
"""What an operator and a model evaluation cost, in the logarithm of the score.

Meant to break ties. Where all gains are of a few per cent it does more: it then prefers the plain program.
"""

CAPACITY = 32
OF_ONE_STRUCTURE = 3
"""Programs that differ only in their numbers, at most, so that one well-tuned idea does not crowd out all."""
SAME = 1e-6
"""Relative difference of errors below which two programs do the same thing."""
DECAY = 0.88
"""Rank-based sampling: each rank is so much less likely than the one before."""

INITIAL_RATING = 1500.0
RATING_STEP = 32.0
"""The factor K of Elo's rule."""
RATING_SCALE = 400.0


@dataclass(frozen=True)
class Candidate:
    """A program that was proposed, by whom, from what, and how it did."""

    number: int
    text: str
    status: Status
    errors: tuple[float, ...]
    """on the questions it was asked, the first ones of the evolution set"""
    raw: tuple[float, ...]
    """the start program's errors on the same questions"""
    calls: int
    """model evaluations a query; 0 where it never got so far"""
    size: int
    parents: tuple[int, ...] = ()
    agent: int = 0
    move: str = "start"
    iteration: int = 0
    reason: str = ""

    @property
    def fitness(self) -> float:
        """Mean raw error / mean error, on the questions it was asked; 0 for one that failed."""
        if self.status == "failed" or not self.errors:
            return 0.0
        own = sum(self.errors)
        return sum(self.raw[: len(self.errors)]) / own if own > 0 else math.inf

    @property
    def value(self) -> float:
        """What is maximised: the logarithm of the fitness, less what the program costs."""
        if self.fitness <= 0:
            return -math.inf
        gained = math.log(self.fitness) if math.isfinite(self.fitness) else 1e3
        return gained - SIZE_PENALTY * self.size - CALL_PENALTY * self.calls

    @property
    def rank(self) -> tuple[int, float, int, int, str]:
        """A total order, best first: working before given up before failed, then by value, then the
        cheaper, the shorter, and the text itself."""
        return _ORDER[self.status], -self.value, self.calls, self.size, self.text

    @property
    def evaluations(self) -> int:
        """Model evaluations it was charged for."""
        return self.calls * len(self.errors)

    @property
    def operators(self) -> set[str]:
        """The names of its operators."""
        return {node.name for _, node in named_operators(self.program())}

    def program(self) -> Program:
        """The program itself."""
        return parse(self.text)


def err_alike(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two programs err alike on every question that both were asked."""
    return all(abs(a - b) <= SAME * max(abs(a), abs(b)) for a, b in zip(one, other, strict=False))


def survivors(candidates: Sequence[Candidate], capacity: int = CAPACITY) -> list[Candidate]:
    """The best finished candidates, best first, without doubles and without one structure taking over."""
    kept: list[Candidate] = []
    structures: dict[str, int] = {}
    for candidate in sorted((c for c in candidates if c.status == "done"), key=lambda c: c.rank):
        structure = structure_of(candidate.text)
        if structures.get(structure, 0) >= OF_ONE_STRUCTURE or any(
            err_alike(candidate.errors, other.errors) for other in kept
        ):
            continue
        structures[structure] = structures.get(structure, 0) + 1
        kept.append(candidate)
        if len(kept) == capacity:
            break
    return kept


def sample_by_rank(ranked: Sequence[Candidate], count: int, random: Random) -> list[Candidate]:
    """Several different ones, the likelier the better they are, best first."""
    return [ranked[i] for i in _sample([DECAY**rank for rank in range(len(ranked))], count, random)]


def sample_by_rating(ratings: Mapping[int, float], count: int, random: Random) -> list[int]:
    """Several different runners; odds between two are those with which one beats the other."""
    numbers = sorted(ratings)
    best = max(ratings.values(), default=0.0)
    weights = [math.pow(10.0, (ratings[number] - best) / RATING_SCALE) for number in numbers]
    return [numbers[i] for i in _sample(weights, count, random)]


def _sample(weights: Sequence[float], count: int, random: Random) -> list[int]:
    """Several different places in proportion to their weights, in order."""
    rest = list(range(len(weights)))
    chosen: list[int] = []
    while rest and len(chosen) < count:
        pick = random.choices(rest, [weights[i] for i in rest])[0]
        rest.remove(pick)
        chosen.append(pick)
    return sorted(chosen)


def updated_ratings(ratings: Mapping[int, float], places: Mapping[int, int]) -> dict[int, float]:
    """Elo ratings after a race in which the runners took some places (1 is best, equal places are draws).

    Everybody is compared with everybody else. All pairs are settled at once, from the ratings before the
    race. The sum of ratings does not change.
    """
    after = dict(ratings)
    for one, place in places.items():
        for other, rival in places.items():
            if one != other:
                score = 1.0 if place < rival else 0.5 if place == rival else 0.0
                lead = ratings[other] - ratings[one]
                expected = 1.0 / (1.0 + math.pow(10.0, lead / RATING_SCALE))
                after[one] += RATING_STEP * (score - expected)
    return after
