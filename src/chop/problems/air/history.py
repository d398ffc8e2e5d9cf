"""A region made ready for prompts: normalised by its example period and filled without looking ahead.

What was not observed is filled in, because a model needs numbers, and stays marked as not observed, so
that it is never scored. A filled value of hour t depends on hours up to t only. In this order:

1. the station's last observation, if at most 6 h old;
2. the mean of the stations observed in that hour, plus how far this station has stood from that mean on
   average so far;
3. what the same hour of yesterday holds, filled in or not (the whole network is silent);
4. 0, the mean of the example period (the record has just begun).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from chop.core.errors import DataError
from chop.numerics import Array
from chop.problems.air.region import Region, StationGraph, load_region, station_graph

LONGEST_HOLD = 6  # hours
EXAMPLE_PERIOD = ("2022-01-01", "2024-01-01")

Period = tuple[Any, Any]
"""A half-open span of time: two dates or hours, as text or datetime64."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and standard deviation ``(C,)`` of each channel's observed values."""

    mean: Array
    std: Array

    def apply(self, values: Array) -> Array:
        """Physical units to normalised ones."""
        return ((values - self.mean) / self.std).astype(np.float32)

    def undo(self, values: Array) -> Array:
        """Normalised values to physical units."""
        return values * self.std + self.mean


@dataclass(frozen=True, eq=False)
class History:
    """``values`` ``(T, S, C)`` float32 are normalised and filled, ``observed`` ``(T, S, C)`` says where they
    were measured; ``period`` is the span that the scaling was taken from.
    """

    region: Region
    scaling: Scaling
    values: Array
    observed: Array
    period: tuple[str, str]

    def index(self, time: Any) -> int:
        """The row of an hour."""
        at = int((_hour(time) - self.region.times[0]) / np.timedelta64(1, "h"))
        if not 0 <= at < len(self.region.times):
            raise DataError(f"{_hour(time)} is not in the record of {self.region.name}, {_span(self.region)}")
        return at

    def range(self, start: Any, end: Any) -> slice:
        """The rows of a half-open span, as far as the record goes."""
        return _rows(self.region, (start, end))

    @cached_property
    def observed_share(self) -> Array:
        """The share of stations observed in each hour, ``(T, C - 1)``: every channel but the hour of day."""
        measured = [i for i, name in enumerate(self.region.channels) if name != "hour"]
        return np.asarray(self.observed[:, :, measured].mean(axis=1))

    @cached_property
    def graph(self) -> StationGraph:
        """The station graph with the paper's radius, and its ridges where altitudes are known."""
        return station_graph(self.region.lon, self.region.lat, altitudes=self.region.altitudes)


def prepare(region: Region, period: Period = EXAMPLE_PERIOD) -> History:
    """Normalise by the observed values of a half-open period, then fill what is missing, causally.

    A channel that does not vary in the period is centred only.
    """
    rows = _rows(region, period)
    scaling = _scaling(region, rows)
    observed = ~np.isnan(region.values)
    values = scaling.apply(region.values)
    for channel in range(len(region.channels)):
        fill(values[:, :, channel], observed[:, :, channel])
    return History(region, scaling, values, observed, (str(_hour(period[0])), str(_hour(period[1]))))


def load_history(
    folder_or_nc: str | Path, name: str | None, channels: Iterable[str] | None, period: Period
) -> History:
    """A region from its file, its channels in exactly the order given, prepared for an example period."""
    return prepare(load_region(folder_or_nc, name, channels, in_order=True), period)


def fill(values: Array, observed: Array) -> None:
    """Fill one channel ``(T, S)`` in place, by the rules above."""
    if observed.all():
        return
    missing = ~observed
    values[missing] = 0.0
    count = observed.sum(axis=1)
    network = values.sum(axis=1, dtype=np.float64) / np.maximum(count, 1)
    guess = (network[:, None] + _running_offset(values, observed, network)).astype(np.float32)
    hour = np.arange(len(values), dtype=np.int64)[:, None]
    last = np.maximum.accumulate(np.where(observed, hour, -1 - LONGEST_HOLD), axis=0)
    held = missing & (hour - last <= LONGEST_HOLD)
    values[held] = np.take_along_axis(values, np.maximum(last, 0), axis=0)[held]
    rest = missing & ~held
    from_network = rest & (count > 0)[:, None]
    values[from_network] = guess[from_network]
    silent = rest & (count == 0)[:, None]
    for at in np.flatnonzero(silent.any(axis=1)):  # in order: yesterday may have been filled just now
        if at >= 24:
            values[at, silent[at]] = values[at - 24, silent[at]]


def _running_offset(values: Array, observed: Array, network: Array) -> Array:
    """How far each station has stood from the network's mean on average up to each hour, 0 before any."""
    apart = np.where(observed, values - network[:, None], 0.0)
    return np.asarray(np.cumsum(apart, axis=0) / np.maximum(np.cumsum(observed, axis=0), 1))


def _scaling(region: Region, rows: slice) -> Scaling:
    part = region.values[rows]
    count = np.isfinite(part).sum(axis=(0, 1))
    if (count == 0).any():
        empty = ", ".join(name for name, n in zip(region.channels, count, strict=True) if n == 0)
        raise DataError(
            f"{empty} of {region.name} was never observed in the example period; leave the channel out "
            "or choose another period"
        )
    mean = np.nansum(part, axis=(0, 1), dtype=np.float64) / count
    variance = [
        np.nanmean((part[:, :, i].astype(np.float64) - mean[i]) ** 2) for i in range(len(region.channels))
    ]
    std = np.sqrt(np.array(variance))
    return Scaling(mean, np.where(std > 1e-6 * np.maximum(np.abs(mean), 1.0), std, 1.0))


def _rows(region: Region, period: Period) -> slice:
    start, end = _hour(period[0]), _hour(period[1])
    if not start < end:
        raise DataError(f"the period from {start} to {end} is empty")
    first, last = np.searchsorted(region.times, np.array([start, end]))
    if first == last:
        raise DataError(f"the period from {start} to {end} lies outside the record of {region.name}, "
                        f"{_span(region)}")  # fmt: skip
    return slice(int(first), int(last))


def _hour(time: Any) -> np.datetime64:
    try:
        hour = np.datetime64(time, "h")
    except (ValueError, TypeError):
        raise DataError(f"{time!r} is not a date or an hour such as 2024-01-01T06") from None
    if np.isnat(hour):
        raise DataError(f"{time!r} is not a date or an hour such as 2024-01-01T06")
    return hour


def _span(region: Region) -> str:
    return f"{region.times[0]} to {region.times[-1]}"
