"""Station data as xarray: files opened, checked, and tied to their station table.

A data set has dims (time, station), one variable for each quantity, and the places of its stations
either in a table ``stations_<region>.csv`` beside it or as coordinates ``lon`` and ``lat``. Where both are
there the table counts, as in KnowAir-V2.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chop.core.errors import DataError
from chop.numerics import Array
from chop.storage.hdf5 import check_hdf5, hdf5_errors, is_hdf5
from chop.storage.size_limits import unpacked_limit

if TYPE_CHECKING:
    import xarray

DIMS = ("time", "station")
REGION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""What files, folders and figures can be called everywhere."""
HOUR = np.timedelta64(1, "h")


def open_dataset(
    folder_or_file: str | Path, name: str | None = None, stations_csv: str | Path | None = None
) -> xarray.Dataset:
    """A region's observations, decoded and checked: dims (time, station), coordinates lon and lat.

    A folder holds ``dataset_<name>.nc`` and ``stations_<name>.csv``. Times are whole hours in rising
    order (hours may be absent), stations are different and have places. Values are read when they are
    used; ``attrs["region"]`` is the name.
    """
    path, region = locate(Path(folder_or_file), name)
    data = _opened(path)
    try:
        with hdf5_errors(path, DataError):
            return _checked(data, path, region, stations_csv)
    except BaseException:
        data.close()
        raise


def _checked(
    data: xarray.Dataset, path: Path, region: str, stations_csv: str | Path | None
) -> xarray.Dataset:
    missing = [dim for dim in DIMS if dim not in data.dims]
    if missing:
        raise DataError(f"{path.name} has dims {', '.join(map(str, data.dims))}; it needs time and station")
    table = Path(stations_csv) if stations_csv is not None else _table_beside(path, region)
    places = None if table is None else read_stations(table)
    stations = _station_ids(data, path.name, places)
    lon, lat = _places(data, path.name, stations, places, table)
    _check_times(data, path)
    data = data.assign_coords(
        station=np.array(stations), lon=(("station",), lon), lat=(("station",), lat)
    ).transpose(*DIMS, ...)
    data.attrs["region"] = region
    return data


def locate(path: Path, name: str | None) -> tuple[Path, str]:
    """The data file and the region's name, from a folder and a name or from the file alone."""
    if path.is_dir():
        there = regions_in(path)
        if name is None:
            raise DataError(
                f"{path} is a folder: say which region is meant"
                + (f" ({', '.join(there)})" if there else ", though it holds no dataset_<region>.nc")
            )
        folder, path, region = path, path / f"dataset_{name}.nc", name
        if there and not path.is_file():
            raise DataError(f"{folder} has no region {name!r}: it has {', '.join(there)}")
    else:
        region = path.stem.removeprefix("dataset_") if name is None else name
    if not path.is_file():
        raise DataError(
            f"there is no file {path}; 'chop data air --fetch DIR' downloads the public data, "
            "'chop data air --world DIR' invents some"
        )
    return path, region


def regions_in(folder: Path) -> tuple[str, ...]:
    """The regions whose data set lies in a folder, in order."""
    return tuple(sorted(file.stem.removeprefix("dataset_") for file in folder.glob("dataset_*.nc")))


def check_region_name(name: str) -> None:
    """A region's name becomes part of the names of files."""
    if not REGION_NAME.fullmatch(name):
        raise DataError(
            f"a region cannot be called {name!r}: letters, digits, '_', '.' and '-' make its name, "
            "a letter or digit begins it, and 64 are the most"
        )


def read_stations(table: Path) -> dict[str, tuple[float, float]]:
    """The places ``(lon, lat)`` of a table's stations, in its order."""
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            absent = {"station_id", "lon", "lat"} - set(reader.fieldnames or ())
            if absent:
                raise DataError(f"{table.name} lacks the columns {', '.join(sorted(absent))}")
            rows = list(reader)
    except OSError as error:
        raise DataError(f"cannot read the station table {table}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"the station table {table} is not UTF-8 text") from None
    places: dict[str, tuple[float, float]] = {}
    for row in rows:
        station = (row["station_id"] or "").strip()
        if station in places:
            raise DataError(f"{table.name} lists station {station!r} twice")
        try:
            places[station] = float(row["lon"]), float(row["lat"])
        except (TypeError, ValueError):
            raise DataError(
                f"{table.name} gives no place to station {station!r}: lon {row['lon']!r}, lat {row['lat']!r}"
            ) from None
    return places


def station_dataset(
    variables: Mapping[str, Array],
    times: Array,
    stations: Sequence[str],
    lon: Array,
    lat: Array,
    **about: str,
) -> xarray.Dataset:
    """Variables ``(T, S)`` as a data set with dims (time, station), with places and attributes."""
    made: xarray.Dataset = require_xarray().Dataset(
        {name: (DIMS, values) for name, values in variables.items()},
        coords={
            "time": times.astype("datetime64[ns]"),
            "station": np.array(stations),
            "lon": ("station", lon),
            "lat": ("station", lat),
        },
        attrs=about,
    )
    return made


def require_xarray() -> Any:
    """xarray, with what it needs to read and write NetCDF."""
    try:
        import h5netcdf  # noqa: F401
        import xarray
    except ModuleNotFoundError as error:
        raise DataError(f"station data needs {error.name}: pip install 'chain-of-operators[air]'") from None
    return xarray


def _opened(path: Path) -> xarray.Dataset:
    read = require_xarray().open_dataset
    # NetCDF-4 is HDF5 and read by h5netcdf; for anything else xarray may know somebody.
    engine = "h5netcdf" if is_hdf5(path) else None
    if engine is not None:
        check_hdf5(path, DataError)
        _check_dimensions(path)
    try:
        opened: xarray.Dataset = read(path, engine=engine)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ImportError) as error:
        reason = str(error).strip().split("\n")[0]
        raise DataError(f"{path} cannot be read as NetCDF: {reason}") from None
    return opened


