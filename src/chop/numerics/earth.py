"""Distances and directions between places on the earth, given in degrees.

On the sphere (`great_circle`, `bearing`), on the ellipsoid of WGS 84 (`geodesic`), and on the plane whose
axes are longitude and latitude (`plane_direction`).
"""

from __future__ import annotations

import numpy as np

from chop.numerics import Array

EARTH_RADIUS = 6371.0  # km
_EQUATOR, _FLATTENING = 6378.137, 1 / 298.257223563  # WGS 84: radius in km
_POLE = _EQUATOR * (1 - _FLATTENING)
_ROUNDS = 100  # of Vincenty's iteration; far from antipodes it takes five
_SETTLED = 1e-13  # radians: less than a micrometre


def great_circle(lon: Array, lat: Array, other_lon: Array, other_lat: Array) -> Array:
    """Distance in km on a sphere, exact for small distances too (haversine)."""
    a, b = np.radians(lat), np.radians(other_lat)
    sine = np.sin((b - a) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(np.radians(other_lon - lon) / 2) ** 2
    return np.asarray(2 * EARTH_RADIUS * np.arcsin(np.sqrt(np.clip(sine, 0.0, 1.0))))


def bearing(lon: Array, lat: Array, other_lon: Array, other_lat: Array) -> Array:
    """Initial direction from one place to another: radians clockwise from north in [0, 2π)."""
    a, b, turn = np.radians(lat), np.radians(other_lat), np.radians(other_lon - lon)
    east = np.sin(turn) * np.cos(b)
    north = np.cos(a) * np.sin(b) - np.sin(a) * np.cos(b) * np.cos(turn)
    return np.asarray(np.arctan2(east, north) % (2 * np.pi))


def geodesic(lon: Array, lat: Array, other_lon: Array, other_lat: Array) -> Array:
    """Distance in km on the ellipsoid of WGS 84, to a tenth of a millimetre (Vincenty's inverse formula).

    The formula does not converge where the places are nearly opposite each other on the globe (from about
    19,900 km): there the great circle stands in, which is right to 0.2 %.
    """
    lon, lat, other_lon, other_lat = np.broadcast_arrays(
        *(np.asarray(part, dtype=np.float64) for part in (lon, lat, other_lon, other_lat))
    )
    a, b = (_reduced_latitude(np.radians(part)) for part in (lat, other_lat))
    turn = np.radians((other_lon - lon + 180.0) % 360.0 - 180.0)
    wide = turn  # the difference of longitudes on the sphere of reduced latitudes
    settled = np.zeros(turn.shape, dtype=bool)
    for _ in range(_ROUNDS):
        sigma, azimuth, tilt, middle = _arc(a, b, wide)
        c = _FLATTENING / 16 * tilt * (4 + _FLATTENING * (4 - 3 * tilt))
        bend = middle + c * np.cos(sigma) * (2 * middle**2 - 1)
        again = turn + (1 - c) * _FLATTENING * azimuth * (sigma + c * np.sin(sigma) * bend)
        settled |= (np.abs(again - wide) < _SETTLED) & (np.abs(again) <= np.pi)
        if settled.all():
            break
        wide = np.where(settled, wide, again)
    return np.where(settled, _arc_length(sigma, tilt, middle), great_circle(lon, lat, other_lon, other_lat))


def plane_direction(lon: Array, lat: Array, other_lon: Array, other_lat: Array) -> Array:
    """Where another place lies if longitude and latitude are taken for a plane: degrees in (0, 360].

    Clockwise from north, and exactly north is 360; 0 stands where both places are the same.
    """
    east, north = (
        np.subtract(other, own, dtype=np.float64) for other, own in ((other_lon, lon), (other_lat, lat))
    )
    angle = np.degrees(np.arctan2(east, north))
    return np.where((east == 0) & (north == 0), 0.0, np.where(angle <= 0, angle + 360.0, angle))


def _reduced_latitude(latitude: Array) -> Array:
    return np.asarray(np.arctan2((1 - _FLATTENING) * np.sin(latitude), np.cos(latitude)))


def _arc(a: Array, b: Array, wide: Array) -> tuple[Array, Array, Array, Array]:
    """The arc between reduced latitudes ``a`` and ``b`` that are ``wide`` apart in longitude, on the sphere.

    Its length, the sine of its azimuth at the equator and the square of that one's cosine, and the cosine of
    twice the distance from the equator to its middle; the latter is 0 for an arc along the equator.
    """
    east = np.cos(b) * np.sin(wide)
    north = np.cos(a) * np.sin(b) - np.sin(a) * np.cos(b) * np.cos(wide)
    sine = np.hypot(east, north)
    cosine = np.sin(a) * np.sin(b) + np.cos(a) * np.cos(b) * np.cos(wide)
    azimuth = np.cos(a) * east / np.where(sine > 0, sine, 1.0)
    tilt = np.maximum(1 - azimuth**2, 0.0)
    middle = np.where(tilt > 0, cosine - 2 * np.sin(a) * np.sin(b) / np.where(tilt > 0, tilt, 1.0), 0.0)
    return np.arctan2(sine, cosine), azimuth, tilt, middle


def _arc_length(sigma: Array, tilt: Array, middle: Array) -> Array:
    """km on the ellipsoid of an arc of the sphere."""
    u = tilt * (_EQUATOR**2 / _POLE**2 - 1)
    big_a = 1 + u / 16384 * (4096 + u * (-768 + u * (320 - 175 * u)))
    big_b = u / 1024 * (256 + u * (-128 + u * (74 - 47 * u)))
    sine, cosine = np.sin(sigma), np.cos(sigma)
    third = big_b / 6 * middle * (4 * sine**2 - 3) * (4 * middle**2 - 3)
    shift = big_b * sine * (middle + big_b / 4 * (cosine * (2 * middle**2 - 1) - third))
    return np.asarray(_POLE * big_a * (sigma - shift))
