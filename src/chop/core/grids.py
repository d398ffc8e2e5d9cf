"""Functions on different grids: who coincides with whom, and nearest-neighbour interpolation."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chop.core.prompt import without_repeats

_FEW_DISTANCES = 2**18
"""Distances of two grids up to which computing all of them is faster than a tree."""
_HELD_DISTANCES = 2**24
"""Distances in memory at once."""


def nearest_index(source: Tensor, target: Tensor) -> Tensor | None:
    """For each target point the nearest source point, the first on ties: ``(..., m)``.

    ``source`` is ``(..., n, k)``, ``target`` ``(..., m, k)``. None means identity: the grids coincide,
    and no distance was computed. Where only some elements of a batch coincide, those get the identity.
    """
    batch = np.broadcast_shapes(source.shape[:-2], target.shape[:-2])
    n, m = source.shape[-2], target.shape[-2]
    source = without_repeats(source.expand(*batch, *source.shape[-2:]))
    target = without_repeats(target.expand(*batch, *target.shape[-2:]))
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
    batch = np.broadcast_shapes(values.shape[:-2], index.shape[:-1])
    wide = values.expand(*batch, *values.shape[-2:])
    rows = index.expand(*batch, index.shape[-1]).unsqueeze(-1)
    return wide.gather(-2, rows.expand(*rows.shape[:-1], values.shape[-1]))


def same_grid(*grids: Tensor) -> bool:
    """Whether all grids ``(..., n, k)`` coincide, for every element of the batch."""
    first = without_repeats(grids[0])
    return all(
        grid.shape[-2:] == first.shape[-2:] and bool((without_repeats(grid) == _aligned(first, grid)).all())
        for grid in grids[1:]
    )


def _aligned(grid: Tensor, other: Tensor) -> Tensor:
    """Axes of examples inserted so that a query's grid broadcasts against its examples' grids."""
    while grid.ndim < other.ndim:
        grid = grid.unsqueeze(-3)
    return grid


def _search(source: Tensor, target: Tensor) -> Tensor:
    """The first nearest source of each target ``(..., m)``: by all distances, or by a tree where many."""
    n, m = source.shape[-2], target.shape[-2]
    batch = np.broadcast_shapes(source.shape[:-2], target.shape[:-2])
    sources = source.expand(*batch, *source.shape[-2:]).reshape(-1, n, source.shape[-1])
    targets = target.expand(*batch, *target.shape[-2:]).reshape(-1, m, target.shape[-1])
    if n * m > _FEW_DISTANCES:
        found = [_by_tree(s, t) for s, t in zip(sources, targets, strict=True)]
        return torch.stack(found).reshape(*batch, m)
    rows = max(1, _HELD_DISTANCES // (n * m))
    chunks = zip(sources.split(rows), targets.split(rows), strict=True)
    return torch.cat([_distances(s.unsqueeze(1), t).argmin(dim=-1) for s, t in chunks]).reshape(*batch, m)


def _distances(sources: Tensor, targets: Tensor) -> Tensor:
    """Squared Euclidean distances ``(..., m, p)`` of ``(..., m, k)`` from ``(..., m or 1, p, k)``.

    Summed axis by axis as written, so that all ways of searching agree to the last bit.
    """
    total = (targets[..., :, None, 0] - sources[..., 0]).square()
    for axis in range(1, sources.shape[-1]):
        total += (targets[..., :, None, axis] - sources[..., axis]).square()
    return total


def _by_tree(source: Tensor, target: Tensor) -> Tensor:
    """Nearest sources ``(m,)`` of one grid from a k-d tree, with the answer of `_distances` on ties."""
    found, unsure = _among_candidates(source, torch.arange(len(source), device=source.device), target)
    if bool(unsure.any()):  # repeated points crowd out others: each needs to be there once
        rest = unsure.nonzero().squeeze(-1)
        found[rest], unsure = _among_candidates(source, _first_of_each(source), target[rest])
        found[rest[unsure]] = _by_all(source, target[rest[unsure]])
    return found


def _among_candidates(source: Tensor, allowed: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest of the allowed sources, and where one that is not among the candidates may tie with it.

    A tree proposes a few candidates for each target; `_distances` decides among them.
    """
    from scipy.spatial import KDTree

    tree = KDTree(source[allowed].double().cpu().numpy())
    count = min(len(allowed), 2 ** source.shape[-1] + 1)  # as many as tie on a regular grid, and one more
    near = torch.from_numpy(tree.query(target.double().cpu().numpy(), count)[1]).to(source.device)
    # In the order of the stored points, so that the first on ties is the first of them.
    candidates = allowed[near.reshape(len(target), count)].sort(dim=-1).values
    distances = _distances(source[candidates], target)
    best, place = distances.min(dim=-1)
    limits = torch.finfo(source.dtype)
    crowded = distances.amax(dim=-1) <= best * (1 + 64 * limits.eps) + limits.tiny
    return candidates.gather(-1, place.unsqueeze(-1)).squeeze(-1), crowded & (count < len(allowed))


def _by_all(source: Tensor, target: Tensor) -> Tensor:
    """Nearest sources ``(m,)`` by all distances, so many at a time."""
    chunks = target.split(max(1, _HELD_DISTANCES // len(source)))
    return torch.cat([_distances(source.unsqueeze(0), chunk).argmin(dim=-1) for chunk in chunks])


def _first_of_each(source: Tensor) -> Tensor:
    """Where each distinct point first stands."""
    points, which = torch.unique(source, dim=0, return_inverse=True)
    stands = torch.arange(len(source), device=source.device)
    return torch.full((len(points),), len(source), device=source.device).scatter_reduce(
        0, which, stands, "amin"
    )
