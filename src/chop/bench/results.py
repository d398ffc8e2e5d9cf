"""What was measured, read from a store: errors of methods on conditions, side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from chop import metrics
from chop.bench.methods import RAW
from chop.bench.store import Store
from chop.bench.suite import Suite
from chop.storage.schema import Record

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """A method against another on the same questions; those not finite are counted apart."""

    paired: metrics.Paired | None
    n: int
    lost: int
    """Questions left out because one of the two answers was not finite."""


class Results:
    """The finished entries of a suite.

    Errors are asked for by a condition's name; where several things are scored at once, by its name, a slash
    and the name of the thing (`Condition.columns`).
    """

    def __init__(self, store: Store, suite: Suite) -> None:
        self.store, self.suite = store, suite
        self.chosen = suite.chosen(store)
        reported = suite.reported(store)
        self.entries = {(entry.condition.name, entry.method): entry for entry in reported}
        self._scored = {
            (name, entry.method): (entry, column)
            for entry in reported
            for name, column in entry.condition.scored()
        }
        self._found: dict[tuple[str, str], list[Record] | None] = {}

    def records(self, condition: str, method: str) -> list[Record] | None:
        """All of an entry in order, None if it is not finished or was not asked for."""
        key = (condition, method)
        if key not in self._found:
            entry = self.entries.get(key)
            self._found[key] = None if entry is None else self.store.records(entry)
        return self._found[key]

    def errors(self, scored: str, method: str) -> Array | None:
        """One error a question, NaN where there is none or an answer was not finite."""
        if (scored, method) not in self._scored:
            return None
        entry, column = self._scored[scored, method]
        records = self.records(entry.condition.name, method)
        return None if records is None else _joined(records, column)

    def curve(self, condition: str, method: str) -> Array | None:
        """Errors ``(n, steps)``, NaN where not finite."""
        records = self.records(condition, method)
        if not records or "curve" not in records[0]:
            return None
        return np.array([record["curve"] for record in records], dtype=np.float64)

    def cost(self, condition: str, method: str) -> tuple[float, float] | None:
        """(model evaluations, milliseconds) for one question."""
        records = self.records(condition, method)
        if not records:
            return None
        return float(np.mean([r["calls"] for r in records])), float(np.mean([r["ms"] for r in records]))

    def compare(self, scored: str, method: str, base: str = RAW) -> Comparison | None:
        """Against another method, usually the bare model, on the questions both answered."""
        theirs, ours = self.errors(scored, base), self.errors(scored, method)
        if theirs is None or ours is None:
            return None
        asked, answered = (self._scored[scored, text][0].questions for text in (base, method))
        if asked != answered:
            both = set(asked) & set(answered)
            theirs = theirs[[question in both for question in asked]]
            ours = ours[[question in both for question in answered]]
        return comparison(theirs, ours)

    def reduction(self, scored: str, method: str, base: str = RAW) -> float | None:
        """Of the mean error, in percent; None if it was not measured."""
        found = self.compare(scored, method, base)
        return None if found is None or found.paired is None else found.paired.reduction

    def mean(self, scored: str, method: str) -> float:
        """Mean error over the questions that have one; NaN if none has."""
        errors = self.errors(scored, method)
        finite = np.array([]) if errors is None else errors[np.isfinite(errors)]
        return float(finite.mean()) if finite.size else float("nan")

    def typical(self, scored: str) -> int | None:
        """The question with the median error of the bare model: what a figure shows."""
        errors = self.errors(scored, RAW)
        if errors is None:
            return None
        order = np.argsort(np.where(np.isfinite(errors), errors, np.inf), kind="stable")
        return self._scored[scored, RAW][0].questions[int(order[len(order) // 2])]


def _joined(records: list[Record], column: str) -> Array:
    """A column of records that hold one value or one for each of their questions; NaN for null."""
    values = [record[column] for record in records]
    if values and isinstance(values[0], list):
        values = [value for part in values for value in part]
    return np.array(values, dtype=np.float64)


def comparison(base: Array, errors: Array) -> Comparison:
    """Two sets of errors on the same questions."""
    both = np.isfinite(base) & np.isfinite(errors)
    found = None
    if both.any():
        found = metrics.paired(torch.from_numpy(base[both]), torch.from_numpy(errors[both]))
    return Comparison(found, len(base), int((~both).sum()))


__all__ = ["Comparison", "Results", "comparison"]
