"""Who neighbours whom among stations, how far, and in which direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from chop.core.errors import ProblemError
from chop.core.prompt import Graph

RADIUS = 3.0  # degrees
EARTH_RADIUS = 6371.0  # km

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class StationGraph:
    """``graph`` lists every edge both ways; of edge e, from ``edges[0, e]`` to ``edges[1, e]``, ``distance``
    is the great circle in km and ``direction`` the bearing in radians, clockwise from north in [0, 2π).
    """

    graph: Graph
    distance: Array
    direction: Array


def station_graph(lon: Array, lat: Array, radius: float = RADIUS) -> StationGraph:
    """Edges between stations at most ``radius`` degrees apart (Euclidean in lon/lat, as in the paper).

    Stations without neighbours, and a network of one station, are allowed.
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
    return StationGraph(
        Graph(torch.from_numpy(np.stack([start, end])), int(lon.size)),
        great_circle(lon[start], lat[start], lon[end], lat[end]),
        bearing(lon[start], lat[start], lon[end], lat[end]),
    )


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


__all__ = ["RADIUS", "StationGraph", "bearing", "great_circle", "station_graph"]
