"""A region: its raw observations in physical units (NaN where nothing was observed) and its station graph.

Channels stand in one order whatever the file: ``hour`` (of day, as the file's clock shows it), weather,
``wind_speed`` (km/h) and ``wind_direction`` (degrees the wind comes *from*, clockwise from north, in
[0, 360); 0 in a calm), ``NO2`` where measured, and last the two scored ones, ``PM2.5`` and ``O3``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from chop.core.errors import DataError, ProblemError
from chop.core.prompt import Graph
from chop.numerics import Array
from chop.numerics.earth import bearing, great_circle
from chop.problems.air.dataset import DIMS, HOUR, locate, open_dataset, station_dataset
from chop.problems.air.ridges import Altitudes, altitudes_beside
from chop.storage.hdf5 import hdf5_errors

if TYPE_CHECKING:
    import xarray

POLLUTANTS = ("PM2.5", "O3")
"""The scored ones."""
_CONCENTRATIONS = ("NO2", *POLLUTANTS)
_WEATHER = ("t2m", "d2m", "tp", "sp", "msl", "blh", "msdwswrf")  # then whatever else there is, by name
_WIND = ("wind_speed", "wind_direction")
_COMPONENTS = (("u100", "v100"), ("u10", "v10"))  # the first pair there is
_KM_PER_HOUR = 3.6  # of a metre a second
RADIUS = 3.0  # degrees


@dataclass(frozen=True, eq=False)
class Region:
    """Hourly observations of one station network.

    ``lon`` and ``lat`` are ``(S,)`` degrees, ``times`` ``(T,)`` datetime64[h] without holes, ``values``
    ``(T, S, C)`` float32 with NaN where nothing was observed; the hour is always known. Where ``altitudes``
    are there, ridges part neighbours.
    """

    name: str
    stations: tuple[str, ...]
    lon: Array
    lat: Array
    times: Array
    channels: tuple[str, ...]
    values: Array
    altitudes: Altitudes | None = None

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
        variables = {name: self.values[:, :, i] for i, name in enumerate(self.channels)}
        return station_dataset(variables, self.times, self.stations, self.lon, self.lat, region=self.name)


def load_region(
    folder_or_nc: str | Path,
    name: str | None = None,
    channels: Iterable[str] | None = None,
    stations_csv: str | Path | None = None,
    in_order: bool = False,
) -> Region:
    """A region from ``dataset_<name>.nc`` of a folder, or from one file.

    ``channels`` keeps only some, in the order above whatever order they are asked for (with ``in_order``
    another order is an error: a network wants its own); without it everything there is is taken but the
    wind's components, and the two scored pollutants must be there. Hours absent from the file become rows of
    NaN; infinite values and negative concentrations count as not observed. An ``altitude.npy`` beside the
    file is read too.
    """
    asked = None if channels is None else tuple(channels)
    with open_dataset(folder_or_nc, name, stations_csv) as data, hdf5_errors(folder_or_nc, DataError):
        region = str(data.attrs["region"])
        wanted = _wanted(data, region, asked)
        if in_order and asked is not None and wanted != asked:
            raise DataError(
                f"the channels {', '.join(asked)} are wanted in this order, "
                f"but {region} gives {', '.join(wanted)}"
            )
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
            altitudes=altitudes_beside(locate(Path(folder_or_nc), name)[0]),
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
    fixed = {"hour", *_WEATHER, *_WIND, *_CONCENTRATIONS}
    order = ["hour", *_WEATHER, *sorted(given - fixed), *_WIND, *_CONCENTRATIONS]
    return tuple(name for name in order if name in given)


def _wanted(data: xarray.Dataset, region: str, channels: Iterable[str] | None) -> tuple[str, ...]:
    measured = {str(name) for name, variable in data.data_vars.items() if set(variable.dims) == set(DIMS)}
    there = {"hour", *measured}
    if _components(data) is not None:
        there.update(_WIND)
    if channels is None:  # speed and direction say the same
        there.difference_update(*_COMPONENTS)
    chosen = there if channels is None else set(channels)
    absent = sorted((chosen if channels is not None else set(POLLUTANTS)) - there)
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
    if name in _CONCENTRATIONS:
        wrong |= values < 0
    values[wrong] = np.nan
    return values


def _hourly(times: Array) -> tuple[Array, Array]:
    """Every hour from the first to the last, and the rows that the given times take in it."""
    given = times.astype("datetime64[h]")
    every = np.arange(given[0], given[-1] + HOUR, HOUR)
    return every, ((given - given[0]) / HOUR).astype(np.int64)


@dataclass(frozen=True, eq=False)
class StationGraph:
    """``graph`` lists every edge both ways (but a ridge may block one alone); of edge e, from ``edges[0, e]``
    to ``edges[1, e]``, ``distance`` is the great circle in km and ``direction`` the bearing in radians,
    clockwise from north in [0, 2π).
    """

    graph: Graph
    distance: Array
    direction: Array


def station_graph(
    lon: Array, lat: Array, radius: float = RADIUS, altitudes: Altitudes | None = None
) -> StationGraph:
    """Edges between stations at most ``radius`` degrees apart (Euclidean in lon/lat, as in the paper).

    With ``altitudes`` those that cross a ridge are left out. Stations without neighbours, and a network of
    one station, are allowed.
    """
    lon, lat = np.asarray(lon, dtype=np.float64), np.asarray(lat, dtype=np.float64)
    if lon.ndim != 1 or lon.shape != lat.shape or not lon.size:
        raise ProblemError(f"stations need one lon and one lat each, not {lon.shape} and {lat.shape}")
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        raise ProblemError("a station without a place has no neighbours: lon and lat must be finite")
    if not radius >= 0:
        raise ProblemError(f"radius must be 0 or more degrees, not {radius}")
    near = (lon[:, None] - lon) ** 2 + (lat[:, None] - lat) ** 2 <= radius**2
    np.fill_diagonal(near, False)
    start, end = np.nonzero(near)
    if altitudes is not None:
        open_way = ~altitudes.ridge_between(lon[start], lat[start], lon[end], lat[end])
        start, end = start[open_way], end[open_way]
    return StationGraph(
        Graph(torch.from_numpy(np.stack([start, end])), int(lon.size)),
        great_circle(lon[start], lat[start], lon[end], lat[end]),
        bearing(lon[start], lat[start], lon[end], lat[end]),
    )
