"""Other coordinates for the same operator: the moving frame and the mirror."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.parameters import choice
from chop.core.program import Frame, Transform
from chop.core.prompt import Field, Prompt, without_repeats
from chop.core.units import binary_unit, in_units
from chop.operators.domain import need_cyclic_grid, periodic_axis
from chop.operators.statistics import first_smallest, one_example


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
        axis, period = periodic_axis(prompt, self.name)
        if prompt.graph is not None:
            raise ProgramError("reflect would reorder the points of a graph; it is for grids")

        def mirror(coords: Tensor) -> tuple[Tensor, Tensor]:
            """Mirrored coordinates in ascending order, and that order."""
            coords = without_repeats(coords).clone()
            coords[..., axis] = torch.remainder(-coords[..., axis], period)
            order = _ascending(coords)
            return coords.gather(-2, order.unsqueeze(-1).expand_as(coords)), order

        def mirrored(part: Field) -> Field:
            coords, order = mirror(part.coords)
            mask = None if part.mask is None else _reorder(part.mask, order)
            return Field(coords, _reorder(part.values, order), mask)

        at, order = mirror(prompt.at)
        held_order = mirror(prompt.outputs.coords)[1]
        return Frame(
            prompt.mapped(
                inputs=mirrored(prompt.inputs),
                outputs=mirrored(prompt.outputs),
                query=mirrored(prompt.query),
                at=at.expand_as(prompt.at),
            ),
            back=lambda values: _reorder(values, order.argsort(dim=-1)),
            back_held_out=lambda values: _reorder(values, held_order.argsort(dim=-1)),
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
