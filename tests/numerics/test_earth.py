"""Distances and directions on the earth, against published and independent ones."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chop.numerics.earth import EARTH_RADIUS, bearing, geodesic, great_circle, plane_direction

MILLIMETRE = 1e-6  # km

# geopy 2.5.0 with geographiclib 2.1 (Karney's method): lon, lat, lon, lat, km
GEODESICS = [
    (116.407395, 39.904211, 121.473701, 31.230416, 1065.8461908478105),
    (116.4, 39.9, 117.2, 39.1, 112.35502073622808),
    (121.47, 31.23, 121.4701, 31.23, 0.009527427108181143),
    (112.0, 28.0, 114.0, 30.0, 295.13957369775574),
    (-0.1278, 51.5074, -74.006, 40.7128, 5585.2335789313),
    (179.5, -16.5, -179.5, -17.0, 120.12810435024039),
    (0.0, 0.0, 1.0, 0.0, 111.31949079327356),
    (0.0, 0.0, 0.0, 90.0, 10001.965729312722),
]
PLACES = st.tuples(st.floats(-180, 180), st.floats(-90, 90))


@pytest.mark.parametrize("row", GEODESICS)
def test_geodesics_to_a_millimetre(row):
    *places, km = row
    assert geodesic(*map(np.array, places)) == pytest.approx(km, abs=MILLIMETRE)


def test_vincenty_and_the_surveyors_agree():
    """Flinders Peak to Buninyong, the worked example of the Australian surveyors: 54,972.271 m on GRS 80,
    whose flattening differs from that of WGS 84 in the eleventh digit."""

    def degrees(whole, minutes, seconds):
        return np.array(whole + minutes / 60 + seconds / 3600)

    flinders = degrees(144, 25, 29.52440), -degrees(37, 57, 3.72030)
    buninyong = degrees(143, 55, 35.38390), -degrees(37, 39, 10.15610)
    assert geodesic(*flinders, *buninyong) == pytest.approx(54.972271, abs=MILLIMETRE)


def test_many_at_once_are_each_by_itself():
    rows = np.array([*GEODESICS, (0.0, 0.0, 179.9, 0.3, 0.0), (7.0, 8.0, 7.0, 8.0, 0.0)])[:, :4].T
    together = geodesic(*rows)
    assert together.dtype == np.float64
    assert together.tolist() == [float(geodesic(*row)) for row in rows.T]
    assert geodesic(rows[0][:, None], rows[1][:, None], rows[2], rows[3]).shape == (10, 10)


@given(PLACES, PLACES)
def test_the_ellipsoid_is_nearly_a_sphere(here, there):
    sphere = great_circle(*map(np.array, (*here, *there)))
    assume(sphere < 19_800)
    found = geodesic(*map(np.array, (*here, *there)))
    assert found == pytest.approx(sphere, rel=6e-3, abs=MILLIMETRE)
    assert found == pytest.approx(geodesic(*map(np.array, (*there, *here))), abs=MILLIMETRE)
    turned = geodesic(*map(np.array, (here[0] + 360, here[1], *there)))
    assert found == pytest.approx(turned, abs=MILLIMETRE)


def test_where_the_formula_does_not_converge_the_sphere_stands_in():
    opposite = geodesic(*map(np.array, (0.0, 0.0, 180.0, 0.0)))
    assert opposite == pytest.approx(np.pi * EARTH_RADIUS)
    assert opposite == pytest.approx(20003.931458625444, rel=2e-3), "geopy 2.5.0"
    assert np.isnan(geodesic(*map(np.array, (0.0, np.nan, 1.0, 0.0))))


@given(PLACES)
def test_no_way_to_the_same_place(here):
    place = [np.array(part) for part in here]
    assert geodesic(*place, *place) == pytest.approx(0.0, abs=1e-9)
    assert plane_direction(*place, *place) == 0.0


def test_directions_on_the_plane():
    lon, lat = np.zeros(8), np.full(8, 40.0)
    east = np.array([0.0, 1.0, 1.0, 1.0, 0.0, -1.0, -1.0, -1e-300])
    north = np.array([1.0, 1.0, 0.0, -1.0, -1.0, -1.0, 1.0, 1.0])
    found = plane_direction(lon, lat, east, lat + north)
    assert found.tolist() == [360.0, 45.0, 90.0, 135.0, 180.0, 225.0, 315.0, 360.0]
    assert found.dtype == np.float64
    assert plane_direction(*map(np.float32, (1.0, 2.0, 1.0, 2.0))) == 0.0


@given(PLACES, PLACES)
def test_directions_on_the_plane_are_those_of_a_wind_from_there(here, there):
    """The published rule: the direction that a wind with the components here - there comes from."""
    (u, v) = here[0] - there[0], here[1] - there[1]
    wind = 90.0 - np.degrees(np.arctan2(-v, -u))
    expected = 0.0 if u == v == 0 else wind + 360.0 if wind <= 0 else wind
    found = plane_direction(*map(np.array, (*here, *there)))
    assert 0 <= found <= 360
    assert (found - expected + 180) % 360 - 180 == pytest.approx(0.0, abs=1e-9)
    assert (found == 0) == (u == v == 0)


def test_near_places_lie_where_the_plane_has_them_at_the_equator():
    here, there = (10.0, 0.0), (10.001, 0.001)
    on_the_sphere = np.degrees(bearing(*map(np.array, (*here, *there))))
    assert plane_direction(*map(np.array, (*here, *there))) == pytest.approx(float(on_the_sphere), abs=1e-3)