def _check_dimensions(path: Path) -> None:
    """h5netcdf fills variables up to the lengths of their dimensions, which may be any numbers."""
    import h5netcdf

    with hdf5_errors(path, DataError), h5netcdf.File(path, "r", phony_dims="access") as file:
        for name, variable in file.variables.items():
            if 8 * prod(variable.shape) > unpacked_limit(path.stat().st_size):
                raise DataError(f"{path}: {name} is to be filled up to {variable.shape}; write it again")


def _table_beside(path: Path, region: str) -> Path | None:
    """``stations_<region>.csv``; ``bthsa_2022_weather`` has the stations of ``bthsa``."""
    words = region.split("_")
    for length in range(len(words), 0, -1):
        table = path.parent / f"stations_{'_'.join(words[:length])}.csv"
        if table.is_file():
            return table
    return None


def _station_ids(
    data: xarray.Dataset, file: str, places: dict[str, tuple[float, float]] | None
) -> tuple[str, ...]:
    if "station" in data.coords:
        ids = tuple(_text(value) for value in data["station"].values)
    elif places is not None and len(places) == data.sizes["station"]:
        ids = tuple(places)  # a file without ids lists its stations as the table does
    else:
        raise DataError(
            f"{file} does not name its {data.sizes['station']} stations, and there is no table of as many"
        )
    twice = sorted({station for station in ids if ids.count(station) > 1})
    if twice:
        raise DataError(f"{file} has station {_some(twice)} more than once")
    if not ids:
        raise DataError(f"{file} has no stations")
    return ids


def _places(
    data: xarray.Dataset,
    file: str,
    stations: tuple[str, ...],
    places: dict[str, tuple[float, float]] | None,
    table: Path | None,
) -> tuple[Array, Array]:
    if places is not None:
        assert table is not None
        absent = [station for station in stations if station not in places]
        if absent:
            raise DataError(
                f"{len(absent)} of {len(stations)} stations of {file} are absent from {table.name}: "
                f"{_some(absent)}"
            )
        where = np.array([places[station] for station in stations], dtype=np.float64)
        lon, lat = where[:, 0], where[:, 1]
    elif all(axis in data.variables and data[axis].dims == ("station",) for axis in ("lon", "lat")):
        lon, lat = (np.asarray(data[axis].values, dtype=np.float64) for axis in ("lon", "lat"))
    else:
        raise DataError(
            f"{file} has no lon and lat of its stations, and there is no stations_<region>.csv beside it"
        )
    lost = ~(np.isfinite(lon) & np.isfinite(lat) & (np.abs(lat) <= 90) & (np.abs(lon) <= 360))
    if lost.any():
        names = [stations[i] for i in np.flatnonzero(lost)]
        raise DataError(f"{len(names)} stations of {file} have no place on earth: {_some(names)}")
    return lon, lat


def _check_times(data: xarray.Dataset, path: Path) -> None:
    file = path.name
    times = data["time"].values if "time" in data.coords else None
    if times is None or times.dtype.kind != "M":
        raise DataError(f"{file} has no times: its coordinate 'time' must decode to dates")
    if not times.size or np.isnat(times).any():
        raise DataError(f"{file} has no times, or times that are not there")
    if (times != times.astype("datetime64[h]")).any():
        raise DataError(f"{file} is not hourly: some times are not whole hours")
    steps = np.diff(times.astype("datetime64[h]"))
    if (steps < 0 * HOUR).any():
        at = times[1:][steps < 0 * HOUR][0].astype("datetime64[h]")
        raise DataError(f"{file} has unsorted times, first at {at}; sort the file by time")
    if (steps == 0 * HOUR).any():
        at = times[1:][steps == 0 * HOUR][0].astype("datetime64[h]")
        raise DataError(f"{file} has duplicated times, first {at}; keep one row an hour")
    if steps.size and np.median(steps / HOUR) > 1:
        raise DataError(f"{file} is not hourly: most of its rows are {np.median(steps / HOUR):g} h apart")
    # Hours that are absent become rows: two distant ones would make millions.
    hours = 1 + int(steps.sum() / HOUR) if steps.size else 1
    if 4 * hours * data.sizes["station"] * len(data.data_vars) > unpacked_limit(path.stat().st_size):
        raise DataError(f"{file} has {times.size} times in {hours:,} hours; split it where hours are absent")


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _some(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
