"""Elo ratings from races: everybody who ran is compared with everybody else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random

START = 1500.0
K = 32.0
SCALE = 400.0


def expected(own: float, other: float) -> float:
    """The probability with which a rating wins against another."""
    return 1.0 / (1.0 + math.pow(10.0, (other - own) / SCALE))


def updated(ratings: Mapping[int, float], places: Mapping[int, int]) -> dict[int, float]:
    """Ratings after a race in which the runners took some places (1 is best, equal places are draws).

    All pairs are settled at once, from the ratings before the race. The sum of ratings does not change.
    """
    after = dict(ratings)
    for one, place in places.items():
        for other, rival in places.items():
            if one != other:
                score = 1.0 if place < rival else 0.5 if place == rival else 0.0
                surprise = score - expected(ratings[one], ratings[other])
                after[one] += K * surprise
    return after


def sample_by_rating(ratings: Mapping[int, float], count: int, random: Random) -> list[int]:
    """Several different runners; odds between two are those with which one beats the other."""
    rest = sorted(ratings)
    best = max(ratings.values(), default=0.0)
    chosen: list[int] = []
    while rest and len(chosen) < count:
        pick = random.choices(rest, [math.pow(10.0, (ratings[number] - best) / SCALE) for number in rest])[0]
        rest.remove(pick)
        chosen.append(pick)
    return sorted(chosen)


__all__ = ["START", "K", "expected", "sample_by_rating", "updated"]
