"""The best rows of many queries, met block by block: single precision sorts out, double precision decides.

Scores are computed block by block in single precision, with bounds on what rounding can have done to them.
Rows that cannot be among a query's best are forgotten at once; of those that remain, the ones that rounding
could have put in the wrong order are computed again in double precision. The answers are those of computing
everything in double precision, ties going to the earlier row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chop.numerics import Array

Exact = Callable[[Array, Array], Array]
"""Scores ``(P,)`` in double precision of queries ``(P,)`` and rows ``(P,)``, all computed in one way."""
Width = Callable[[Array, Array], Array]
"""How much less than its bound a score may be, for queries and columns that broadcast; or one for all."""

HELD = 2**16
"""Candidates beyond what is needed that may be waiting for double precision."""
_FAR = 1e30
"""Squares of lengths that single precision cannot be trusted with."""


class BestRows:
    """The best ``kept`` rows of each of so many queries.

    `offer` takes blocks in rising order of rows, `found` gives the answer. What is never offered as more than
    -inf is never taken.
    """

    def __init__(self, queries: int, kept: int, exact: Exact) -> None:
        self._kept, self._exact = kept, exact
        self._limit = np.full(queries, -np.inf)
        self._query = np.empty(0, dtype=np.int64)
        self._row = np.empty(0, dtype=np.int64)
        self._lower = np.empty(0)
        self._upper = np.empty(0)

    def offer(self, first: int, upper: Array, width: Width, query: int = 0) -> None:
        """Bounds ``(q, B)`` from above on the scores of queries from ``query`` on and rows from ``first`` on.

        No score is less than its bound minus its width.
        """
        limit = self._limit[query : query + len(upper)]
        fresh = np.flatnonzero(np.isneginf(limit))
        if len(fresh) and upper.shape[1] >= self._kept:
            bound = upper if len(fresh) == len(upper) else upper[fresh]
            apart = width(fresh[:, None], np.arange(upper.shape[1])[None, :])
            if apart.ndim:  # where it is one number for all, it can wait
                bound, apart = _below(bound, apart), np.zeros(())
            limit[fresh] = _below(np.partition(bound, -self._kept, axis=1)[:, -self._kept], apart)
        low = np.nextafter(limit.astype(upper.dtype), upper.dtype.type(-np.inf))
        # Far faster than asking for both numbers at once.
        asked, column = np.divmod(np.flatnonzero(upper >= low[:, None]), upper.shape[1])
        bound = upper[asked, column].astype(np.float64)
        there = bound > -np.inf
        asked, column, bound = asked[there], column[there], bound[there]
        if not len(asked):
            return
        self._query = np.concatenate([self._query, asked + query])
        self._row = np.concatenate([self._row, column + first])
        self._upper = np.concatenate([self._upper, bound])
        self._lower = np.concatenate([self._lower, _below(bound, width(asked, column))])
        self._forget()
        if len(self._query) > HELD + 4 * self._kept * len(self._limit):
            self._settle(np.flatnonzero(self._lower < self._upper))
            self._keep(self._ranked() < self._kept)

    def found(self) -> tuple[Array, Array]:
        """Rows ``(Q, kept)``, best first, and their scores; -1 and -inf where there are not as many."""
        self._settle(self._doubtful())
        rank = self._ranked()
        self._keep(rank < self._kept)
        rank = rank[rank < self._kept]
        rows = np.full((len(self._limit), self._kept), -1, dtype=np.int64)
        scores = np.full(rows.shape, -np.inf)
        rows[self._query, rank], scores[self._query, rank] = self._row, self._upper
        return rows, scores

    def _forget(self) -> None:
        """Candidates that so many others of their query are better than, whatever rounding did."""
        order = np.lexsort((-self._lower, self._query))
        rank = _rank_in_groups(self._query[order])
        last = order[rank == self._kept - 1]
        self._limit[self._query[last]] = np.maximum(self._limit[self._query[last]], self._lower[last])
        self._keep(self._upper >= self._limit[self._query])

    def _doubtful(self) -> Array:
        """Candidates whose bounds overlap with those of another of the same query."""
        order = np.lexsort((-self._upper, self._query))
        query, lower, upper = self._query[order], self._lower[order], self._upper[order]
        rank = _rank_in_groups(query)
        joins = np.zeros(len(order), dtype=bool)
        least = np.full(len(self._limit), np.inf)  # the lowest bound of the better ones of each query
        by_rank = np.argsort(rank, kind="stable")
        for some in np.split(by_rank, np.flatnonzero(np.diff(rank[by_rank])) + 1):
            joins[some] = least[query[some]] <= upper[some]
            least[query[some]] = np.minimum(least[query[some]], lower[some])
        joins[:-1] |= joins[1:]
        return np.asarray(order[joins])

    def _settle(self, which: Array) -> None:
        if len(which):
            score = self._exact(self._query[which], self._row[which])
            self._lower[which] = self._upper[which] = score

    def _ranked(self) -> Array:
        """The place of each candidate among those of its query."""
        order = np.lexsort((self._row, -self._upper, self._query))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = _rank_in_groups(self._query[order])
        return rank

    def _keep(self, which: Array) -> None:
        self._query, self._row = self._query[which], self._row[which]
        self._lower, self._upper = self._lower[which], self._upper[which]


class NearBy:
    """Queries ``(Q, d)`` whose distances from rows are bounded in single precision.

    The score of a row is minus half its squared distance from the query, ``q x - x x / 2 - q q / 2``: one
    product of matrices for many. Its bound from above is the same product, with what rounding can do to each
    part added to the columns that hold the squares.
    """

    def __init__(self, queries: Array, centre: Array) -> None:
        self._centre = centre
        moved = queries - centre
        squares = np.einsum("qd,qd->q", moved, moved)
        self._size = np.sqrt(squares)
        # What a sum of d products in single precision can be off by, with room for casts and added columns.
        self._relative = 2.0 * (queries.shape[1] + 16) * float(np.finfo(np.float32).eps)
        # What moving the centre, in double precision, can have done.
        self._absolute = 8 * float(np.finfo(np.float64).eps * np.linalg.norm(centre))
        self._slack = self._relative * squares + self._absolute * self._size
        columns = [self._relative * self._size, np.ones(len(moved)), self._slack - squares / 2]
        self._queries, self._far = _single(moved, columns, squares)

    def bounds(self, rows: Array) -> BlockBounds:
        """What is needed to bound the scores of a block of rows ``(B, d)``."""
        moved = rows - self._centre
        squares = np.einsum("bd,bd->b", moved, moved)
        size = np.sqrt(squares)
        slack = self._relative * squares + self._absolute * size
        block, far = _single(moved, [size, slack - squares / 2, np.ones(len(moved))], squares)
        return BlockBounds(block, size, slack, far)

    def upper(self, block: BlockBounds, queries: slice) -> Array:
        """Bounds from above on the scores of some queries ``(q, B)``."""
        upper = self._queries[queries] @ block.rows.T
        upper[:, block.far] = np.inf
        upper[self._far[queries]] = np.inf
        return np.asarray(upper)

    def width(self, block: BlockBounds, first: int) -> Width:
        """How far bounds are apart, for queries counted from ``first``."""

        def width(query: Array, column: Array) -> Array:
            asked = first + query
            margin = self._relative * self._size[asked] * block.size[column]
            margin = margin + block.slack[column] + self._slack[asked]
            return np.where(block.far[column] | self._far[asked], np.inf, 2.5 * margin)

        return width


@dataclass(frozen=True, eq=False)
class BlockBounds:
    """A block of rows in single precision, with what bounds are made of."""

    rows: Array
    size: Array
    slack: Array
    far: Array


def scores_exactly(queries: Array, rows: Array) -> Array:
    """Minus half the squared distances of queries ``(P, d)`` and rows ``(P, d)``, as `NearBy` bounds them."""
    squares = np.square(queries - rows).sum(axis=1)
    return np.asarray(-0.5 * np.minimum(squares, np.finfo(np.float64).max))


def _single(moved: Array, columns: list[Array], squares: Array) -> tuple[Array, Array]:
    """Vectors and their columns in single precision, and which of them are too long for it."""
    far = ~(squares < _FAR)
    block = np.concatenate([moved, np.stack(columns, axis=1)], axis=1)
    block[far] = 0.0
    return block.astype(np.float32), far


def _below(upper: Array, width: Array) -> Array:
    """Bounds from below; what may be anything has none."""
    with np.errstate(invalid="ignore"):  # infinite bounds of infinite width
        return np.asarray(np.fmax(upper - width, -np.inf))


def _rank_in_groups(sorted_groups: Array) -> Array:
    """0, 1, 2, ... within each run of equal entries."""
    places = np.arange(len(sorted_groups))
    begins = np.ones(len(sorted_groups), dtype=bool)
    begins[1:] = sorted_groups[1:] != sorted_groups[:-1]
    return np.asarray(places - np.maximum.accumulate(np.where(begins, places, 0)))
