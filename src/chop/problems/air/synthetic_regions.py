"""Two invented regions in the layout of the real data, for tests and for everybody who has none.

Each region is a periodic box of air with a few cities. Three columns of pollution live on it as Fourier
series, so that an hour of transport is one exact factor for each wave:

- fine dust is emitted by cities (rush hours, heating at night), carried by the wind, diffused, deposited;
- NO2 is emitted by traffic and destroyed by daylight within hours;
- ozone is made from NO2 by daylight, lives for days aloft, and is eaten by fresh NO2 at the ground.

What a station reads is its column divided by the height of the mixed layer, which is high in the
afternoon and low at night. The wind is a slow random walk (days) with a daily breeze on top; the two
regions share nothing but the sun. Readings have gaps in runs, sometimes at all stations at once.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chop.core.errors import DataError
from chop.numerics import Array
from chop.problems.air.dataset import check_region_name, station_dataset
from chop.problems.random_streams import random_stream
from chop.storage.atomic import atomic_path, write_text

if TYPE_CHECKING:
    import xarray

FIRST_HOUR = "2023-10-01"
HOURS = 24 * 152  # October 2023 to February 2024: examples and questions on both sides of new year
STATIONS = (24, 18)

_BOX = 8.0  # degrees; stations keep to the inner 5, so that nothing comes back around within a day
_INNER = 5.0
_WAVES = 9  # of each sign in each direction
_CITY = 0.3  # degrees, the size of a city
_KM_PER_DEGREE = 100.0
_ROLES = _PLACES, _WEATHER, _READINGS, _GAPS = range(4)  # of the random streams of one region


@dataclass(frozen=True)
class _Plan:
    """What distinguishes a region."""

    name: str
    centre: tuple[float, float]
    wind: tuple[float, float]  # mean, m/s
    dust: float  # strength of the dust sources
    warmth: float  # degrees above the other region


_PLANS = (
    _Plan("bthsa", (116.0, 38.0), (1.0, -1.5), 1.3, 0.0),
    _Plan("yrd", (120.0, 31.0), (-1.5, 0.5), 1.0, 6.0),
)


NAMES = (_PLANS[0].name, _PLANS[1].name)


@dataclass(frozen=True, eq=False)
class _Places:
    """Cities ``(K,)`` and stations ``(S,)``: lon and lat in degrees from the centre, ``(., 2)``."""

    cities: Array
    strength: Array
    stations: Array
    city: Array


@dataclass(frozen=True, eq=False)
class _Weather:
    """What all stations share, ``(T,)`` each; wind ``(T, 2)`` in m/s towards east and north."""

    wind: Array
    height: Array
    sun: Array
    temperature: Array
    dew: Array
    pressure: Array
    rain: Array


def make_world(
    folder: str | Path,
    hours: int = HOURS,
    stations: tuple[int, int] = STATIONS,
    seed: int = 0,
    weather: bool = True,
    start: str = FIRST_HOUR,
    overwrite: bool = False,
    names: tuple[str, str] = NAMES,
) -> Path:
    """Write ``dataset_<region>.nc`` and ``stations_<region>.csv`` of two regions into a folder.

    The regions are called as the real ones, so that everything runs on either, or as ``names`` says.

    Args:
        hours: of the record, 48 or more
        stations: of the two regions
        seed: same seed, same files
        weather: whether there are the variables of KnowAir-V2 beside PM2.5, O3 and NO2
        start: the first hour
        overwrite: replace files that are there
        names: of the two regions; what is in the files does not depend on them
    """
    if hours < 48 or len(stations) != 2 or min(stations) < 1:
        raise DataError(f"a world needs 48 hours or more and two counts of stations, not {hours}, {stations}")
    for name in names:
        check_region_name(name)
    if len(names) != 2 or names[0] == names[1]:
        raise DataError(f"a world has two regions of different names, not {' and '.join(names)}")
    folder = Path(folder)
    files = [folder / f"{kind}_{name}.{end}" for name in names for kind, end in _FILES]
    there = [file.name for file in files if file.exists()]
    if there and not overwrite:
        raise DataError(f"{folder} holds {', '.join(there)} already; choose another, or ask to overwrite")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for region, (name, count) in enumerate(zip(names, stations, strict=True)):
            data, places = synthetic_region(region, hours, count, seed, weather, start)
            _write(folder, name, data, places)
    except OSError as error:
        raise DataError(f"cannot write the invented data into {folder}: {error}") from None
    return folder


_FILES = (("dataset", "nc"), ("stations", "csv"))


def synthetic_region(
    region: int, hours: int, stations: int, seed: int, weather: bool, start: str
) -> tuple[xarray.Dataset, _Places]:
    """One region as a data set with gaps, and where its cities are."""
    plan = _PLANS[region]
    streams = [random_stream("air world", "train", seed, region, role) for role in _ROLES]
    times = np.datetime64(start, "h") + np.arange(hours)
    places = _draw_places(streams[_PLACES], stations)
    sky = _regional_weather(streams[_WEATHER], times, plan)
    dust, no2, ozone = _pollution(places, sky, times, plan)
    local = np.exp(0.15 * streams[_READINGS].standard_normal((3, stations)))
    readings = _readings(streams[_READINGS], dust * local[0], no2 * local[1], ozone * local[2])
    gaps = _gaps(streams[_GAPS], hours, stations)
    variables = {name: np.where(gaps, np.nan, values) for name, values in readings.items()}
    if weather:
        variables |= _at_stations(streams[_WEATHER], sky, stations)
    data = station_dataset(
        {name: values.astype(np.float32) for name, values in variables.items()},
        times,
        [f"{plan.name[0].upper()}{i + 1:03d}" for i in range(stations)],
        plan.centre[0] + places.stations[:, 0],
        plan.centre[1] + places.stations[:, 1],
        title="Invented hourly station data",
        source=f"chop.problems.air.world, seed {seed}",
    )
    return data, places


def _draw_places(stream: np.random.Generator, stations: int) -> _Places:
    """Cities in the inner box; two stations of three in a city, the others in the country."""
    half = _INNER / 2
    cities = stream.uniform(-half, half, (6, 2))
    strength = stream.uniform(0.5, 1.5, 6)
    home = stream.integers(0, 6, stations)
    near = np.clip(cities[home] + 0.25 * stream.standard_normal((stations, 2)), -half, half)
    far = stream.uniform(-half, half, (stations, 2))
    rural = np.arange(stations) % 3 == 2
    where = np.where(rural[:, None], far, near)
    nearest = ((where[:, None] - cities) ** 2).sum(axis=-1).argmin(axis=1)
    return _Places(cities, strength, where, nearest)


def _regional_weather(stream: np.random.Generator, times: Array, plan: _Plan) -> _Weather:
    hours = len(times)
    clock = times.astype(np.int64) % 24
    year = (times.astype("datetime64[D]").astype(np.int64) % 365.25) / 365.25
    summer = -np.cos(2 * np.pi * (year - 0.05))
    cloud = 1 / (1 + np.exp(_random_walk(stream, hours, 30.0) - 0.5))  # 0 overcast .. 1 clear
    height_of_sun = np.sin(np.pi * (clock - 6.0) / 12.0) * (0.75 + 0.25 * summer)
    sun = np.clip(height_of_sun, 0.0, None) * (0.35 + 0.65 * cloud)
    warm = np.cos(2 * np.pi * (clock - 15.0) / 24.0)
    storm = np.exp(0.35 * _random_walk(stream, hours, 36.0))
    breeze = np.stack([np.sin(2 * np.pi * clock / 24.0), np.cos(2 * np.pi * clock / 24.0)], axis=-1)
    slow = np.stack([_random_walk(stream, hours, 40.0) for _ in range(2)], axis=-1)
    wind = np.array(plan.wind) + 3.0 * slow + 0.8 * breeze
    height = (250.0 + 900.0 * np.clip(warm + 0.3, 0.0, None) * (0.5 + 0.5 * cloud)) * storm
    spell = _random_walk(stream, hours, 60.0)
    temperature = 13.0 + plan.warmth + 11.0 * summer + 4.0 * warm * cloud + 3.0 * spell
    dew = temperature - 3.0 - 6.0 * cloud
    rain = np.clip(_random_walk(stream, hours, 10.0) - 1.6, 0.0, None) * (1 - cloud)
    pressure = 1015.0 - 8.0 * summer + 5.0 * _random_walk(stream, hours, 60.0)
    return _Weather(wind, height, sun, temperature, dew, pressure, rain)


def _random_walk(stream: np.random.Generator, hours: int, memory: float) -> Array:
    """A stationary random walk of unit size that forgets within ``memory`` hours."""
    keep = np.exp(-1.0 / memory)
    kicks = np.sqrt(1 - keep**2) * stream.standard_normal(hours)
    path = np.empty(hours)
    level = stream.standard_normal()
    for hour in range(hours):
        level = keep * level + kicks[hour]
        path[hour] = level
    return path


def _pollution(places: _Places, sky: _Weather, times: Array, plan: _Plan) -> tuple[Array, Array, Array]:
    """Concentrations ``(T, S)`` of dust, NO2 and ozone at the stations, in µg/m³."""
    waves = np.arange(-_WAVES, _WAVES + 1) * 2 * np.pi / _BOX
    k = np.stack(np.meshgrid(waves, waves, indexing="ij"), axis=-1).reshape(-1, 2)  # per degree
    size = (k**2).sum(axis=-1)
    blot = 2 * np.pi * (_CITY / _BOX) ** 2 * np.exp(-size * _CITY**2 / 2)  # a bell of height 1
    town = (places.strength @ np.exp(-1j * places.cities @ k.T)) * blot
    read = np.exp(1j * places.stations @ k.T).T  # waves to stations
    step = np.exp(-1j * (sky.wind * (3.6 / _KM_PER_DEGREE)) @ k.T - 0.01 * size)
    clock = times.astype(np.int64) % 24
    rush = 0.4 + np.exp(-((clock - 8.0) ** 2) / 4.5) + np.exp(-((clock - 18.5) ** 2) / 6.0)
    heating = 1.2 + 0.5 * np.cos(2 * np.pi * (clock - 21.0) / 24.0)
    held = np.zeros((3, len(k)), dtype=np.complex128)
    columns = np.empty((len(times), 3, len(places.stations)))
    for hour in range(len(times)):
        dust, no2, ozone = held * step[hour]
        sun = sky.sun[hour]
        held[0] = dust * np.exp(-1 / 50.0 - 0.3 * sky.rain[hour]) + heating[hour] * plan.dust * town
        held[1] = no2 * np.exp(-1 / 12.0 - 0.5 * sun) + rush[hour] * town
        held[2] = ozone * np.exp(-1 / 30.0) + 0.35 * sun * no2
        columns[hour] = (held @ read).real
    mixed = 500.0 / sky.height[:, None]
    dust = 6.0 + 7.0 * np.clip(columns[:, 0], 0.0, None) * mixed**0.3
    no2 = 5.0 + 16.0 * np.clip(columns[:, 1], 0.0, None) * mixed**0.3
    aloft = 60.0 + 40.0 * np.clip(columns[:, 2], 0.0, None) + 50.0 * sky.sun[:, None]
    ozone = aloft / (1.0 + no2 / 60.0) * np.clip(sky.height[:, None] / 700.0, 0.25, 1.0) ** 0.5
    return dust, no2, ozone


def _readings(stream: np.random.Generator, dust: Array, no2: Array, ozone: Array) -> dict[str, Array]:
    """What instruments show: a few per cent off, in whole µg/m³."""

    def read(true: Array) -> Array:
        noise = stream.standard_normal((2, *true.shape))
        return np.asarray(np.clip(np.round(true * (1 + 0.05 * noise[0]) + noise[1]), 0.0, None))

    return {"PM2.5": read(dust), "O3": read(ozone), "NO2": read(no2)}


def _gaps(stream: np.random.Generator, hours: int, stations: int) -> Array:
    """``(T, S)`` True where nothing was reported: runs at single stations, and now and then at all."""
    single = _runs(stream, hours, stations, rate=0.005, longest=12)
    together = _runs(stream, hours, 1, rate=0.002, longest=11)
    return np.asarray(single | together)


def _runs(stream: np.random.Generator, hours: int, columns: int, rate: float, longest: int) -> Array:
    starts = stream.random((hours, columns)) < rate
    length = np.where(starts, stream.integers(1, longest + 1, (hours, columns)), 0)
    hour = np.arange(hours)[:, None]
    until = np.maximum.accumulate(np.where(starts, hour + length, 0), axis=0)
    return np.asarray(hour < until)


def _at_stations(stream: np.random.Generator, sky: _Weather, stations: int) -> dict[str, Array]:
    """The shared weather with a little of each place in it, in the variables of KnowAir-V2."""

    def local(series: Array, spread: float) -> Array:
        return np.asarray(series[:, None] + spread * stream.standard_normal(stations))

    return {
        "t2m": local(sky.temperature, 0.8),
        "d2m": local(sky.dew, 0.8),
        "tp": np.repeat(sky.rain[:, None], stations, axis=1),
        "sp": local(sky.pressure, 3.0),
        "blh": np.clip(local(sky.height, 20.0), 10.0, None),
        "msdwswrf": np.repeat(800.0 * sky.sun[:, None], stations, axis=1),
        "u100": local(sky.wind[:, 0], 0.3),
        "v100": local(sky.wind[:, 1], 0.3),
    }


def _write(folder: Path, name: str, data: xarray.Dataset, places: _Places) -> None:
    packed = {"zlib": True, "complevel": 1}
    listed = io.StringIO(newline="")
    table = csv.writer(listed)
    table.writerow(["station_id", "station_name", "city", "lon", "lat"])
    for i, station in enumerate(data["station"].values):
        where = (f"{data[axis].values[i]:.4f}" for axis in ("lon", "lat"))
        table.writerow([station, f"Station {i + 1}", f"City {places.city[i] + 1}", *where])
    write_text(folder / f"stations_{name}.csv", listed.getvalue(), DataError, overwrite=True)
    with atomic_path(folder / f"dataset_{name}.nc", DataError, overwrite=True) as partial:
        data.to_netcdf(partial, engine="h5netcdf", encoding={str(part): packed for part in data.data_vars})
