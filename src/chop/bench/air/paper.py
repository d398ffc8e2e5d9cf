"""The paper's air-quality numbers: mean RMSE in µg/m³ over its target times of 2023, and reductions.

From the two supplementary tables of *Chain of Operators*, in their layout: a row is a lead in hours, then
Raw ICON, CHOP(Air) and the reduction in percent with random examples, and the same three with similar ones.
"""

from __future__ import annotations

from typing import NamedTuple

from chop.bench.air.conditions import FORWARD, REVERSE, Condition

LOWERED = 77
"""Conditions of the 88 in which the paper's CHOP(Air) lowers the mean."""


class Row(NamedTuple):
    """Raw ICON, CHOP(Air) and the reduction in percent."""

    raw: float
    chop: float
    reduction: float


_Line = tuple[int, float, float, float, float, float, float]

_FORWARD_DUST: tuple[_Line, ...] = (
    (1, 14.56, 5.63, 61.3, 13.73, 5.88, 57.2),
    (2, 14.70, 8.43, 42.6, 13.70, 8.66, 36.8),
    (3, 14.94, 10.37, 30.6, 13.89, 10.24, 26.3),
    (4, 15.25, 11.76, 22.8, 14.22, 11.33, 20.3),
    (5, 15.59, 12.86, 17.5, 14.63, 12.16, 16.9),
    (6, 15.96, 13.70, 14.2, 15.07, 12.84, 14.8),
    (12, 18.08, 16.55, 8.4, 17.53, 15.36, 12.4),
    (24, 19.96, 18.20, 8.8, 19.62, 17.67, 9.9),
    (36, 21.27, 19.59, 7.9, 20.91, 19.49, 6.8),
    (48, 22.34, 20.02, 10.4, 21.97, 20.29, 7.7),
    (72, 23.79, 20.93, 12.0, 23.22, 21.22, 8.6),
)
_FORWARD_OZONE: tuple[_Line, ...] = (
    (1, 25.03, 12.42, 50.4, 19.34, 11.23, 41.9),
    (2, 25.08, 19.77, 21.2, 19.74, 16.23, 17.8),
    (3, 25.31, 23.66, 6.5, 20.44, 18.63, 8.9),
    (4, 25.74, 25.81, -0.3, 21.29, 20.18, 5.2),
    (5, 26.31, 26.98, -2.6, 22.19, 21.36, 3.8),
    (6, 27.01, 27.94, -3.4, 23.08, 22.31, 3.3),
    (12, 30.95, 31.78, -2.7, 27.27, 25.83, 5.3),
    (24, 33.75, 31.35, 7.1, 29.71, 28.28, 4.8),
    (36, 35.55, 35.96, -1.2, 32.83, 31.49, 4.1),
    (48, 37.19, 35.07, 5.7, 34.09, 32.45, 4.8),
    (72, 39.31, 36.65, 6.8, 36.45, 34.44, 5.5),
)
_REVERSE_DUST: tuple[_Line, ...] = (
    (1, 23.96, 8.64, 64.0, 21.76, 8.94, 58.9),
    (2, 23.80, 12.61, 47.0, 21.59, 12.83, 40.6),
    (3, 23.81, 15.54, 34.7, 21.65, 15.21, 29.7),
    (4, 23.96, 17.79, 25.7, 21.90, 16.86, 23.0),
    (5, 24.21, 19.56, 19.2, 22.28, 18.11, 18.7),
    (6, 24.55, 20.95, 14.7, 22.74, 19.13, 15.9),
    (12, 26.97, 25.73, 4.6, 25.79, 23.31, 9.6),
    (24, 29.93, 29.71, 0.7, 28.48, 27.95, 1.9),
    (36, 33.02, 33.00, 0.1, 31.74, 31.68, 0.2),
    (48, 34.53, 34.20, 1.0, 32.72, 33.11, -1.2),
    (72, 36.28, 35.33, 2.6, 34.15, 34.19, -0.1),
)
_REVERSE_OZONE: tuple[_Line, ...] = (
    (1, 27.83, 12.62, 54.7, 22.96, 11.35, 50.6),
    (2, 27.69, 20.18, 27.1, 23.33, 16.38, 29.8),
    (3, 27.88, 24.79, 11.1, 23.95, 18.95, 20.9),
    (4, 28.37, 27.48, 3.1, 24.69, 20.62, 16.5),
    (5, 29.10, 29.21, -0.4, 25.47, 21.84, 14.3),
    (6, 29.97, 30.57, -2.0, 26.21, 22.81, 13.0),
    (12, 33.30, 34.22, -2.8, 29.39, 26.20, 10.9),
    (24, 33.43, 30.55, 8.6, 29.90, 27.88, 6.7),
    (36, 36.42, 37.47, -2.9, 32.85, 30.81, 6.2),
    (48, 35.98, 34.23, 4.9, 32.68, 31.13, 4.7),
    (72, 37.43, 35.49, 5.2, 34.39, 32.58, 5.3),
)

_TABLES = {
    (FORWARD, "PM2.5"): _FORWARD_DUST,
    (FORWARD, "O3"): _FORWARD_OZONE,
    (REVERSE, "PM2.5"): _REVERSE_DUST,
    (REVERSE, "O3"): _REVERSE_OZONE,
}

TABLE: dict[Condition, Row] = {
    Condition(direction, selection, line[0], pollutant): Row(*line[first : first + 3])
    for (direction, pollutant), lines in _TABLES.items()
    for line in lines
    for selection, first in (("random", 1), ("similar", 4))
}

__all__ = ["LOWERED", "TABLE", "Row"]
