"""The questions of the benchmark: a region's windows in one year, with examples from the years before.

All leads ask the same windows: those of which enough was observed and whose target at the longest lead lies
in the record. With random examples a question shows the same windows at every lead (all have usable targets
at the longest one); similar examples are the most similar windows whose target may be shown at the lead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chop.core.errors import BenchError
from chop.problems.random_streams import random_stream
from chop.runs.fingerprint import feed_bytes, written

if TYPE_CHECKING:
    from chop.problems.air.history import History
    from chop.problems.air.region import Region
    from chop.problems.air.retrieval import SimilarityIndex
    from chop.problems.case import Case

Array = NDArray[Any]
LEADS = (1, 2, 3, 4, 5, 6, 12, 24, 36, 48, 72)
LONGEST = max(LEADS)
EXAMPLE_YEARS = 2
_ORDER = 2  # role of the random stream that orders the questions


@dataclass(frozen=True)
class Split:
    """Questions of one year; examples and normalisation from the two years before it."""

    year: int = 2024

    @property
    def examples(self) -> tuple[str, str]:
        return f"{self.year - EXAMPLE_YEARS}-01-01", f"{self.year}-01-01"

    @property
    def questions(self) -> tuple[str, str]:
        return f"{self.year}-01-01", f"{self.year + 1}-01-01"

    def in_words(self, every: str) -> str:
        """The split, and how often is asked."""
        return (
            f"examples and normalisation from the evaluated region, {self.year - EXAMPLE_YEARS} to "
            f"{self.year - 1}; questions in {self.year}, every {every} h"
        )


@dataclass(frozen=True)
class Source:
    """One region's data as every worker finds it."""

    folder: str
    region: str
    channels: tuple[str, ...]
    split: Split
    every: int
    seed: int
    index: str
    """The folder that keeps similarity indices."""
    digest: str = ""
    """The SHA-256 that the data must have; empty: any."""

    def history(self) -> History:
        """The region, normalised and filled."""
        return _history(self.folder, self.region, self.channels, self.split, self.digest)

    def hours(self) -> tuple[int, ...]:
        """Every question's hour (since 1970), in an order drawn from the seed.

        The first n are spread over the year, whatever n is.
        """
        history = self.history()
        order = random_stream("air", "test", self.seed, 0, _ORDER)
        return tuple(int(hour) for hour in order.permutation(_clock(history, _rows(self))))

    def case(self, hours: tuple[int, ...], selection: str, lead: int) -> Case:
        """These questions at a lead, with examples."""
        from chop.problems.air.selection import similar_examples
        from chop.problems.air.windows import case

        history = self.history()
        first = int(history.region.times[0].astype("datetime64[h]").astype(np.int64))
        ends = np.array(hours, dtype=np.int64) - first
        if selection == "random":
            shown = _drawn(self, tuple(ends.tolist()))
        else:
            shown = similar_examples(self.similar(), ends, lead)
        return case(history, ends, shown, lead)

    def similar(self) -> SimilarityIndex:
        """The similarity index of all questions, made once and kept on disk."""
        return _similar(self)


def observations(folder: str, region: str, channels: tuple[str, ...]) -> Region:
    """A region's channels in the order in which a network wants them."""
    from chop.problems.air.region import load_region

    found = load_region(folder, region, channels)
    if found.channels != channels:
        raise BenchError(
            f"the network wants the channels {', '.join(channels)} in this order, "
            f"but {region} gives {', '.join(found.channels)}"
        )
    return found


def digest_of(region: Region) -> str:
    """The SHA-256 of what was observed: stations, places, times, channels, values."""
    digest = written()
    digest.update(repr((region.stations, region.channels)).encode())
    hours = region.times.astype("datetime64[h]").astype(np.int64)
    for array in (region.lon, region.lat, hours, region.values):
        feed_bytes(digest, array)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _history(folder: str, region: str, channels: tuple[str, ...], split: Split, digest: str) -> History:
    """Loading takes seconds and 200 MB: the last region is kept."""
    from chop.problems.air.history import prepare

    found = observations(folder, region, channels)
    if digest and digest_of(found) != digest:
        raise BenchError(f"the data of {region} in {folder} has changed since the benchmark began")
    return prepare(found, split.examples)


@lru_cache(maxsize=2)
def _rows(source: Source) -> Array:
    """Ends of the windows that are asked, in rising order."""
    from chop.problems.air.eligibility import usable_windows
    from chop.problems.air.windows import WINDOW

    history = source.history()
    rows = history.range(*source.split.questions)
    ends = np.arange(rows.start + WINDOW - 1, rows.stop - LONGEST)
    ends = ends[_clock(history, ends) % source.every == 0]
    ends = ends[usable_windows(history)[ends]]
    if not ends.size:
        raise BenchError(
            f"{source.region} has no usable window in {source.split.year} whose target {LONGEST} h later is "
            "in the record: choose another year with --year, or ask more often with --every"
        )
    return np.asarray(ends)


@lru_cache(maxsize=2)
def _drawn(source: Source, ends: tuple[int, ...]) -> Array:
    """Random examples, the same at every lead."""
    from chop.problems.air.selection import random_examples

    asked = np.array(ends, dtype=np.int64)
    return random_examples(source.history(), asked, LONGEST, source.split.examples, seed=source.seed)


@lru_cache(maxsize=1)
def _similar(source: Source) -> SimilarityIndex:
    from chop.problems.air.retrieval import similarity_index

    return similarity_index(source.history(), source.split.examples, _rows(source), source.index)


def _clock(history: History, rows: Array) -> Array:
    return np.asarray(history.region.times[rows].astype("datetime64[h]").astype(np.int64))


__all__ = ["LEADS", "LONGEST", "Source", "Split", "digest_of", "observations"]
