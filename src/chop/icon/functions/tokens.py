"""One rule that turns functions at points into tokens, and answers at tokens back into values.

Points are taken in stored order, row by row: a row is a run of points with the same t, if all rows are
equally long, else everything is one row. A row is cut into patches of at most ``patch`` points, as
equal as can be, and a token sees a window: its own patch and ``margin`` points to either side, around
the end of the row. So a window always has the same number of points, whatever the grid, and where they
lie is said relative to the token's centre, the middle point of its patch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from chop.core.prompt import without_repeats


@dataclass(frozen=True, eq=False)
class Patches:
    """Which points belong to which token: depends on the number of points and rows alone."""

    window: Tensor
    """``(tokens, window)`` point numbers"""
    centre: Tensor
    """``(tokens,)`` point numbers"""
    place: Tensor
    """``(points,)`` where a point's value is found among ``tokens * patch`` answers"""

    @property
    def tokens(self) -> int:
        return len(self.centre)


@lru_cache(maxsize=256)
def cut_patches(points: int, rows: int, patch: int, margin: int) -> Patches:
    """Tokens for ``rows`` equal runs of ``points`` points altogether."""
    # What is remembered here may be made in inference mode and must serve training too.
    with torch.inference_mode(False):
        length = points // rows
        patches = math.ceil(length / patch)
        starts = torch.tensor([j * length // patches for j in range(patches + 1)])
        own = starts.diff()
        slots = torch.arange(-margin, patch + margin)
        window = (starts[:-1, None] + slots) % length
        centre = starts[:-1] + own // 2
        place = torch.cat([j * patch + torch.arange(int(own[j])) for j in range(patches)])
        row = torch.arange(rows)
        return Patches(
            window=(row[:, None, None] * length + window).flatten(0, 1),
            centre=(row[:, None] * length + centre).flatten(),
            place=(row[:, None] * patches * patch + place).flatten(),
        )


def count_rows(coords: Tensor) -> Tensor:
    """How many rows each function has: ``coords`` is ``(..., n, k)``, the answer ``(...)`` integers."""
    n = coords.shape[-2]
    if coords.shape[-1] == 1:
        return torch.ones(coords.shape[:-2], dtype=torch.long, device=coords.device)
    changes = coords[..., 1:, 0] != coords[..., :-1, 0]
    rows = 1 + changes.sum(dim=-1)
    length = (n // rows.clamp(min=1)).clamp(min=1)
    place = torch.arange(1, n, device=coords.device)
    regular = (changes == (place % length[..., None] == 0)).all(dim=-1) & (rows * length == n)
    return torch.where(regular & (length > 1), rows, 1)


@dataclass(frozen=True, eq=False)
class TokenPlaces:
    """Where the tokens of functions lie: centres, and the points of each window relative to them."""

    patches: Patches
    centres: Tensor
    """``(..., tokens, 2)``: t and x"""
    geometry: Tensor
    """``(..., tokens, 3 * window)``: dt, sin and cos of dx"""


def token_places(coords: Tensor, patch: int, margin: int) -> TokenPlaces:
    """Tokens for functions ``(..., n, k)`` with one number of rows; shared leading axes stay lean."""
    coords = without_repeats(coords)
    rows = int(count_rows(coords).flatten()[0])
    cut = cut_patches(coords.shape[-2], rows, patch, margin)
    if coords.shape[-1] == 1:
        coords = torch.cat([torch.zeros_like(coords), coords], dim=-1)
    centres = coords[..., cut.centre.to(coords.device), :]
    seen = coords[..., cut.window.to(coords.device), :] - centres.unsqueeze(-2)
    angle = 2 * torch.pi * seen[..., 1]
    geometry = torch.cat([2 * seen[..., 0], angle.sin(), angle.cos()], dim=-1)
    return TokenPlaces(cut, centres, geometry)


def windows(values: Tensor, cut: Patches) -> Tensor:
    """What each token sees of values ``(..., n, c)``: ``(..., tokens, window * c)``."""
    return values[..., cut.window.to(values.device), :].flatten(-2)


def unpatch(answers: Tensor, cut: Patches, channels: int) -> Tensor:
    """Answers ``(..., tokens, patch * c)`` at the points: ``(..., n, c)``."""
    each: Tensor = answers.unflatten(-1, (-1, channels)).flatten(-3, -2)
    return each[..., cut.place.to(answers.device), :]


def interpolated(coords: Tensor, values: Tensor, points: int) -> Tensor:
    """A periodic function of x, given at ``coords (..., n, 1)``, at the points j / ``points``.

    Linear between neighbours, around the end too; exact where the grids share points.
    """
    return at_points(coords, values, regular_grid(points, like=values))


def regular_grid(points: int, like: Tensor) -> Tensor:
    """The points j / ``points``, ``(points, 1)``, with dtype and device of another tensor."""
    grid = torch.arange(points, device=like.device, dtype=torch.float64) / points
    return grid.to(like.dtype)[:, None]


def at_points(coords: Tensor, values: Tensor, wanted: Tensor) -> Tensor:
    """A periodic function of x at ``coords (..., n, 1)`` read at ``wanted (..., m, 1)``, linearly."""
    if coords.shape[-2:] == wanted.shape[-2:] and bool(
        (without_repeats(coords) == without_repeats(wanted)).all()
    ):
        return values
    known, order = torch.sort(coords[..., 0].remainder(1.0).expand(values.shape[:-1]), dim=-1)
    values = values.gather(-2, order.unsqueeze(-1).expand_as(values))
    x = wanted[..., 0].remainder(1.0)
    x = x.expand(*values.shape[:-2], x.shape[-1]).contiguous()
    # A hair of tolerance: the same point, written in floating point in two ways, is the same point.
    right = torch.searchsorted(known.contiguous(), x + 1e-6, right=True)
    n = known.shape[-1]
    left, right = (right - 1) % n, right % n
    low, high = known.gather(-1, left), known.gather(-1, right)
    gap = (high - low).remainder(1.0)
    gap = torch.where(gap > 0, gap, torch.ones_like(gap))
    share = ((x - low + 1e-6).remainder(1.0) - 1e-6) / gap
    share = torch.where(share < 1e-4, 0.0, share).clamp(max=1.0).unsqueeze(-1)
    left, right = (i.unsqueeze(-1).expand(*i.shape, values.shape[-1]) for i in (left, right))
    return values.gather(-2, left) * (1 - share) + values.gather(-2, right) * share
