"""A region's raw observations: every channel in physical units, NaN where nothing was observed.

Channels stand in one order whatever the file: ``hour`` (of day, as the file's clock shows it), weather,
``wind_speed`` (km/h) and ``wind_direction`` (degrees the wind comes *from*, clockwise from north, in
[0, 360); 0 in a calm), ``NO2`` where measured, and last the two scored ones, ``PM2.5`` and ``O3``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chop.core.errors import DataError
from chop.problems.air.dataset import DIMS, HOUR, open_dataset, require_xarray
from chop.storage.guards.hdf5 import reading

if TYPE_CHECKING:
    import xarray

SCORED = ("PM2.5", "O3")
POLLUTANTS = ("NO2", *SCORED)
_WEATHER = ("t2m", "d2m", "tp", "sp", "msl", "blh", "msdwswrf")  # then whatever else there is, by name
_WIND = ("wind_speed", "wind_direction")
_COMPONENTS = (("u100", "v100"), ("u10", "v10"))  # the first pair there is
_KM_PER_HOUR = 3.6  # of a metre a second

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Region:
    """Hourly observations of one station network.

    ``lon`` and ``lat`` are ``(S,)`` degrees, ``times`` ``(T,)`` datetime64[h] without holes, ``values``
    ``(T, S, C)`` float32 with NaN where nothing was observed; the hour is always known.
    """

    name: str
    stations: tuple[str, ...]
    lon: Array
    lat: Array
    times: Array
    channels: tuple[str, ...]
    values: Array

    def __post_init__(self) -> None:
        shape = (len(self.times), len(self.stations), len(self.channels))
        if self.values.shape != shape or self.lon.shape != self.lat.shape or self.lon.shape != shape[1:2]:
            raise DataError(
                f"region {self.name} has {shape[0]} times, {shape[1]} stations and {shape[2]} channels, "
                f"but values {self.values.shape} and places {self.lon.shape} and {self.lat.shape}"
            )
        if shape[0] > 1 and (np.diff(self.times) != HOUR).any():
            raise DataError(f"region {self.name} needs one row for every hour, in order")

    def channel(self, name: str) -> int:
        """The position of a channel."""
        if name not in self.channels:
            raise DataError(f"region {self.name} has no channel {name!r}; it has {', '.join(self.channels)}")
        return self.channels.index(name)

    def to_xarray(self) -> xarray.Dataset:
        """The channels as an xarray data set with dims (time, station)."""
        made: xarray.Dataset = require_xarray().Dataset(
            {name: (DIMS, self.values[:, :, i]) for i, name in enumerate(self.channels)},
            coords={
                "time": self.times.astype("datetime64[ns]"),
                "station": np.array(self.stations),
                "lon": ("station", self.lon),
                "lat": ("station", self.lat),
            },
            attrs={"region": self.name},
        )
        return made


def load_region(
    folder_or_nc: str | Path,
    name: str | None = None,
    channels: Iterable[str] | None = None,
    stations_csv: str | Path | None = None,
) -> Region:
    """A region from ``dataset_<name>.nc`` of a folder, or from one file.

    ``channels`` keeps only some, in the order above whatever order they are asked for; without it
    everything there is is taken, and the two scored pollutants must be there. Hours absent from the file
    become rows of NaN; infinite values and negative concentrations count as not observed.
    """
    with open_dataset(folder_or_nc, name, stations_csv) as data, reading(folder_or_nc, DataError):
        region = str(data.attrs["region"])
        wanted = _wanted(data, region, channels)
        times, rows = _hourly(data["time"].values)
        values = np.full((len(times), data.sizes["station"], len(wanted)), np.nan, dtype=np.float32)
        components = _components(data)
        for i, channel in enumerate(wanted):
            if channel == "hour":
                values[:, :, i] = hour_of_day(times)[:, None]
            elif channel in _WIND and channel not in data.data_vars:
                assert components is not None
                u, v = (_numbers(data, part) for part in components)
                values[rows, :, i] = (wind_speed if channel == "wind_speed" else wind_direction)(u, v)
            else:
                values[rows, :, i] = _numbers(data, channel)
        return Region(
            name=region,
            stations=tuple(str(station) for station in data["station"].values),
            lon=data["lon"].values.astype(np.float64),
            lat=data["lat"].values.astype(np.float64),
            times=times,
            channels=wanted,
            values=values,
        )


def hour_of_day(times: Array) -> Array:
    """0 .. 23."""
    return (times.astype("datetime64[h]").astype(np.int64) % 24).astype(np.float32)


def wind_speed(u: Array, v: Array) -> Array:
    """km/h from components in m/s."""
    return _KM_PER_HOUR * np.hypot(u, v)


def wind_direction(u: Array, v: Array) -> Array:
    """Where the wind comes from: degrees clockwise from north in [0, 360), 0 in a calm."""
    angle = np.degrees(np.arctan2(-u, -v)) % 360.0
    return np.where((u == 0) & (v == 0), 0.0, np.where(angle == 360.0, 0.0, angle))


def channel_order(names: Iterable[str]) -> tuple[str, ...]:
    """The design's order: hour, weather, wind, NO2, PM2.5, O3."""
    given = set(names)
    fixed = {"hour", *_WEATHER, *_WIND, *POLLUTANTS}
    order = ["hour", *_WEATHER, *sorted(given - fixed), *_WIND, *POLLUTANTS]
    return tuple(name for name in order if name in given)


def _wanted(data: xarray.Dataset, region: str, channels: Iterable[str] | None) -> tuple[str, ...]:
    measured = {str(name) for name, variable in data.data_vars.items() if set(variable.dims) == set(DIMS)}
    there = {"hour", *measured.difference(*_COMPONENTS)}
    if _components(data) is not None:
        there.update(_WIND)
    chosen = there if channels is None else set(channels)
    absent = sorted((chosen if channels is not None else set(SCORED)) - there)
    if absent:
        raise DataError(
            f"region {region} has no {', '.join(absent)}; it has {', '.join(channel_order(there))}"
        )
    return channel_order(chosen)


def _components(data: xarray.Dataset) -> tuple[str, str] | None:
    return next((pair for pair in _COMPONENTS if all(part in data.data_vars for part in pair)), None)


def _numbers(data: xarray.Dataset, name: str) -> Array:
    variable = data[name]
    if variable.dtype.kind not in "fiu":
        raise DataError(f"{name} must hold numbers, not {variable.dtype}")
    values = variable.transpose(*DIMS).values.astype(np.float32)
    wrong = ~np.isfinite(values)
    if name in POLLUTANTS:
        wrong |= values < 0
    values[wrong] = np.nan
    return values


def _hourly(times: Array) -> tuple[Array, Array]:
    """Every hour from the first to the last, and the rows that the given times take in it."""
    given = times.astype("datetime64[h]")
    every = np.arange(given[0], given[-1] + HOUR, HOUR)
    return every, ((given - given[0]) / HOUR).astype(np.int64)


__all__ = ["POLLUTANTS", "SCORED", "Region", "channel_order", "load_region", "wind_direction", "wind_speed"]
