"""Questions about a region in one call, as the other problems give them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from chop.core.errors import DataError, ProblemError
from chop.problems.air.dataset import locate
from chop.problems.air.eligibility import check_whole, eligible
from chop.problems.air.history import EXAMPLE_PERIOD, History, Period, prepare
from chop.problems.air.region import Region, load_region
from chop.problems.air.retrieval import similarity_index
from chop.problems.air.selection import EXAMPLES, random_examples, similar_examples
from chop.problems.air.windows import case
from chop.problems.case import Case
from chop.problems.random_streams import random_stream

QUERY_PERIOD = ("2024-01-01", "2025-01-01")
FOLDER = "CHOP_AIR_DATA"
_ORDER = 1  # role of the random stream that orders the questions

Array = np.ndarray[Any, Any]


def sample(
    region: str | Region | History = "yrd",
    n: int = 100,
    *,
    lead: int = 24,
    selection: Literal["random", "similar"] = "random",
    seed: int = 0,
    split: str = "test",
    first: int = 0,
    examples: int = EXAMPLES,
    data: str | Path | None = None,
    channels: Iterable[str] | None = None,
    period: Period = EXAMPLE_PERIOD,
    queries: Period = QUERY_PERIOD,
) -> Case:
    """n different questions of a region, each with example windows from its past.

    ``region`` is a name (of a file in the folder ``data``, by default the one that the environment
    variable CHOP_AIR_DATA names), or what is loaded already. Examples come from ``period``, which also
    gives the normalisation, and questions from ``queries``, in an order drawn from the seed: question i is
    number ``first + i`` and is the same whatever n is.
    """
    check_whole(n=n, lead=lead, examples=examples)
    if selection not in ("random", "similar"):
        raise ProblemError(f"selection must be 'random' or 'similar', not {selection!r}")
    if first < 0:
        raise ProblemError(f"first must be 0 or more, not {first}")
    history = _history(region, data, channels, period)
    asked = eligible(history, queries, lead)
    if first + n > len(asked):
        raise DataError(
            f"{history.region.name} has {len(asked)} usable questions between {queries[0]} and {queries[1]} "
            f"at lead {lead} h, fewer than the {first + n} asked for"
        )
    ends = random_stream("air", split, seed, 0, _ORDER).permutation(asked)[first : first + n]
    if selection == "random":
        shown = random_examples(history, ends, lead, period, examples, seed, split)
    else:
        # The first question there could be bounds the examples, so that n does not decide about them.
        index = similarity_index(history, period, np.append(ends, asked[0]))
        shown = similar_examples(index, ends, lead, examples)
    made = case(history, ends, shown, lead)
    about = {
        "selection": selection, "seed": int(seed), "split": split, "first": first, "examples": examples,
        "queries": [str(part) for part in queries],
    }  # fmt: skip
    return Case(made.prompt, made.target, meta={**made.meta, **about}, rows=made.rows, mask=made.mask)


def data_folder(given: str | Path | None = None) -> Path:
    """The folder with the station data: the one given, or the one that CHOP_AIR_DATA names."""
    named = given if given is not None else os.environ.get(FOLDER)
    if not named:
        raise DataError(
            f"say where the station data is: data=..., or the environment variable {FOLDER}; "
            "'chop data air --world DIR' invents two regions to begin with"
        )
    return Path(named)


def _history(
    region: str | Region | History,
    data: str | Path | None,
    channels: Iterable[str] | None,
    period: Period,
) -> History:
    if isinstance(region, History):
        return region
    if isinstance(region, Region):
        return prepare(region, period)
    file, name = locate(data_folder(data), region)
    wanted = None if channels is None else tuple(channels)
    return _prepared(file, name, file.stat().st_mtime_ns, wanted, (str(period[0]), str(period[1])))


@lru_cache(maxsize=2)
def _prepared(
    file: Path, name: str, changed: int, channels: tuple[str, ...] | None, period: tuple[str, str]
) -> History:
    """Reading and filling three years takes seconds: the last two regions are remembered."""
    return prepare(load_region(file, name, channels), period)


__all__ = ["FOLDER", "QUERY_PERIOD", "data_folder", "sample"]
