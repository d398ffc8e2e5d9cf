"""Which windows may be asked or shown: those that lie in a period and were observed well enough."""

from __future__ import annotations

from typing import Any

import numpy as np

from chop.core.errors import DataError, ProblemError
from chop.problems.air.history import History, Period
from chop.problems.air.windows import WINDOW

LEAST_SHARE = 0.5

Array = np.ndarray[Any, Any]


def eligible(
    history: History, period: Period, lead: int, every: int = 1, share: float = LEAST_SHARE
) -> Array:
    """Ends in rising order whose window and target hour lie inside a half-open period and are usable.

    Usable: of every measured channel (all but the hour) at least ``share`` of the values of the window,
    and as many of the target hour, were observed; with share 0 at least one. ``every=6`` keeps the ends
    whose hour of day is 0, 6, 12 or 18 (in general those that ``every`` divides, counted from 1970).
    """
    check_whole(lead=lead, every=every)
    if not 0 <= share <= 1:
        raise ProblemError(f"share must lie in 0 .. 1, not {share}")
    rows = history.range(*period)
    ends = np.arange(rows.start + WINDOW - 1, rows.stop - lead)
    ends = ends[clock(history, ends) % every == 0]
    target = _enough(history.observed_share[ends + lead], share)
    ends = ends[usable_windows(history, share)[ends] & target]
    if not ends.size:
        raise DataError(
            f"no window of {history.region.name} between {period[0]} and {period[1]} is usable at "
            f"lead {lead} h: of every channel {share:.0%} must be observed in its 24 h and in the target hour"
        )
    return np.asarray(ends)


def usable_windows(history: History, share: float = LEAST_SHARE) -> Array:
    """``(T,)`` bool: whether enough was observed in the 24 h up to each hour."""
    return _enough(window_share(history.observed_share), share)


def window_share(frames: Array) -> Array:
    """The mean of the 24 rows that end at each row; 0 where there are not as many."""
    total = np.cumsum(frames, axis=0)
    windows = np.zeros_like(frames)
    windows[WINDOW - 1 :] = total[WINDOW - 1 :]
    windows[WINDOW:] -= total[:-WINDOW]
    return windows / WINDOW


def _enough(shares: Array, least: float) -> Array:
    # Cumulative sums leave dust of 1e-13: what is that close to the limit, or to nothing, is on it.
    return np.asarray(((shares >= least - 1e-9) & (shares > 1e-9)).all(axis=-1))


def clock(history: History, rows: Array) -> Array:
    """Hours since 1970: a name for an hour that does not depend on where the record begins."""
    return np.asarray(history.region.times[rows].astype("datetime64[h]").astype(np.int64))


def check_whole(**counts: int) -> None:
    """Numbers that count something are whole and at least 1."""
    for name, value in counts.items():
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise ProblemError(f"{name} must be a whole number, 1 or more, not {value!r}")


__all__ = ["LEAST_SHARE", "check_whole", "clock", "eligible", "usable_windows"]
