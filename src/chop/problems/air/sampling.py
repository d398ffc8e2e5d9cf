"""Questions about a region: hours that may be asked, windows of the past that are shown, the case of both.

Nothing here looks at a value after the question's own window: an example's target hour always precedes
the last hour of the question's window.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from chop.core.errors import DataError, ProblemError
from chop.numerics import Array
from chop.problems.air.dataset import locate
from chop.problems.air.history import EXAMPLE_PERIOD, History, Period, load_history, prepare
from chop.problems.air.region import Region, channel_order
from chop.problems.air.retrieval import SimilarityIndex, most_similar, similarity_index
from chop.problems.air.ridges import ALTITUDES
from chop.problems.air.windows import case, eligible, epoch_hours
from chop.problems.case import EXAMPLE_COUNT, Case, check_counts
from chop.problems.random_streams import random_stream

QUERY_PERIOD = ("2024-01-01", "2025-01-01")
FOLDER = "CHOP_AIR_DATA"
_ORDER = 1  # role of the random stream that orders the questions


@dataclass(frozen=True, eq=False)
class RegionQuestions:
    """Every question of one region, with examples: what all prompts of stations are made by.

    history: the record, normalised and filled
    ends: of the windows that may be asked, in rising order
    lead: the longest lead they are asked at; random examples are usable there, and so the same at every lead
    period: the half-open span that examples are taken from
    seed, split: of all random draws
    index: a folder that keeps the similarity index of all questions; None makes one of those asked, each time
    """

    history: History
    ends: Array
    lead: int
    period: Period
    seed: int = 0
    split: str = "test"
    index: str | Path | None = None

    def shuffled(self, role: int = _ORDER) -> Array:
        """All ends in an order drawn from the seed: the first n are spread over the span, whatever n is."""
        return random_stream("air", self.split, self.seed, 0, role).permutation(self.ends)

    def take(self, first: int, n: int) -> Array:
        """The ends of questions ``first`` .. ``first + n - 1`` in the shuffled order."""
        check_counts(first, n=n)
        if first + n > len(self.ends):
            region = self.history.region
            begin, last = region.times[self.ends[[0, -1]]]
            raise DataError(
                f"{region.name} has {len(self.ends)} usable questions between {begin} and {last} "
                f"at lead {self.lead} h, fewer than the {first + n} asked for"
            )
        return self.shuffled()[first : first + n]

    def examples(self, ends: Array, selection: str, lead: int, count: int = EXAMPLE_COUNT) -> Array:
        """Ends ``(n, count)`` of the windows shown for questions that end at ``ends`` ``(n,)``."""
        if selection not in ("random", "similar"):
            raise ProblemError(f"selection must be 'random' or 'similar', not {selection!r}")
        if selection == "random":
            return random_examples(self.history, ends, self.lead, self.period, count, self.seed, self.split)
        # The first question there could be bounds the examples, so that n does not decide about them.
        asked = np.append(ends, self.ends[0])
        index = self.similar if self.index else similarity_index(self.history, self.period, asked)
        return similar_examples(index, ends, lead, count)

    def case(self, ends: Array, selection: str, lead: int, count: int = EXAMPLE_COUNT) -> Case:
        """These questions at a lead, with their examples."""
        return case(self.history, ends, self.examples(ends, selection, lead, count), lead)

    @cached_property
    def similar(self) -> SimilarityIndex:
        """The similarity index of all questions."""
        return similarity_index(self.history, self.period, self.ends, self.index)


def sample(
    region: str | Region | History = "yrd",
    n: int = 100,
    *,
    lead: int = 24,
    selection: Literal["random", "similar"] = "random",
    seed: int = 0,
    split: str = "test",
    first: int = 0,
    examples: int = EXAMPLE_COUNT,
    data: str | Path | None = None,
    channels: Iterable[str] | None = None,
    period: Period = EXAMPLE_PERIOD,
    queries: Period = QUERY_PERIOD,
) -> Case:
    """n different questions of a region, each with example windows from its past.

    Args:
        region: a name (of a file in the folder ``data``), or what is loaded already
        n, first: questions ``first`` .. ``first + n - 1`` of an order drawn from the seed; each is the same
            whatever n is
        lead: hours from a window's end to its target
        selection: "random" examples, or those "similar" to the question's window
        seed, split: of all random draws; splits never share one
        examples: windows shown for each question
        data: the folder; by default the one that the environment variable CHOP_AIR_DATA names
        channels: those to keep; all by default
        period: where examples come from, and the normalisation
        queries: where questions come from
    """
    check_counts(first, n=n, lead=lead, examples=examples)
    history = _history(region, data, channels, period)
    questions = RegionQuestions(history, eligible(history, queries, lead), lead, period, seed, split)
    made = questions.case(questions.take(first, n), selection, lead, examples)
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
    wanted = None if channels is None else channel_order(channels)
    read = (part for part in (file, file.with_name(ALTITUDES)) if part.exists())
    changed = tuple(part.stat().st_mtime_ns for part in read)
    return _loaded(file, name, changed, wanted, (str(period[0]), str(period[1])))


@lru_cache(maxsize=2)
def _loaded(
    file: Path,
    name: str,
    changed: tuple[int, ...],
    channels: tuple[str, ...] | None,
    period: tuple[str, str],
) -> History:
    """Reading and filling three years takes seconds: the last two regions are remembered."""
    return load_history(file, name, channels, period)


def random_examples(
    history: History,
    ends: Any,
    lead: int,
    period: Period,
    count: int = EXAMPLE_COUNT,
    seed: int = 0,
    split: str = "test",
) -> Array:
    """For each end ``count`` different windows of the period, ``(n, count)``, drawn uniformly.

    Only usable windows whose target precedes the question's last hour. What one question is shown
    depends on the seed and on its own hour alone, not on the other questions.
    """
    check_counts(count=count)
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
    for row, (hour, available) in enumerate(zip(epoch_hours(history, ends), before, strict=True)):
        stream = random_stream("air", split, seed, int(hour))
        chosen[row] = pool[stream.choice(int(available), count, replace=False)]
    return chosen


def similar_examples(index: SimilarityIndex, ends: Any, lead: int, count: int = EXAMPLE_COUNT) -> Array:
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
