"""Candidates, an explicit order among them, and the few that are worth building on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from chop.core.program import Program
from chop.core.text import parse
from chop.evolution.trees import shape_of

Status = Literal["done", "stopped", "failed"]
"""Judged on every question; given up as hopeless on some of them; without a usable answer."""
_ORDER: dict[Status, int] = {"done": 0, "stopped": 1, "failed": 2}

SIZE_PENALTY = 1e-3
CALL_PENALTY = 3e-4
"""What an operator and a model evaluation cost, in the logarithm of the score.

Meant to break ties. Where all gains are of a few per cent it does more: it then prefers the plain program.
"""

CAPACITY = 32
OF_ONE_SHAPE = 3
"""Programs that differ only in their numbers, at most, so that one well-tuned idea does not crowd out all."""
SAME = 1e-6
"""Relative difference of errors below which two programs do the same thing."""
DECAY = 0.88
"""Rank-based sampling: each rank is so much less likely than the one before."""


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

    def program(self) -> Program:
        """The program itself."""
        return parse(self.text)


def alike(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two programs err alike on every question that both were asked."""
    return all(abs(a - b) <= SAME * max(abs(a), abs(b)) for a, b in zip(one, other, strict=False))


def survivors(candidates: Sequence[Candidate], capacity: int = CAPACITY) -> list[Candidate]:
    """The best finished candidates, best first, without doubles and without one shape taking over."""
    kept: list[Candidate] = []
    shapes: dict[str, int] = {}
    for candidate in sorted((c for c in candidates if c.status == "done"), key=lambda c: c.rank):
        shape = shape_of(candidate.text)
        if shapes.get(shape, 0) >= OF_ONE_SHAPE or any(
            alike(candidate.errors, other.errors) for other in kept
        ):
            continue
        shapes[shape] = shapes.get(shape, 0) + 1
        kept.append(candidate)
        if len(kept) == capacity:
            break
    return kept


def sample_by_rank(ranked: Sequence[Candidate], count: int, random: Random) -> list[Candidate]:
    """Several different ones, the likelier the better they are, best first."""
    rest = list(enumerate(ranked))
    chosen: list[tuple[int, Candidate]] = []
    while rest and len(chosen) < count:
        pick = random.choices(rest, [DECAY**rank for rank, _ in rest])[0]
        rest.remove(pick)
        chosen.append(pick)
    return [candidate for _, candidate in sorted(chosen, key=lambda pair: pair[0])]


__all__ = ["CAPACITY", "Candidate", "Status", "alike", "sample_by_rank", "survivors"]
