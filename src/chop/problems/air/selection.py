"""Which windows of the past are shown for a question.

Nothing here looks at a value after the question's own window: an example's target hour always precedes
the last hour of the question's window.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chop.core.errors import DataError, ProblemError
from chop.problems.air.eligibility import check_whole, clock, eligible
from chop.problems.air.history import History, Period
from chop.problems.air.retrieval import SimilarityIndex, most_similar
from chop.problems.random_streams import random_stream

EXAMPLES = 5

Array = np.ndarray[Any, Any]


def random_examples(
    history: History,
    ends: Any,
    lead: int,
    period: Period,
    count: int = EXAMPLES,
    seed: int = 0,
    split: str = "test",
) -> Array:
    """For each end ``count`` different windows of the period, ``(n, count)``, drawn uniformly.

    Only usable windows whose target precedes the question's last hour. What one question is shown
    depends on the seed and on its own hour alone, not on the other questions.
    """
    check_whole(count=count)
    pool = eligible(history, period, lead)
    ends = np.asarray(ends)
    before = np.searchsorted(pool, ends - lead)  # pool[i] + lead < end
    if ends.size and before.min() < count:
        worst = history.region.times[ends[before.argmin()]]
        raise DataError(
            f"the question of {worst} has {before.min()} usable windows before it in the example period; "
            f"{count} are needed"
        )
    chosen = np.empty((len(ends), count), dtype=np.int64)
    for row, (hour, available) in enumerate(zip(clock(history, ends), before, strict=True)):
        stream = random_stream("air", split, seed, int(hour))
        chosen[row] = pool[stream.choice(int(available), count, replace=False)]
    return chosen


def similar_examples(index: SimilarityIndex, ends: Any, lead: int, count: int = EXAMPLES) -> Array:
    """The ``count`` most similar windows ``(n, count)`` whose targets may be shown, most similar first."""
    ends = np.asarray(ends)
    at = np.minimum(np.searchsorted(index.queries, ends), len(index.queries) - 1)
    if (index.queries[at] != ends).any():
        raise ProblemError("the similarity index was not made for some of these questions")
    allowed = np.zeros(len(index.history.values), dtype=bool)
    pool = eligible(index.history, index.period, lead)
    allowed[pool[pool + lead < index.queries[0]]] = True
    if int(allowed.sum()) < count:
        raise DataError(
            f"only {int(allowed.sum())} usable windows of the example period precede the questions at "
            f"lead {lead} h; {count} are needed"
        )
    kept = index.ends[at]
    good = (kept >= 0) & allowed[kept]
    order = np.argsort(~good, axis=1, kind="stable")[:, :count]
    chosen = np.take_along_axis(kept, order, axis=1)
    short = np.flatnonzero(good.sum(axis=1) < count)
    if short.size:  # the lead forbids nearly all that was kept: look through everything again
        chosen = chosen if chosen.shape[1] == count else np.zeros((len(ends), count), dtype=np.int64)
        unique, where = np.unique(ends[short], return_inverse=True)
        chosen[short] = most_similar(index.history, allowed, unique, count)[0][where]
    return chosen.astype(np.int64)


__all__ = ["EXAMPLES", "eligible", "random_examples", "similar_examples"]
