"""What was measured, read from a store: errors of methods on conditions, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chop.bench.air.conditions import (
    CARRIED,
    CHOP,
    HOME_LEADS,
    METHODS,
    POLLUTANTS,
    RAW,
    Condition,
    Direction,
    conditions,
)
from chop.bench.air.runner import chunks
from chop.bench.air.store import Store
from chop.bench.results import Comparison, comparison
from chop.bench.store import Record

Array = NDArray[np.float64]


class Results:
    """The finished pieces of the questions that were last asked for."""

    def __init__(self, store: Store) -> None:
        self.store = store
        every = [d for carried in CARRIED for d in (carried, carried.home)]
        self._chunks = {direction: self._finished(direction) for direction in every}
        self.directions = tuple(d for d in every if self._chunks[d])
        """Those of which something is finished, each carried one before its network at home."""
        self.own = tuple(method for method in store.methods() if method not in METHODS)

    def _finished(self, direction: Direction) -> list[tuple[int, ...]]:
        asked = self.store.asked.get(direction.region)
        if asked is None:
            return []
        last = [(direction.name, *part, method) for part in direction.parts for method in direction.methods]
        return [
            hours
            for hours in chunks(asked.hours)
            if all(self.store.get(key, hours) is not None for key in last)
        ]

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of the 88 that were measured."""
        return tuple(conditions(self.directions))

    def questions(self, direction: Direction) -> tuple[int, int]:
        """How many are finished, and how many were asked."""
        done = sum(len(hours) for hours in self._chunks[direction])
        asked = self.store.asked.get(direction.region)
        return done, 0 if asked is None else len(asked.hours)

    def records(self, condition: Condition, method: str) -> list[Record]:
        """One for each finished piece that the method has answered."""
        key = (condition.direction.name, condition.selection, condition.lead, method)
        found = (self.store.get(key, hours) for hours in self._chunks[condition.direction])
        return [record for record in found if record is not None]

    def errors(self, condition: Condition, method: str) -> Array:
        """RMSE in µg/m³ of every question, NaN where there is none."""
        return _joined(self.records(condition, method), condition.pollutant)

    def compare(self, condition: Condition, method: str = CHOP, base: str = RAW) -> Comparison:
        """Two methods on the questions both answered."""
        theirs = self.records(condition, method)
        seen = {tuple(record["hours"]) for record in theirs}
        bases = [record for record in self.records(condition, base) if tuple(record["hours"]) in seen]
        return comparison(_joined(bases, condition.pollutant), _joined(theirs, condition.pollutant))

    def selections(self, condition: Condition) -> Comparison:
        """Raw ICON with similar examples against Raw ICON with random ones on the same questions."""
        random = self.errors(condition._replace(selection="random"), RAW)
        return comparison(random, self.errors(condition._replace(selection="similar"), RAW))

    def mean(self, condition: Condition, method: str) -> float:
        """Mean error over the questions that have one; NaN if none has."""
        errors = self.errors(condition, method)
        finite = errors[np.isfinite(errors)]
        return float(finite.mean()) if finite.size else float("nan")

    def weights(self, condition: Condition) -> Array | None:
        """Mean weight of each of CHOP(Air)'s candidates."""
        records = self.records(condition, CHOP)
        if not records:
            return None
        sizes = np.array([len(record["hours"]) for record in records], dtype=np.float64)
        rows = np.array([record["weights"][condition.pollutant] for record in records])
        return np.asarray(sizes @ rows / sizes.sum())

    def frozen(self) -> tuple[Condition, ...]:
        """Where a network must beat persistence to be worth being frozen: random examples, four leads."""
        return tuple(
            Condition(direction, "random", lead, pollutant)
            for direction in self.directions
            for pollutant in POLLUTANTS
            for lead in HOME_LEADS
        )


def _joined(records: list[Record], pollutant: str) -> Array:
    values = [value for record in records for value in record[pollutant]]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def as_json(results: Results, about: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, in plain values: ``results.json``. Errors have three digits."""
    measured = []
    for direction in results.directions:
        methods = (*direction.methods, *(results.own if direction.carried else ()))
        for selection, lead in direction.parts:
            for method in methods:
                condition = Condition(direction, selection, lead, POLLUTANTS[0])
                records = results.records(condition, method)
                if not records:
                    continue
                measured.append(
                    {
                        "direction": direction.name,
                        "selection": selection,
                        "lead": lead,
                        "method": method,
                        "calls": records[0]["calls"],
                        **{
                            name: [None if value is None else float(f"{value:.3g}") for value in row]
                            for name in POLLUTANTS
                            for row in [[value for record in records for value in record[name]]]
                        },
                    }
                )
    hours = {
        direction.name: [hour for part in results._chunks[direction] for hour in part]
        for direction in results.directions
    }
    return {**about, "hours since 1970 of the questions": hours, "measured": measured}


__all__ = ["Results", "as_json"]
