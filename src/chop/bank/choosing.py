"""Which pairs are shown for a query: the most similar, random ones, the most recent, or a spread of them.

What one query is shown depends on the bank, on the query and on its number alone, not on other queries.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch

from chop.bank.allowed import Allowed
from chop.bank.likeness import Likeness
from chop.bank.sources import PairSource
from chop.core.errors import BankError
from chop.core.fields import Field
from chop.numerics import Array
from chop.numerics.nearest import BestRows, NearBy, scores_exactly

By = Literal["similar", "random", "recent", "spread"]
POOL = 4096
"""Rows that a spread is taken from."""
_SCORES = 2**22
"""Scores in memory at a time."""
_ROWS = 4096
"""Rows that are compared with queries at a time."""
_STREAM = 0x62616E6B
"""Keeps these random numbers apart from all others made with the same seed."""


def check_by(by: str) -> None:
    """Refuse a word that is no way to choose."""
    if by not in get_args(By):
        raise BankError(f"by must be one of {', '.join(get_args(By))}, not {by!r}")


def nearest_rows(source: PairSource, likeness: Likeness, queries: Field, k: int, allowed: Allowed) -> Array:
    """The k rows ``(Q, k)`` nearest to each query, nearest first; ties go to the earlier row."""
    asked = likeness.keys(queries)
    here: tuple[int, Array] = (0, np.empty((0, asked.shape[1])))

    def exact(query: Array, row: Array) -> Array:
        first, keys = here
        if len(row) and first <= row.min() and row.max() < first + len(keys):
            return _in_pieces(asked, query, keys, row - first)
        rows, back = np.unique(row, return_inverse=True)
        scores = np.empty(len(row))
        order = np.argsort(back, kind="stable")
        for some in np.array_split(np.arange(len(rows)), -(-len(rows) // _ROWS)):
            low, high = np.searchsorted(back[order], [some[0], some[-1] + 1])
            which = order[low:high]
            found = likeness.keys(source.take_inputs(torch.from_numpy(rows[some])))
            scores[which] = _in_pieces(asked, query[which], found, back[which] - some[0])
        return scores

    near = NearBy(asked, likeness.origin)
    best = BestRows(len(asked), k, exact)
    step = max(1, _SCORES // _ROWS)
    for first, inputs in source.input_blocks(_ROWS):
        here = first, likeness.keys(inputs)
        block = near.bounds(here[1])
        for start in range(0, len(asked), step):
            some = slice(start, start + step)
            upper = near.upper(block, some)
            allowed.hide(first, upper, some)
            best.offer(first, upper, near.width(block, start), start)
    return best.found()[0]


def _in_pieces(asked: Array, query: Array, keys: Array, row: Array) -> Array:
    """Scores of many pairs of vectors, not all of them gathered at once."""
    step = max(1, _SCORES // max(1, asked.shape[1]))
    parts = [
        scores_exactly(asked[query[start : start + step]], keys[row[start : start + step]])
        for start in range(0, len(query), step)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def random_rows(k: int, allowed: Allowed, numbers: Array, seed: int) -> Array:
    """k different rows ``(Q, k)`` by chance, from a stream for each query's own number."""
    found = np.empty((allowed.queries, k), dtype=np.int64)
    for query, number in enumerate(numbers):
        key = np.array([seed, _STREAM], dtype=np.uint64)
        counter = np.array([0, 0, 0, number], dtype=np.uint64)
        stream = np.random.Generator(np.random.Philox(key=key, counter=counter))
        found[query] = allowed.rows(query, stream.choice(allowed.count(query), k, replace=False))
    return found


def recent_rows(k: int, allowed: Allowed) -> Array:
    """The k rows ``(Q, k)`` that became known last, in the order of time; later rows among equals."""
    found = np.empty((allowed.queries, k), dtype=np.int64)
    for query in range(allowed.queries):
        count = allowed.count(query)
        found[query] = allowed.rows(query, np.arange(count - k, count))
    return found


def spread_rows(source: PairSource, likeness: Likeness, queries: Field, k: int, allowed: Allowed) -> Array:
    """The most similar row and then, again and again, the one farthest from all chosen: ``(Q, k)``.

    They are taken from a pool: every 2nd, 4th, 8th, ... of the rows in the order of time, so that it has at
    most `POOL`. Queries that are asked at different times share what their pools have in common.
    """
    asked = likeness.keys(queries)
    found = np.empty((allowed.queries, k), dtype=np.int64)
    most = max(POOL, 4 * k)
    strides = 2 ** np.ceil(np.log2(np.maximum(allowed.reach / most, 1.0))).astype(np.int64)
    for stride in np.unique(strides):
        mine = np.flatnonzero(strides == stride)
        pool = allowed.order[: int(allowed.reach[mine].max()) : stride]
        keys = likeness.keys(source.take_inputs(torch.from_numpy(pool)))
        for query in mine:
            reach = -(-int(allowed.reach[query]) // int(stride))
            left_out = np.isin(pool[:reach], allowed.exclude[query])
            found[query] = pool[_farthest_first(keys[:reach], asked[query], k, left_out)]
    return found


def _farthest_first(keys: Array, query: Array, k: int, left_out: Array) -> list[int]:
    """Places among keys ``(B, d)``: the nearest to the query, then the farthest from all before."""
    distance = np.square(keys - query).sum(axis=1)
    chosen = [int(np.where(left_out, np.inf, distance).argmin())]
    least = np.where(left_out, -1.0, np.inf)
    while len(chosen) < k:
        least = np.minimum(least, np.square(keys - keys[chosen[-1]]).sum(axis=1))
        least[chosen] = -1.0
        chosen.append(int(least.argmax()))
    return chosen
