"""Other coordinates for the same operator: the moving frame and the mirror."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from chop.core.parameters import choice, flag, integer
from chop.core.program import Frame, Notes, Transform
from chop.core.prompt import Field, Prompt, without_repeats
from chop.core.units import binary_unit, in_units
from chop.operators.domain import circle, need_cyclic_grid
from chop.operators.statistics import first_smallest, one_example

_SAME_POINT = 1e-5
"""Of the period: points that come to lie no further apart are one, up to rounding."""


@final
@dataclass(frozen=True)
class MovingFrame(Transform):
    """Follows a travelling profile: the field with time index t is shifted by -t times one step's shift.

    The shift is the cyclic one, at most a quarter of the grid, that best takes the input of the latest
    example to its output (means removed; the smallest on ties). The answer, one step after the query,
    is shifted back. ``shift="spectral"`` refines the shift below the grid spacing and moves fields by
    their Fourier phases. Needs all fields on one regular periodic grid.
    """

    name: ClassVar[str] = "moving_frame"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "The way back undoes the way there, for every time index."
    helps: ClassVar[str] = "when transport hides a change of shape that the model could predict"
    shift: str = choice("grid", ("grid", "spectral"), "whole grid points, or fractions by Fourier phases")

    def fit(self, prompt: Prompt) -> Frame:
        need_cyclic_grid(prompt, self.name)
        assert prompt.times is not None
        spectral = self.shift == "spectral"
        move = _spectral_shift if spectral else _grid_shift

        def moved(part: Field, shift: Tensor) -> Field:
            # What was observed moves along; a fraction of a cell makes no difference to that.
            mask = None if part.mask is None else _grid_shift(part.mask, shift.round().long())
            return Field(part.coords, move(part.values, shift), mask)

        step = _estimated_shift(prompt, refine=spectral)
        times = prompt.times
        input_times, query_time = times[..., :-1], times[..., -1]
        each = step.unsqueeze(-1)
        mapped = prompt.mapped(
            inputs=moved(prompt.inputs, -input_times * each),
            outputs=moved(prompt.outputs, -(input_times + 1) * each),
            query=moved(prompt.query, -query_time * step),
        )
        return Frame(
            mapped,
            back=lambda values: move(values, (query_time + 1) * step),
            back_held_out=lambda values: move(values, (input_times + 1) * each),
            notes={"shift": step},
        )


@final
@dataclass(frozen=True)
class Reflect(Transform):
    """x -> -x on the periodic axis. Another view of the same operator, seen from the other side.

    Points are put back in ascending order of their coordinates, as models that read a grid expect.
    """

    name: ClassVar[str] = "reflect"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "The way back undoes the way there."
    helps: ClassVar[str] = "as a second view of the same operator in an average: the two err differently"

    def fit(self, prompt: Prompt) -> Frame:
        axis, period = circle(prompt, self.name)
        return _rearranged(prompt, axis, lambda places: torch.remainder(-places, period), {})


@final
@dataclass(frozen=True)
class Turn(Transform):
    """Turns the periodic axis until it begins at a landmark of the examples, plus some cells.

    The landmark is where an example input is largest in size. It moves with the data, so whatever stands
    inside is asked the same however the circle was cut open. A cell is the spacing of inputs or outputs,
    whichever are coarser: regular grids come to lie on themselves. Points are put back in ascending order.
    """

    name: ClassVar[str] = "turn"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = (
        "A prompt turned by cells gives the turned answer, whatever stands inside, if one value is largest."
    )
    helps: ClassVar[str] = "when a model's answer depends on where the circle begins"
    cells: int = integer(0, -1000, 1000, "how far beyond the landmark the axis begins")
    anchored: bool = flag(True, "count from the landmark; otherwise from where the axis begins now")

    def fit(self, prompt: Prompt) -> Frame:
        axis, period = circle(prompt, self.name)
        start, cell = _start(prompt, axis, period), period / _places(prompt, axis, period)
        by = self.cells * cell
        if self.anchored:
            # Whole cells: a little more than none keeps rounding from making it one less.
            by = by + torch.floor((_landmark(prompt, axis) - start) / cell + 1e-3) * cell

        def turned(places: Tensor) -> Tensor:
            begin, back = (each[(...,) + (None,) * (places.ndim - each.ndim)] for each in (start, by))
            moved = begin + torch.remainder(places - begin - back, period)
            return _snapped(moved, places, period)

        return _rearranged(prompt, axis, turned, {"turned by": by})


def _grids(prompt: Prompt, axis: int) -> list[Tensor]:
    """Places along an axis ``(..., D or nothing, n)``: of inputs, outputs, query and answer."""
    grids = (prompt.inputs.coords, prompt.outputs.coords, prompt.query.coords, prompt.at)
    return [grid[..., axis] for grid in grids]


def _start(prompt: Prompt, axis: int, period: float) -> Tensor:
    """Where each circle ``(...)`` is cut open: at 0, or at its lowest point if points lie elsewhere."""
    each = [grid.flatten(len(prompt.batch)) for grid in _grids(prompt, axis)]
    low = torch.stack([grid.amin(dim=-1) for grid in each]).amin(dim=0)
    high = torch.stack([grid.amax(dim=-1) for grid in each]).amax(dim=0)
    return torch.where((low >= 0) & (high <= period), 0, low)


def _places(prompt: Prompt, axis: int, period: float) -> Tensor:
    """How many places along the axis the coarsest input or output of a prompt has, ``(...)``."""
    counts = []
    for grid in _grids(prompt, axis)[:2]:
        apart = grid.sort(dim=-1).values.diff(dim=-1) > _SAME_POINT * period
        counts.append(1 + apart.sum(dim=-1).amin(dim=-1))
    return torch.minimum(*counts)


def _landmark(prompt: Prompt, axis: int) -> Tensor:
    """Where an example input is largest in size, by its first channel, ``(...)``."""
    inputs = prompt.inputs
    size = inputs.values[..., 0].abs()
    if inputs.mask is not None:
        size = torch.where(inputs.mask[..., 0], size, -1)
    largest = size.flatten(-2).argmax(dim=-1, keepdim=True)
    return inputs.coords[..., axis].flatten(-2).gather(-1, largest).squeeze(-1)


def _snapped(moved: Tensor, places: Tensor, period: float) -> Tensor:
    """Moved places ``(..., n)``, exactly where a point was if one was there but for rounding."""
    known = places.sort(dim=-1).values.expand_as(moved).contiguous()
    after = torch.searchsorted(known, moved.contiguous())
    near = _SAME_POINT * period
    for neighbour in (after.clamp(max=known.shape[-1] - 1), (after - 1).clamp(min=0)):
        there = known.gather(-1, neighbour)
        moved = torch.where((moved - there).abs() < near, there, moved)
    # What rounding left just below the end of the period is its beginning.
    first = known[..., :1]
    return torch.where((moved - first - period).abs() < near, first, moved)


def _rearranged(prompt: Prompt, axis: int, move: Callable[[Tensor], Tensor], notes: Notes) -> Frame:
    """The prompt with its places along an axis moved, and points put back in ascending order."""

    def ordered(coords: Tensor) -> tuple[Tensor, Tensor]:
        """Moved coordinates in ascending order, and that order."""
        once = without_repeats(coords)
        places = move(once[..., axis])
        moved = once.expand(*places.shape, -1).clone()
        moved[..., axis] = places
        order = _ascending(moved)
        moved = moved.gather(-2, order.unsqueeze(-1).expand_as(moved))
        # A grid that lies on itself stays the one grid of the whole batch.
        return (once if bool((moved == once).all()) else moved), order

    def moved(part: Field) -> Field:
        coords, order = ordered(part.coords)
        mask = None if part.mask is None else _reorder(part.mask, order)
        return Field(coords, _reorder(part.values, order), mask)

    at, order = ordered(prompt.at)
    held_order = ordered(prompt.outputs.coords)[1]
    return Frame(
        prompt.mapped(
            inputs=moved(prompt.inputs),
            outputs=moved(prompt.outputs),
            query=moved(prompt.query),
            at=at.expand_as(prompt.at),
        ),
        back=lambda values: _reorder(values, order.argsort(dim=-1)),
        back_held_out=lambda values: _reorder(values, held_order.argsort(dim=-1)),
        notes=notes,
    )


def _estimated_shift(prompt: Prompt, refine: bool) -> Tensor:
    """The shift of one time step in grid points, ``(...)``, from the pair with the largest time index."""
    assert prompt.times is not None
    latest = prompt.times[..., :-1].argmax(dim=-1)

    def centred(part: Field) -> Tensor:
        values = one_example(part.values, latest)
        return values - values.mean(dim=-2, keepdim=True)

    before, after = centred(prompt.inputs), centred(prompt.outputs)
    unit = binary_unit(torch.maximum(before.abs().amax(dim=(-1, -2)), after.abs().amax(dim=(-1, -2))))
    before, after = (in_units(part, unit[..., None, None]) for part in (before, after))
    n = before.shape[-2]
    reach = n // 4
    shifts = torch.arange(-reach - 1, reach + 2, device=before.device)
    points = torch.arange(n, device=before.device)
    rolled = before[..., (points - shifts[:, None]) % n, :]
    costs = (rolled - after.unsqueeze(-3)).square().sum(dim=(-1, -2))
    size = before.square().sum(dim=(-1, -2)) + after.square().sum(dim=(-1, -2))
    best = first_smallest(costs[..., 1:-1], size)
    whole = best - reach
    if not refine:
        return whole
    left, middle, right = (costs.gather(-1, (best + i).unsqueeze(-1)).squeeze(-1) for i in range(3))
    bend = left - 2 * middle + right
    part = torch.where(bend > 0, (left - right) / (2 * bend.clamp(min=torch.finfo(bend.dtype).tiny)), 0)
    return whole + part.clamp(-0.5, 0.5)


def _grid_shift(values: Tensor, shift: Tensor) -> Tensor:
    """Cyclic shift of ``(..., n, c)`` by whole numbers ``(...)``: the value at j moves to j + shift."""
    n = values.shape[-2]
    source = (torch.arange(n, device=values.device) - shift.unsqueeze(-1)) % n
    return values.gather(-2, source.unsqueeze(-1).expand_as(values))


def _spectral_shift(values: Tensor, shift: Tensor) -> Tensor:
    """The same by Fourier phases, for any real shift.

    The highest mode of an even grid has no phase of its own and stays where it is; so the inverse is
    exact.
    """
    n = values.shape[-2]
    modes = torch.arange(n // 2 + 1, device=values.device, dtype=values.dtype)
    if n % 2 == 0:
        modes[-1] = 0
    angle = -2 * math.pi / n * modes * shift.to(values.dtype).unsqueeze(-1)
    phases = torch.polar(torch.ones_like(angle), angle)
    shifted: Tensor = torch.fft.irfft(torch.fft.rfft(values, dim=-2) * phases.unsqueeze(-1), n=n, dim=-2)
    return shifted


def _ascending(coords: Tensor) -> Tensor:
    """The order of points ``(..., n)`` by first coordinate, then second, and so on."""
    order = torch.arange(coords.shape[-2], device=coords.device).expand(coords.shape[:-1])
    for axis in reversed(range(coords.shape[-1])):
        keys = coords[..., axis].gather(-1, order)
        order = order.gather(-1, keys.argsort(dim=-1, stable=True))
    return order


def _reorder(values: Tensor, order: Tensor) -> Tensor:
    """Points ``(..., n, c)`` in the given order, which the batch may share."""
    return values.gather(-2, order.unsqueeze(-1).expand(values.shape))
