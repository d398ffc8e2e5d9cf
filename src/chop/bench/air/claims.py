"""What is claimed of the program and of the networks, and in how many conditions it holds."""

from __future__ import annotations

from dataclasses import dataclass

from chop.bench.air.conditions import CHOP, PERSISTENCE, RAW, Condition
from chop.bench.air.paper import LOWERED, TABLE
from chop.bench.air.results import Results

ONE_HOUR = "CHOP(Air) at 1 h is not worse than the better of Raw ICON and persistence"


@dataclass(frozen=True)
class Claim:
    """Something that holds in some of several conditions."""

    text: str
    held: int
    total: int
    wanted: str
    reached: bool


def claims(results: Results) -> list[Claim]:
    """All of them; those of which nothing was measured have a total of 0."""
    every = results.conditions
    lowered = sum(_lower(results, condition) for condition in every)
    whole = len(every) == len(TABLE)
    short = [condition for condition in every if condition.lead == 1]
    similar = [condition for condition in every if condition.selection == "similar"]
    frozen = results.frozen()
    return [
        Claim(
            "CHOP(Air) lowers the mean error against Raw ICON", lowered, len(every),
            f"{LOWERED}, as in the paper" if whole else "all",
            lowered >= (LOWERED if whole else len(every)),
        ),
        _all(ONE_HOUR, [one_hour(results, condition) for condition in short]),
        _all("Similar examples lower the mean error of Raw ICON", [_similar(results, c) for c in similar]),
        _all(
            "Raw ICON with random examples beats persistence at 6, 12, 24 and 48 h, at home and carried",
            [_beats(results, condition) for condition in frozen],
        ),
    ]  # fmt: skip


def one_hour(results: Results, condition: Condition) -> bool:
    """Whether the program's mean is at most the smaller of the other two."""
    raw, persistence, chop = (results.mean(condition, method) for method in (RAW, PERSISTENCE, CHOP))
    return chop <= min(raw, persistence)


def _lower(results: Results, condition: Condition) -> bool:
    paired = results.compare(condition).paired
    return paired is not None and paired.reduction > 0


def _similar(results: Results, condition: Condition) -> bool:
    paired = results.selections(condition).paired
    return paired is not None and paired.reduction > 0


def _beats(results: Results, condition: Condition) -> bool:
    paired = results.compare(condition, RAW, PERSISTENCE).paired
    return paired is not None and paired.reduction > 0


def _all(text: str, found: list[bool]) -> Claim:
    return Claim(text, sum(found), len(found), "all", all(found))


__all__ = ["ONE_HOUR", "Claim", "claims", "one_hour"]
