"""Functions on different grids: who coincides with whom, and nearest-neighbour interpolation."""

from __future__ import annotations

import torch
from torch import Tensor

from chop.prompt import lean

_HELD_DISTANCES = 2**24
"""Distances in memory at once, when every prompt of a batch has its own grids."""


def nearest_index(source: Tensor, target: Tensor) -> Tensor | None:
    """For each target point the nearest source point, the first on ties: ``(..., m)``.

    ``source`` is ``(..., n, k)``, ``target`` ``(..., m, k)``. None means identity: the grids coincide,
    and no distance was computed. Where only some elements of a batch coincide, those get the identity.
    """
    batch = torch.broadcast_shapes(source.shape[:-2], target.shape[:-2])
    n, m = source.shape[-2], target.shape[-2]
    source = lean(source.expand(*batch, *source.shape[-2:]))
    target = lean(target.expand(*batch, *target.shape[-2:]))
    same = None
    if n == m:
        same = (source == target).all(dim=-1).all(dim=-1)
        if bool(same.all()):
            return None
    index = _search(source, target)
    if same is not None:
        index = torch.where(same.unsqueeze(-1), torch.arange(n, device=index.device), index)
    return index.expand(*batch, m)


def resample(values: Tensor, index: Tensor | None) -> Tensor:
    """Values ``(..., n, c)`` at the points a `nearest_index` ``(..., m)`` names: ``(..., m, c)``."""
    if index is None:
        return values
    batch = torch.broadcast_shapes(values.shape[:-2], index.shape[:-1])
    wide = values.expand(*batch, *values.shape[-2:])
    rows = index.expand(*batch, index.shape[-1]).unsqueeze(-1)
    return wide.gather(-2, rows.expand(*rows.shape[:-1], values.shape[-1]))


def same_grid(*grids: Tensor) -> bool:
    """Whether all grids ``(..., n, k)`` coincide, for every element of the batch."""
    first = lean(grids[0])
    return all(
        grid.shape[-2:] == first.shape[-2:] and bool((lean(grid) == _aligned(first, grid)).all())
        for grid in grids[1:]
    )


def _aligned(grid: Tensor, other: Tensor) -> Tensor:
    """Axes of examples inserted so that a query's grid broadcasts against its examples' grids."""
    while grid.ndim < other.ndim:
        grid = grid.unsqueeze(-3)
    return grid


def _search(source: Tensor, target: Tensor) -> Tensor:
    """Squared Euclidean distances, summed axis by axis as written, and their first minimum."""
    n, m = source.shape[-2], target.shape[-2]
    batch = torch.broadcast_shapes(source.shape[:-2], target.shape[:-2])
    sources = source.expand(*batch, *source.shape[-2:]).reshape(-1, n, source.shape[-1])
    targets = target.expand(*batch, *target.shape[-2:]).reshape(-1, m, target.shape[-1])
    found = []
    rows = max(1, _HELD_DISTANCES // (n * m))
    for s, t in zip(sources.split(rows), targets.split(rows), strict=True):
        distance = torch.zeros(s.shape[0], m, n, dtype=s.dtype, device=s.device)
        for axis in range(s.shape[-1]):
            distance += (t[:, :, None, axis] - s[:, None, :, axis]).square()
        found.append(distance.argmin(dim=-1))
    return torch.cat(found).reshape(*batch, m)
