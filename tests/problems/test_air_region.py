"""Station files: both layouts load, and what is wrong with a file is said."""

import subprocess
import sys

import numpy as np
import pytest
import xarray
from air_records import record, station_data, write

from chop.core.errors import DataError
from chop.problems import air
from chop.problems.air.region import channel_order, wind_direction, wind_speed

KNOWAIR = ("t2m", "d2m", "tp", "sp", "blh", "msdwswrf", "u100", "v100", "PM2.5", "O3")
TABLE = [[f"S{i}", f"站{i}", "北京", "Beijing", 110 + i, 30 + i] for i in range(3)]


def test_the_layout_of_knowair(tmp_path):
    data = station_data(names=KNOWAIR)
    write(tmp_path, data, "yrd", TABLE)
    region = air.load_region(tmp_path, "yrd")
    assert region.channels == (
        "hour", "t2m", "d2m", "tp", "sp", "blh", "msdwswrf", "wind_speed", "wind_direction", "PM2.5", "O3",
    )  # fmt: skip
    assert region.stations == ("S0", "S1", "S2")
    assert region.lon.tolist() == [110, 111, 112], "the table counts where there is one"
    assert region.values.dtype == np.float32
    np.testing.assert_allclose(region.values[:, :, -1], data["O3"].values, rtol=1e-6)
    speed = 3.6 * np.hypot(data["u100"].values, data["v100"].values)
    np.testing.assert_allclose(region.values[:, :, region.channel("wind_speed")], speed, rtol=1e-6)
    assert region.values[:26, 1, 0].tolist() == [*range(24), 0, 1]


def test_the_layout_with_surface_weather(tmp_path):
    names = ("PM2.5", "O3", "NO2", "t2m", "d2m", "msl", "u10", "v10", "extra")
    write(tmp_path, station_data(names=names), "bthsa_2022_weather")
    write(tmp_path, station_data(), "bthsa", TABLE)
    region = air.load_region(tmp_path / "dataset_bthsa_2022_weather.nc")
    assert region.name == "bthsa_2022_weather"
    assert region.lon.tolist() == [110, 111, 112], "the stations of bthsa"
    assert region.channels == (
        "hour", "t2m", "d2m", "msl", "extra", "wind_speed", "wind_direction", "NO2", "PM2.5", "O3",
    )  # fmt: skip
    some = air.load_region(tmp_path, "bthsa_2022_weather", channels=("O3", "hour", "PM2.5", "NO2"))
    assert some.channels == ("hour", "NO2", "PM2.5", "O3")
    exact = {"name": "bthsa_2022_weather", "in_order": True}
    assert air.load_region(tmp_path, channels=some.channels, **exact).channels == some.channels
    with pytest.raises(DataError, match=r"O3, hour are wanted in this order, but .* gives hour, O3"):
        air.load_region(tmp_path, channels=("O3", "hour"), **exact)


def test_wind_components_are_channels_when_asked_for(tmp_path):
    data = station_data(names=(*KNOWAIR, "u10", "v10"))
    data["u100"][5, 1] = np.inf
    write(tmp_path, data, "yrd", TABLE)
    published = (
        "hour", "t2m", "d2m", "tp", "sp", "blh", "msdwswrf", "u100", "v100", "wind_speed", "wind_direction",
        "PM2.5", "O3",
    )  # fmt: skip
    region = air.load_region(tmp_path, "yrd", published, in_order=True)
    assert region.channels == published
    for name in ("u100", "v100"):
        expected = np.where(np.isfinite(data[name]), data[name], np.nan).astype(np.float32)
        np.testing.assert_array_equal(region.values[:, :, region.channel(name)], expected)
    plain = air.load_region(tmp_path, "yrd")
    assert not {"u100", "v100", "u10", "v10"} & set(plain.channels), "not by themselves"
    shared = [region.channel(name) for name in plain.channels]
    np.testing.assert_array_equal(region.values[:, :, shared], plain.values)
    lower = air.load_region(tmp_path, "yrd", ("v10", "O3", "wind_speed", "u10"))
    assert lower.channels == ("u10", "v10", "wind_speed", "O3")
    speed = 3.6 * np.hypot(data["u100"].values[0], data["v100"].values[0])
    np.testing.assert_allclose(lower.values[0, :, 2], speed, rtol=1e-6)  # of the first pair there is
    with pytest.raises(DataError, match=r"has no CO; it has hour, .*u10, u100, v10, v100, wind_speed"):
        air.load_region(tmp_path, "yrd", ("u100", "CO"))


