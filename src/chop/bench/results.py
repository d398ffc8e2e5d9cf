"""What was measured, read from a store: errors of methods on conditions, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from chop import metrics
from chop.bench.conditions import CONDITIONS, EVOLUTION, Entry, Selection, entries
from chop.bench.methods import FINE_TUNING, FINE_TUNING_STEPS, RAW, ROLLOUT_GRID, grid
from chop.bench.store import Record, Store

Array = NDArray[np.float64]
SEARCHES = {**EVOLUTION, "rollout": "evolution/conservation/rollout"}


@dataclass(frozen=True)
class Comparison:
    """A method against the bare model on the same questions; those not finite are counted apart."""

    paired: metrics.Paired | None
    n: int
    lost: int
    """Questions left out because one of the two answers was not finite."""


class Results:
    """The finished entries of a selection."""

    def __init__(self, store: Store, selection: Selection) -> None:
        self.store, self.selection = store, selection
        self.chosen = choices(store, selection)
        self.entries = {(e.condition.name, e.method): e for e in entries(selection, self.chosen)}
        self._found: dict[tuple[str, str], list[Record] | None] = {}

    def records(self, condition: str, method: str) -> list[Record] | None:
        """Every case of an entry in order, None if it is not finished or was not asked for."""
        key = (condition, method)
        if key not in self._found:
            entry = self.entries.get(key)
            self._found[key] = None if entry is None else _stored(self.store, entry)
        return self._found[key]

    def errors(self, condition: str, method: str) -> Array | None:
        """Relative L2 errors, NaN where an answer was not finite."""
        return self._column(condition, method, "error")

    def in_context(self, condition: str, method: str) -> float | None:
        """Mean relative in-context error over the questions for which it was taken."""
        records = self.records(condition, method) or []
        values = [record["in_context"] for record in records if record.get("in_context") is not None]
        return float(np.mean(values)) if values else None

    def cost(self, condition: str, method: str) -> tuple[float, float] | None:
        """(model evaluations, milliseconds) for one question."""
        records = self.records(condition, method)
        if not records:
            return None
        return float(np.mean([r["calls"] for r in records])), float(np.mean([r["ms"] for r in records]))

    def curve(self, condition: str, method: str) -> Array | None:
        """Errors ``(n, steps)``, NaN where not finite."""
        records = self.records(condition, method)
        if not records or "curve" not in records[0]:
            return None
        return np.array([[_float(value) for value in record["curve"]] for record in records])

    def compare(self, condition: str, method: str) -> Comparison | None:
        """Against the bare model on the questions both answered."""
        base, errors = self.errors(condition, RAW), self.errors(condition, method)
        if base is None or errors is None:
            return None
        return comparison(base[: len(errors)], errors[: len(base)])

    def tuned(self, condition: str) -> tuple[float, int, Comparison] | None:
        """The best of the fine-tuning settings on a condition: (rate, steps, against the bare model)."""
        base = self.errors(condition, RAW)
        curves = {method: self.curve(condition, method) for method in FINE_TUNING}
        options = []
        for method, curve in curves.items():
            if base is None or curve is None:
                return None  # the best of some of the rates is not the best of them
            for i, steps in enumerate(FINE_TUNING_STEPS):
                against = comparison(base[: len(curve)], curve[: len(base), i])
                if against.paired is not None:
                    options.append((against.paired.mean, float(method[10:-1]), steps, against))
        if not options:
            return None
        _, rate, steps, against = min(options, key=lambda option: option[:3])
        return rate, steps, against

    def _column(self, condition: str, method: str, name: str) -> Array | None:
        records = self.records(condition, method)
        return None if records is None else np.array([_float(record[name]) for record in records])


def comparison(base: Array, errors: Array) -> Comparison:
    """Two sets of errors on the same questions."""
    both = np.isfinite(base) & np.isfinite(errors)
    found = None
    if both.any():
        found = metrics.paired(torch.from_numpy(base[both]), torch.from_numpy(errors[both]))
    return Comparison(found, len(base), int((~both).sum()))


def choices(store: Store, selection: Selection) -> dict[str, str]:
    """For each problem the program with the lowest mean error on the evolution set, once all are known.

    An answer that is not finite disqualifies; on ties the earlier program wins.
    """
    asked = {(entry.condition.name, entry.method): entry for entry in entries(selection, {})}
    found = {}
    for problem, condition in SEARCHES.items():
        ranked = ranking(store, asked, problem)
        if ranked:
            found[problem] = ranked[0][0]
        assert condition in CONDITIONS
    return found


def ranking(
    store: Store, asked: dict[tuple[str, str], Entry], problem: str
) -> list[tuple[str, float]] | None:
    """The programs of a grid with their scores, best first; None as long as one is missing.

    The score is the number that is reported: the mean error of one step, in rollouts of the last step.
    """
    condition = SEARCHES[problem]
    scores: list[tuple[str, float]] = []
    for text in ROLLOUT_GRID if problem == "rollout" else grid(problem):
        entry = asked.get((condition, text))
        records = None if entry is None else _stored(store, entry)
        if records is None:
            return None
        score = float(np.mean([_float(record["error"]) for record in records]))
        scores.append((text, score if np.isfinite(score) else float("inf")))
    return sorted(scores, key=lambda item: item[1])


def _stored(store: Store, entry: Entry) -> list[Record] | None:
    found: list[Record] = []
    for first in range(0, entry.n, entry.condition.chunk):
        end = min(entry.n, first + entry.condition.chunk)
        if not store.done(entry.condition.name, entry.method, first, end):
            return None
        found += store.batch(entry.condition.name, entry.method, first, end)
    return found


def _float(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def as_json(results: Results, about: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, in plain values: what ``results.json`` holds."""
    measured = []
    for (condition, method), entry in results.entries.items():
        records = results.records(condition, method)
        if records is None:
            continue
        # A grid has many rollouts and only their last error counts; the steps stay in the store.
        columns: Sequence[str] = ("error", "in_context", "ms", *(["curve"] if entry.group != "grid" else []))
        measured.append(
            {
                "condition": condition,
                "method": method,
                "group": entry.group,
                "n": entry.n,
                "calls": records[0]["calls"],
                **{
                    name: [record.get(name) for record in records]
                    for name in columns
                    if any(name in record for record in records)
                },
            }
        )
    return {**about, "chosen": results.chosen, "measured": measured}


__all__ = ["SEARCHES", "Comparison", "Results", "as_json", "choices", "comparison", "ranking"]
