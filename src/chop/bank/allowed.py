"""Which pairs may be shown for which query: those whose outputs were known by then, without some."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chop.core.errors import BankError
from chop.numerics import Array


@dataclass(frozen=True, eq=False)
class Allowed:
    """``known`` ``(N,)`` is when each pair's output was there, ``before`` ``(Q,)`` when each query is asked.

    Either is None where nobody counts time. ``exclude`` ``(Q, E)`` are rows that must not be shown, -1 for
    none.
    """

    total: int
    queries: int
    known: Array | None
    before: Array | None
    exclude: Array

    @cached_property
    def order(self) -> Array:
        """All rows in the order in which they became known; the earlier row first among equals."""
        return np.arange(self.total) if self.known is None else np.argsort(self.known, kind="stable")

    @cached_property
    def _place(self) -> Array:
        place = np.empty(self.total, dtype=np.int64)
        place[self.order] = np.arange(self.total)
        return place

    @cached_property
    def reach(self) -> Array:
        """How many rows of `order` each query may be shown ``(Q,)``, those it excludes among them."""
        if self.known is None or self.before is None:
            return np.full(self.queries, self.total)
        return np.asarray(np.searchsorted(self.known[self.order], self.before, side="right"))

    def gaps(self, query: int) -> Array:
        """Places in `order`, rising, that a query could reach but excludes."""
        rows = self.exclude[query]
        place = np.unique(self._place[rows[(rows >= 0) & (rows < self.total)]])
        return np.asarray(place[place < self.reach[query]])

    def count(self, query: int) -> int:
        """How many rows a query may be shown."""
        return int(self.reach[query]) - len(self.gaps(query))

    def rows(self, query: int, numbers: Array) -> Array:
        """The rows that are number 0, 1, ... of those a query may be shown, in the order of time."""
        places = np.asarray(numbers, dtype=np.int64).copy()
        for gap in self.gaps(query):
            places[places >= gap] += 1
        return np.asarray(self.order[places])

    def require(self, k: int, name: str) -> None:
        """Say so if a query may be shown fewer than k."""
        for query in np.flatnonzero(self.reach < k + self.exclude.shape[1]):
            count = self.count(int(query))
            if count < k:
                when = "" if self.before is None else f" known by {int(self.before[query])}"
                others = " apart from those left out" if len(self.gaps(int(query))) else ""
                raise BankError(
                    f"{name} has {count} pairs{when}{others} to show for query {int(query)}, but {k} are "
                    "needed; ask for fewer, or later"
                )

    def hide(self, first: int, scores: Array, queries: slice) -> None:
        """Scores ``(q, B)`` of rows from ``first`` on are -inf where a query may not be shown them."""
        stop = first + scores.shape[1]
        if self.known is not None and self.before is not None:
            known, before = self.known[first:stop], self.before[queries]
            if known.max() > before.min():
                scores[known[None, :] > before[:, None]] = -np.inf
        left_out = self.exclude[queries]
        query, place = np.nonzero((left_out >= first) & (left_out < stop))
        scores[query, left_out[query, place] - first] = -np.inf
