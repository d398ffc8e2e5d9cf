"""Small station records for the tests of the air problem."""

import csv

import numpy as np
import xarray

from chop.problems.air.region import Region

CHANNELS = ("hour", "NO2", "PM2.5", "O3")
START = "2022-01-01"


def record(hours=240, stations=4, seed=0, missing=0.1, start=START, channels=CHANNELS, places=None):
    """A region of positive noise with a daily cycle, and single values missing."""
    stream = np.random.default_rng(seed)
    times = np.datetime64(start, "h") + np.arange(hours)
    cycle = 5 * np.sin(2 * np.pi * np.arange(hours) / 24)[:, None, None]
    values = 30 + cycle + 4 * stream.standard_normal((hours, stations, len(channels)))
    values[stream.random(values.shape) < missing] = np.nan
    values[:, :, 0] = (times.astype(np.int64) % 24)[:, None]
    where = stream.uniform(0, 4, (stations, 2)) if places is None else np.asarray(places, dtype=float)
    return Region(
        name="small",
        stations=tuple(f"S{i}" for i in range(stations)),
        lon=116 + where[:, 0],
        lat=38 + where[:, 1],
        times=times,
        channels=tuple(channels),
        values=values.astype(np.float32),
    )


def with_values(region, values):
    """The same stations and hours with other values."""
    return Region(region.name, region.stations, region.lon, region.lat, region.times, region.channels, values)


def station_data(hours=72, stations=3, names=("PM2.5", "O3"), seed=0, times=None, ids=None):
    """A data set as the files hold it."""
    stream = np.random.default_rng(seed)
    if times is None:
        times = np.datetime64(START, "h") + np.arange(hours)
    return xarray.Dataset(
        {name: (("time", "station"), stream.uniform(1, 50, (len(times), stations))) for name in names},
        coords={
            "time": np.asarray(times).astype("datetime64[ns]"),
            "station": [f"S{i}" for i in range(stations)] if ids is None else ids,
            "lon": ("station", 116 + np.arange(stations, dtype=float)),
            "lat": ("station", 38 + np.arange(stations, dtype=float)),
        },
    )


def write(folder, data, name="small", table=None):
    """``dataset_<name>.nc`` and, with rows, ``stations_<name>.csv``."""
    path = folder / f"dataset_{name}.nc"
    data.to_netcdf(path, engine="h5netcdf")
    if table is not None:
        with (folder / f"stations_{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(
                [["station_id", "station_name", "city", "city_en", "lon", "lat"], *table]
            )
    return path
