"""The questions of the benchmark: a region's windows in one year, with examples from the years before.

All leads ask the same windows: those of which enough was observed and whose target at the longest lead lies
in the record. With random examples a question shows the same windows at every lead (all have usable targets
at the longest one); similar examples are the most similar windows whose target may be shown at the lead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from chop.core.errors import BenchError
from chop.problems import air
from chop.runs.fingerprint import feed_bytes, stored_digest

if TYPE_CHECKING:
    from chop.problems.case import Case

LEADS = (1, 2, 3, 4, 5, 6, 12, 24, 36, 48, 72)
LONGEST = max(LEADS)
EXAMPLE_YEARS = 2
_ORDER = 2  # role of the random stream that orders the questions


@dataclass(frozen=True)
class YearSplit:
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
class RegionSource:
    """One region's data as every worker finds it."""

    folder: str
    region: str
    channels: tuple[str, ...]
    split: YearSplit
    every: int
    seed: int
    index: str
    """The folder that keeps similarity indices."""
    digest: str = ""
    """The SHA-256 that the data must have; empty: any."""

    def history(self) -> air.History:
        """The region, normalised and filled."""
        return _history(self.folder, self.region, self.channels, self.split, self.digest)

    def hours(self) -> tuple[int, ...]:
        """Every question's hour (since 1970), in an order drawn from the seed.

        The first n are spread over the year, whatever n is.
        """
        return tuple(air.epoch_hours(self.history(), _questions(self).shuffled(_ORDER)).tolist())

    def case(self, hours: tuple[int, ...], selection: str, lead: int) -> Case:
        """These questions at a lead, with examples."""
        first = air.epoch_hours(self.history(), np.zeros(1, dtype=np.int64))
        return _questions(self).case(np.array(hours, dtype=np.int64) - first, selection, lead)

    def similar(self) -> air.SimilarityIndex:
        """The similarity index of all questions, made once and kept on disk."""
        return _questions(self).similar


def digest_of(region: air.Region) -> str:
    """The SHA-256 of what was observed: stations, places, times, channels, values; altitudes if any."""
    digest = stored_digest()
    digest.update(repr((region.stations, region.channels)).encode())
    hours = region.times.astype("datetime64[h]").astype(np.int64)
    for array in (region.lon, region.lat, hours, region.values):
        feed_bytes(digest, array)
    if region.altitudes is not None:
        metres = region.altitudes.metres
        digest.update(repr((metres.shape, metres.dtype.str)).encode())
        feed_bytes(digest, metres)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _history(
    folder: str, region: str, channels: tuple[str, ...], split: YearSplit, digest: str
) -> air.History:
    """Loading takes seconds and 200 MB: the last region is kept."""
    found = air.load_history(folder, region, channels, split.examples)
    if digest and digest_of(found.region) != digest:
        raise BenchError(f"the data of {region} in {folder} has changed since the benchmark began")
    return found


@lru_cache(maxsize=1)
def _questions(source: RegionSource) -> air.RegionQuestions:
    """All questions; random examples are the same at every lead."""
    history = source.history()
    ends = air.usable_ends(history, source.split.questions, LONGEST, source.every)
    if not ends.size:
        raise BenchError(
            f"{source.region} has no usable window in {source.split.year} whose target {LONGEST} h later is "
            "in the record: choose another year with --year, or ask more often with --every"
        )
    return air.RegionQuestions(history, ends, LONGEST, source.split.examples, source.seed, index=source.index)
