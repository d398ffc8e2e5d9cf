"""Ridges between stations: the published rule against a literal one; folders with altitudes and without."""

import io
import os

import numpy as np
import pytest
import torch
from air_records import record, station_data, write
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.core.errors import DataError
from chop.problems import air

FLAT = np.zeros((81, 141), dtype=np.float32)
"""Cells of half a degree."""


def bresenham(start, end):
    """The line from cell to cell, one step of the longer axis at a time."""
    apart = [end[axis] - start[axis] for axis in (0, 1)]
    long, short = (0, 1) if abs(apart[0]) > abs(apart[1]) else (1, 0)
    sign = [1 if part > 0 else -1 for part in apart]
    cell, cells, error = list(start), [tuple(start)], 0
    for _ in range(abs(apart[long])):
        cell[long] += sign[long]
        error += 2 * abs(apart[short])
        if error >= abs(apart[long]):
            cell[short] += sign[short]
            error -= 2 * abs(apart[long])
        cells.append(tuple(cell))
    return cells


def cell_of(grid, lon, lat):
    rows, columns = grid.shape
    row = int((55 - lat) / (40 / (rows - 1)))
    column = int((lon - 70) / (70 / (columns - 1)))
    return max(0, min(rows - 1, row)), max(0, min(columns - 1, column))


def is_open(grid, here, there):
    """The published rule, literally."""
    start, end = cell_of(grid, *here), cell_of(grid, *there)
    heights = [float(grid[cell]) for cell in bresenham(start, end)]
    return all(sum(h - float(grid[foot]) > 1200 for h in heights) < 3 for foot in (start, end))


def edges_of(made):
    return {tuple(edge) for edge in made.graph.edges.T.tolist()}


def with_wall(*cells):
    """A plain with mountains of 1500 m at (latitude, longitude)."""
    grid = FLAT.copy()
    for lat, lon in cells:
        grid[int((55 - lat) * 2), int((lon - 70) * 2)] = 1500
    return grid


WALL = with_wall((40, 115), (40, 115.5), (40, 116))
LON, LAT = np.array([114.2, 116.7, 114.2]), np.array([39.8, 39.8, 37.2])


def test_the_line_of_the_oracle():
    assert bresenham((-1, -4), (3, 2)) == [(-1, -4), (0, -3), (0, -2), (1, -1), (2, 0), (2, 1), (3, 2)]
    assert bresenham((0, 2), (1, 0)) == [(0, 2), (1, 1), (1, 0)], "half a cell is a step"
    assert bresenham((4, 4), (4, 4)) == [(4, 4)]


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.tuples(st.integers(2, 60), st.integers(2, 60)),
    st.integers(1, 9),
    st.sampled_from([3.0, 40.0]),
)
def test_edges_are_those_of_the_published_rule(seed, shape, stations, spread):
    stream = np.random.default_rng(seed)
    grid = stream.choice([0.0, 600.0, 1200.0, 1200.5, 2400.5], size=shape, p=[0.6, 0.1, 0.1, 0.1, 0.1])
    lon, lat = 105 + spread * stream.uniform(-1, 1, stations), 35 + spread * stream.uniform(-1, 1, stations)
    made = air.station_graph(lon, lat, radius=spread, altitudes=air.Altitudes(grid))
    places = list(zip(lon, lat, strict=True))
    near = edges_of(air.station_graph(lon, lat, radius=spread))
    assert edges_of(made) == {edge for edge in near if is_open(grid, places[edge[0]], places[edge[1]])}
    assert len(made.distance) == len(made.direction) == made.graph.edges.shape[1]


def test_a_ridge_between_two_stations():
    free = air.station_graph(LON, LAT)
    assert edges_of(free) == {(0, 1), (1, 0), (0, 2), (2, 0)}
    made = air.station_graph(LON, LAT, altitudes=air.Altitudes(WALL))
    assert edges_of(made) == {(0, 2), (2, 0)}
    kept = [free.graph.edges.T.tolist().index(edge) for edge in made.graph.edges.T.tolist()]
    assert made.distance.tolist() == free.distance[kept].tolist()
    assert made.direction.tolist() == free.direction[kept].tolist()


@pytest.mark.parametrize(
    ("change", "parted"),
    [
        ({(40, 115): 1200}, False),  # a pass
        ({(40, 115): 1200.5}, True),
        ({(40, 114): 300}, True),  # one station is high, the other one not
        ({(40, 114): 300, (40, 116.5): 300}, False),
        ({(40, 115): np.nan}, False),  # unknown: sea level
        ({(40, 114): np.nan}, True),
        ({(40, 115): np.inf}, False),
    ],
)
def test_what_makes_a_ridge(change, parted):
    grid = WALL.copy()
    for (lat, lon), metres in change.items():
        grid[int((55 - lat) * 2), int((lon - 70) * 2)] = metres
    made = air.station_graph(LON[:2], LAT[:2], altitudes=air.Altitudes(grid))
    assert edges_of(made) == (set() if parted else {(0, 1), (1, 0)})


def test_whole_numbers_do_not_wrap():
    for kind in (np.int16, np.uint16, np.float64):
        made = air.station_graph(LON, LAT, altitudes=air.Altitudes(WALL.astype(kind)))
        assert edges_of(made) == {(0, 2), (2, 0)}, kind
    peak = with_wall((40, 114)).astype(np.uint16)
    assert len(edges_of(air.station_graph(LON, LAT, altitudes=air.Altitudes(peak)))) == 4


