"""Mean-field control without interaction, solved exactly.

Minimise  int int c m^2 / (2 rho) dx dt + int g rho(1, x) dx  under  rho_t + m_x = mu rho_xx  on the
circle. With m = -rho phi_x / c the value function obeys  -phi_t - mu phi_xx + phi_x^2 / (2 c) = 0  and
phi(1) = g. Put phi = -2 c mu log(psi): the squares cancel and psi_t + mu psi_xx = 0 is left, backwards
from exp(-g / (2 c mu)). Then eta = rho / psi obeys the forward heat equation, from rho(0) / psi(0).

So two heat flows are all there is. Functions are given at M equidistant nodes, fine enough to resolve
them; the heat flow to any (t, x) is one matrix: the periodic heat kernel as weights of the trapezoidal
rule, which converges faster than any power of 1/M. Its entries are positive, and so is the density,
with small *relative* error where it is tiny (a Fourier multiplier has small absolute error only).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from chop.core.errors import ProblemError
from chop.numerics import Array

COST = 20.0
VISCOSITY = 0.02
_MAX_EXPONENT = 600.0
_RESOLVED = 40.0  # exp(-40): below rounding


@dataclass(frozen=True)
class SubGrid:
    """Every time with every point, time-major; times in [0, 1], points anywhere on the circle."""

    times: tuple[float, ...]
    points: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("times", "points"):
            values = tuple(float(value) for value in np.atleast_1d(getattr(self, name)))
            if not values or not np.isfinite(values).all():
                raise ProblemError(f"SubGrid.{name} needs at least one number, all finite")
            object.__setattr__(self, name, values)
        if min(self.times) < 0 or max(self.times) > 1:
            raise ProblemError(f"times must lie in [0, 1], not in [{min(self.times)}, {max(self.times)}]")

    @property
    def coords(self) -> Array:
        """(t, x) of every point, ``(len, 2)``."""
        t, x = np.meshgrid(self.times, self.points, indexing="ij")
        return np.stack([t.ravel(), x.ravel()], axis=-1)

    def __len__(self) -> int:
        return len(self.times) * len(self.points)


@dataclass(frozen=True, eq=False)
class HopfCole:
    """The solution for one or many (g, rho(0)): two functions at M nodes, and the heat flow."""

    psi: Array  # at t = 1, scaled so that its largest value is 1
    eta: Array  # at t = 0
    viscosity: float

    def density(self, grid: SubGrid) -> Array:
        """rho on the sub-grid, ``(..., len(grid))``."""
        forward = _flow(self.eta, self.viscosity, grid.times, grid.points)
        return np.asarray(self.weight(grid) * forward)

    def weight(self, grid: SubGrid) -> Array:
        """psi = exp(-phi / (2 c mu)) on the sub-grid, up to a factor; phi is the value function."""
        spans = tuple(1.0 - t for t in grid.times)
        return _flow(self.psi, self.viscosity, spans, grid.points)


def hopf_cole(cost: Any, density: Any, c: float = COST, viscosity: float = VISCOSITY) -> HopfCole:
    """Solve for terminal costs g ``(..., M)`` and initial densities ``(..., M)`` at nodes j / M.

    Leading axes broadcast: one g with many densities solves for g once. The functions must be resolved
    by their nodes; nothing else is approximated.
    """
    g, rho = (np.asarray(values, dtype=np.float64) for values in (cost, density))
    if g.shape[-1:] != rho.shape[-1:] or g.ndim < 1 or g.shape[-1] < 8:
        raise ProblemError(f"cost {g.shape} and density {rho.shape} need the same nodes, 8 or more")
    if not (0 < c < np.inf and 0 < viscosity < np.inf):
        raise ProblemError(f"c and viscosity must be positive, not {c} and {viscosity}")
    if not np.isfinite(g).all():
        raise ProblemError("the terminal cost has values that are not finite")
    if not (np.isfinite(rho).all() and (rho > 0).all()):
        raise ProblemError("the initial density must be finite and positive everywhere")
    exponent = (g - g.min(axis=-1, keepdims=True)) / (2.0 * c * viscosity)
    if exponent.max() > _MAX_EXPONENT:
        raise ProblemError(
            f"the terminal cost varies by {exponent.max():.4g} times 2 c mu, more than the "
            f"{_MAX_EXPONENT:.0f} that floating-point numbers can hold"
        )
    psi = np.exp(-exponent)
    nodes = tuple(np.arange(g.shape[-1]) / g.shape[-1])
    return HopfCole(psi, rho / _flow(psi, viscosity, (1.0,), nodes), viscosity)


def _flow(values: Array, viscosity: float, spans: tuple[float, ...], points: tuple[float, ...]) -> Array:
    """Positive functions at the nodes after each span of the heat flow, at the points, span-major."""
    out = carry(values, _propagator(values.shape[-1], viscosity, spans, points))
    for i, span in enumerate(spans):
        if span == 0.0:  # interpolation; of the logarithm, so that what is tiny stays positive
            at = interpolation(values.shape[-1], points)
            out[..., i * len(points) : (i + 1) * len(points)] = np.exp(carry(np.log(values), at))
    return out


def carry(values: Array, matrix: Array) -> Array:
    """``values @ matrix`` over the last axis, to the same bits for every batch and thread count."""
    from chop.numerics import kernels  # numba is only loaded when something is solved

    rows = np.ascontiguousarray(values.reshape(-1, values.shape[-1]))
    out = np.empty((len(rows), matrix.shape[1]))
    kernels.matrix_product(rows, matrix, out)
    return out.reshape(*values.shape[:-1], matrix.shape[1])


@lru_cache(maxsize=32)
def _propagator(nodes: int, viscosity: float, spans: tuple[float, ...], points: tuple[float, ...]) -> Array:
    """(nodes, spans x points): all spans of the heat flow side by side."""
    return np.concatenate([heat_matrix(nodes, viscosity * span, np.array(points)) for span in spans], axis=1)


@lru_cache(maxsize=16)
def interpolation(nodes: int, points: tuple[float, ...]) -> Array:
    """(nodes, points): a resolved function at its nodes, read off anywhere on the circle."""
    return heat_matrix(nodes, 0.0, np.array(points))


def heat_matrix(nodes: int, spread: float, points: Array) -> Array:
    """(nodes, points): weights that carry values at the nodes through the heat equation to the points.

    ``spread`` is viscosity times time. A kernel wider than the nodes' spacing is summed over its
    periodic images; a narrower one is taken from its Fourier series (interpolation, at spread 0).
    """
    if (np.pi * nodes) ** 2 * spread > _RESOLVED:
        distance = points[None, :] - np.arange(nodes)[:, None] / nodes
        distance -= np.round(distance)
        images = int(np.sqrt(4.0 * _RESOLVED * spread) + 0.5)
        with np.errstate(under="ignore"):
            total = sum(np.exp(-((distance + k) ** 2) / (4.0 * spread)) for k in range(-images, images + 1))
        return np.asarray(total / (np.sqrt(4.0 * np.pi * spread) * nodes))
    return _series_matrix(nodes, spread, points)


def _series_matrix(nodes: int, spread: float, points: Array) -> Array:
    y, k = np.arange(nodes) / nodes, np.arange(nodes // 2 + 1)
    weight = np.where((k == 0) | (2 * k == nodes), 1.0, 2.0) * np.exp(-((2 * np.pi * k) ** 2) * spread)
    at_nodes, at_points = 2 * np.pi * np.outer(k, y), 2 * np.pi * np.outer(k, points)
    # At the highest mode of an even number of nodes only the cosine is seen.
    sines = np.where(2 * k == nodes, 0.0, weight)[:, None] * np.sin(at_points)
    cosines = weight[:, None] * np.cos(at_points)
    matrix = (carry(np.cos(at_nodes).T, cosines) + carry(np.sin(at_nodes).T, sines)) / nodes
    if spread == 0.0:
        place = points * nodes
        exact = np.abs(place - np.round(place)) < 1e-9  # a point that is a node has that node's value
        matrix[:, exact] = 0.0
        matrix[np.round(place[exact]).astype(int) % nodes, np.flatnonzero(exact)] = 1.0
    return np.asarray(matrix)