def test_packed_values_and_places_in_the_file(tmp_path):
    data = station_data()
    data["PM2.5"][3, 1] = np.nan
    packed = {"dtype": "int16", "scale_factor": 0.1, "_FillValue": -32768}
    data.to_netcdf(tmp_path / "dataset_a.nc", engine="h5netcdf", encoding={"PM2.5": packed})
    region = air.load_region(tmp_path, "a")
    assert region.lon.tolist() == [116, 117, 118]
    assert np.isnan(region.values[3, 1, 1])
    np.testing.assert_allclose(region.values[4:, :, 1], data["PM2.5"].values[4:], atol=0.051)


def test_absent_hours_become_missing_rows_and_impossible_values_count_as_missing(tmp_path):
    data = station_data(hours=50).isel(time=[i for i in range(50) if i not in (7, 8)])
    data["O3"][0, 0] = np.inf
    data["PM2.5"][1, 0] = -3.0
    write(tmp_path, data, "a")
    region = air.load_region(tmp_path, "a")
    assert len(region.times) == 50
    assert np.isnan(region.values[7:9, :, 1:]).all()
    assert region.values[7:9, 0, 0].tolist() == [7, 8]
    assert np.isnan(region.values[0, 0, 2])
    assert np.isnan(region.values[1, 0, 1])
    assert np.isnan(region.values).sum() == 2 * 3 * 2 + 2


def test_a_file_that_does_not_name_its_stations(tmp_path):
    write(tmp_path, station_data().drop_vars(["station", "lon", "lat"]), "a", TABLE)
    assert air.load_region(tmp_path, "a").stations == ("S0", "S1", "S2")
    write(tmp_path, station_data().drop_vars(["station", "lon", "lat"]), "b", TABLE[:2])
    with pytest.raises(DataError, match="does not name its 3 stations"):
        air.load_region(tmp_path, "b")


HOURS = np.datetime64("2022-01-01", "h") + np.arange(6)
BAD_TIMES = {
    "unsorted times": HOURS[[0, 1, 3, 2, 4, 5]],
    "duplicated times": HOURS[[0, 1, 1, 2, 3, 4]],
    "not whole hours": HOURS.astype("datetime64[m]") + np.arange(6),
    "3 h apart": HOURS[0] + 3 * np.arange(6),
}


@pytest.mark.parametrize("message", BAD_TIMES)
def test_bad_times(tmp_path, message):
    write(tmp_path, station_data(times=BAD_TIMES[message]), "a")
    with pytest.raises(DataError, match=message):
        air.load_region(tmp_path, "a")


def test_bad_files(tmp_path):
    with pytest.raises(DataError, match=r"no file .*--world DIR"):
        air.load_region(tmp_path, "a")
    with pytest.raises(DataError, match="say which region"):
        air.load_region(tmp_path)
    (tmp_path / "dataset_a.nc").write_bytes(b"\x89HDF\r\n\x1a\n and no more")
    with pytest.raises(DataError, match=r"dataset_a\.nc cannot be opened"):
        air.load_region(tmp_path, "a")
    (tmp_path / "dataset_a.nc").write_text("nothing of the kind")
    with pytest.raises(DataError, match="cannot be read as NetCDF"):
        air.load_region(tmp_path, "a")
    xarray.Dataset({"PM2.5": (("day",), [1.0])}).to_netcdf(tmp_path / "dataset_b.nc", engine="h5netcdf")
    with pytest.raises(DataError, match="needs time and station"):
        air.load_region(tmp_path, "b")
    write(tmp_path, station_data().assign_coords(time=np.arange(72.0)), "c")
    with pytest.raises(DataError, match="must decode to dates"):
        air.load_region(tmp_path, "c")


def test_missing_variables(tmp_path):
    write(tmp_path, station_data(names=("PM2.5", "u10")), "a")
    with pytest.raises(DataError, match=r"has no O3; it has hour, PM2\.5"):
        air.load_region(tmp_path, "a")
    with pytest.raises(DataError, match="has no NO2, wind_speed"):
        air.load_region(tmp_path, "a", channels=("hour", "NO2", "wind_speed", "PM2.5"))


