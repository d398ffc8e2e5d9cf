"""Random streams that cannot overlap.

Every random draw of a problem comes from a counter-based generator (Philox) whose key holds the seed, the
split and the problem, and whose counter starts at (index, role). Two streams share no counter value
under one key, and two splits share no key: train, evolution and test sets are disjoint by construction,
not by luck. Case i has its own stream, so it is the same whatever the number of cases, in any process.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np

from chop.core.errors import ProblemError

SPLITS = {"train": 1, "evolution": 2, "test": 3}
_PROBLEMS = {"conservation": 1, "mfc": 2, "conservation stream": 3, "mfc stream": 4, "air": 5, "air world": 6}
_WORD = 2**64


def random_stream(
    problem: str, split: str, seed: SupportsIndex, index: SupportsIndex, role: int = 0
) -> np.random.Generator:
    """The generator of one case (``index``) and one purpose (``role``)."""
    if split not in SPLITS:
        raise ProblemError(f"split must be one of {', '.join(SPLITS)}, not {split!r}")
    code = SPLITS[split] * 256 + _PROBLEMS[problem]
    key = np.array([_word(seed, "seed"), code], dtype=np.uint64)
    counter = np.array([0, 0, role, _word(index, "index")], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def _word(value: SupportsIndex, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ProblemError(f"{name} must be an integer, not {value!r}") from None
    if not 0 <= number < _WORD:
        raise ProblemError(f"{name} must lie in 0 .. 2**64 - 1, not {number}")
    return number