def test_the_way_back_may_be_another_one():
    """Right between two cells the line takes the one farther from its start."""
    grid = FLAT.copy()
    grid[[31, 32, 33], [91, 93, 95]] = 1500
    lon, lat = np.array([115.1, 118.1]), np.array([39.9, 38.4])
    assert edges_of(air.station_graph(lon, lat, radius=4, altitudes=air.Altitudes(grid))) == {(1, 0)}


def test_places_outside_the_grid_take_its_border():
    lon, lat = np.array([0.0, 200.0, 70.0, 140.0]), np.array([80.0, -80.0, 15.0, 55.0])
    cells = air.Altitudes(FLAT).cells(lon, lat)
    assert cells.tolist() == [[0, 0], [80, 140], [80, 0], [0, 140]]


def test_one_station_and_no_neighbours():
    alone = air.station_graph(LON[:1], LAT[:1], altitudes=air.Altitudes(WALL))
    assert alone.graph.edges.shape == (2, 0)


def write_small(folder):
    data = station_data(hours=24 * 8).assign_coords(lon=("station", LON), lat=("station", LAT))
    return write(folder, data)


def test_a_folder_with_altitudes_gives_their_graph_to_every_prompt(tmp_path):
    file = write_small(tmp_path)
    plain = air.load_region(tmp_path, "small")
    assert plain.altitudes is None
    spans = {"period": ("2022-01-01", "2022-01-05"), "queries": ("2022-01-05", "2022-01-09")}
    asked = {"region": "small", "n": 2, "lead": 3, "data": tmp_path, **spans}
    free = air.sample(**asked)
    assert free.prompt.graph.edges.shape == (2, 4)
    np.save(tmp_path / "altitude.npy", WALL)
    parted = air.sample(**asked)
    assert parted.prompt.graph.edges.tolist() == [[0, 2], [2, 0]], "though the data file is as it was"
    assert torch.equal(parted.prompt.query.values, free.prompt.query.values)
    for where in ((tmp_path, "small"), (file, None)):
        region = air.load_region(*where)
        np.testing.assert_array_equal(region.altitudes.metres, WALL)
        np.testing.assert_array_equal(region.values, plain.values)
        history = air.prepare(region, spans["period"])
        assert history.graph.graph.edges.tolist() == [[0, 2], [2, 0]]
        assert air.case(history, [100], [[40]], 3).prompt.graph.edges.tolist() == [[0, 2], [2, 0]]
    np.save(tmp_path / "altitude.npy", FLAT)
    os.utime(tmp_path / "altitude.npy", ns=(0, 0))
    assert air.sample(**asked).prompt.graph.edges.shape == (2, 4)


def saved(array, **options):
    stored = io.BytesIO()
    np.save(stored, array, **options)
    return stored.getvalue()


def zipped():
    stored = io.BytesIO()
    np.savez(stored, FLAT)
    return stored.getvalue()


NOT_A_GRID = r"altitudes are numbers on a grid of 2 rows and 2 columns or more, not "
NOT_AN_ARRAY = "is not an array of numbers as numpy.save writes it"
BAD_FILES = {
    "one dimension": (saved(np.zeros(5)), NOT_A_GRID + r"float64 \(5,\)"),
    "three dimensions": (saved(np.zeros((2, 3, 4))), NOT_A_GRID),
    "one row": (saved(np.zeros((1, 9))), NOT_A_GRID),
    "no columns": (saved(np.zeros((9, 0))), f"{NOT_A_GRID}|{NOT_AN_ARRAY}"),
    "text": (saved(np.full((2, 2), "high")), NOT_A_GRID + "<U4"),
    "complex numbers": (saved(np.zeros((2, 2), dtype=complex)), NOT_A_GRID),
    "bool": (saved(FLAT > 0), NOT_A_GRID + "bool"),
    "a pickle": (saved(np.array([[None, 1], [2, 3]]), allow_pickle=True), NOT_AN_ARRAY),
    "an archive": (zipped(), NOT_AN_ARRAY),
    "nothing": (b"", NOT_AN_ARRAY),
    "words": (b"nothing of the kind", NOT_AN_ARRAY),
    "cut off": (saved(FLAT)[:-1], NOT_AN_ARRAY),
    "a promise": (saved(FLAT).replace(b"(81, 141), ", b"(81, 10**9)"), NOT_AN_ARRAY),
    "a large promise": (saved(FLAT).replace(b"(81, 141), }  ", b"(8100, 14100)}"), NOT_AN_ARRAY),
    "an open bracket": (saved(FLAT).replace(b"(81, 141)", b"((((((((("), NOT_AN_ARRAY),
}


@pytest.mark.parametrize("how", BAD_FILES)
def test_what_is_no_grid_is_refused_in_a_sentence(tmp_path, how):
    write_small(tmp_path)
    content, words = BAD_FILES[how]
    (tmp_path / "altitude.npy").write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        air.load_region(tmp_path, "small")
    assert "altitude.npy" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_file(tmp_path):
    write_small(tmp_path)
    (tmp_path / "altitude.npy").mkdir()
    with pytest.raises(DataError, match=r"cannot read .*altitude\.npy: "):
        air.load_region(tmp_path, "small")


def test_a_region_made_by_hand_has_no_ridges():
    assert record(hours=30).altitudes is None