def test_bad_stations(tmp_path):
    write(tmp_path, station_data(), "a", TABLE[:1])
    with pytest.raises(DataError, match=r"2 of 3 stations .* absent from stations_a\.csv: S1, S2"):
        air.load_region(tmp_path, "a")
    write(tmp_path, station_data(), "b", [*TABLE, TABLE[0]])
    with pytest.raises(DataError, match="lists station 'S0' twice"):
        air.load_region(tmp_path, "b")
    write(tmp_path, station_data(ids=["S0", "S1", "S0"]), "c")
    with pytest.raises(DataError, match="has station S0 more than once"):
        air.load_region(tmp_path, "c")
    write(tmp_path, station_data(), "d", [[*TABLE[0][:4], "", 30], *TABLE[1:]])
    with pytest.raises(DataError, match="no place to station 'S0'"):
        air.load_region(tmp_path, "d")
    write(tmp_path, station_data(), "e", [[*TABLE[0][:4], "nan", 30], *TABLE[1:]])
    with pytest.raises(DataError, match="no place on earth: S0"):
        air.load_region(tmp_path, "e")
    write(tmp_path, station_data().drop_vars("lon"), "f")
    with pytest.raises(DataError, match="no lon and lat"):
        air.load_region(tmp_path, "f")
    (tmp_path / "other.csv").write_text("id,lon,lat\n")
    with pytest.raises(DataError, match="lacks the columns station_id"):
        air.load_region(tmp_path, "f", stations_csv=tmp_path / "other.csv")
    with pytest.raises(DataError, match="cannot read the station table"):
        air.load_region(tmp_path, "f", stations_csv=tmp_path / "none.csv")


def test_station_data_as_xarray(tmp_path):
    write(tmp_path, station_data(names=KNOWAIR), "yrd", TABLE)
    with air.open_dataset(tmp_path, "yrd") as data:
        assert dict(data.sizes) == {"time": 72, "station": 3}
        assert data["lon"].values.tolist() == [110, 111, 112]
        assert data.attrs["region"] == "yrd"
    region = air.load_region(tmp_path, "yrd")
    back = region.to_xarray()
    assert list(back.data_vars) == list(region.channels)
    write(tmp_path, back.drop_vars("hour"), "again")
    again = air.load_region(tmp_path, "again")
    assert again.channels == region.channels
    np.testing.assert_array_equal(again.values, region.values)


def test_wind():
    u = np.array([0.0, 1.0, 0.0, -1.0, 0.0, 3.0])
    v = np.array([1.0, 0.0, -1.0, 0.0, 0.0, 4.0])
    assert wind_direction(u, v)[:5].tolist() == [180, 270, 0, 90, 0], "where it comes from; calm is 0"
    assert wind_speed(u, v)[-1] == pytest.approx(18.0)
    around = np.linspace(0, 2 * np.pi, 721)
    degrees = wind_direction(np.sin(around).astype(np.float32), np.cos(around).astype(np.float32))
    assert degrees.min() >= 0
    assert degrees.max() < 360
    assert np.isnan(wind_direction(np.array([np.nan]), np.array([0.0]))).all()


def test_one_order_of_channels():
    assert channel_order(["O3", "zeta", "PM2.5", "hour", "alpha", "sp", "t2m"]) == (
        "hour", "t2m", "sp", "alpha", "zeta", "PM2.5", "O3",
    )  # fmt: skip


def test_a_region_checks_itself():
    region = record(hours=30)
    with pytest.raises(DataError, match="no channel 'CO'"):
        region.channel("CO")
    with pytest.raises(DataError, match="but values"):
        type(region)("a", region.stations, region.lon, region.lat, region.times, ("hour",), region.values)
    with pytest.raises(DataError, match="one row for every hour"):
        type(region)(
            "a", region.stations, region.lon, region.lat, region.times[::-1], region.channels, region.values
        )


def test_naming_the_problem_loads_nothing_heavy():
    code = (
        "import sys, chop.problems; chop.problems.air; print({'torch', 'numpy', 'xarray'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    assert {"load_region", "prepare", "case", "sample", "make_world"} <= set(dir(air))
    for name in air.__all__:
        assert getattr(air, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        air.nonsense  # noqa: B018
