"""Time in a prompt made from a bank: which step each example belongs to."""

from __future__ import annotations

import numpy as np

from chop.numerics import Array

SMALL = 1000
"""Steps up to which time is counted; what lies farther apart is put in order only."""


def step_numbers(asked: Array, known: Array, query: Array) -> Array:
    """Whole numbers ``(Q, k + 1)`` for examples asked and known at ``(Q, k)`` and queries at ``(Q,)``.

    In a prompt an output is one step later than its input. Where the outputs of a query's examples all came
    equally long after their inputs, and all times are whole numbers of that step apart, time is counted in
    steps from the earliest: operators that follow a motion from frame to frame can use it. Where outputs came
    at once, the step is the largest that divides all differences. In all other cases, and where that gives
    more than `SMALL` steps, times are ranks: 0 is the earliest, and only the order is told.
    """
    times = np.concatenate([asked, query[:, None]], axis=1)
    since = times - times.min(axis=1, keepdims=True)
    lag = known - asked
    step = np.where((lag == lag[:, :1]).all(axis=1), lag[:, 0], 0)
    at_once = (lag == 0).all(axis=1)
    step = np.where(at_once, np.gcd.reduce(since, axis=1), step)
    whole = np.where(step > 0, step, 1)[:, None]
    counted = (step > 0) & (since % whole == 0).all(axis=1) & ((since // whole) <= SMALL).all(axis=1)
    ranks = times.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return np.where(counted[:, None], since // whole, ranks)
