"""The same question put otherwise, which should not matter: turned around the circle, examples backwards.

They only serve to ask a model: no program text has them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.fields import Field, without_repeats
from chop.core.program import Frame, Transform
from chop.core.prompt import Prompt
from chop.operators.domain import periodic_axis

_OFF_GRID = 1e-3
"""Of a cell: coordinates such as 0.01 * i are off by rounding only."""
_FINEST = 10_000
"""Places around a circle that are told apart."""
_PART = 1 / 3
"""Of the circle: no power of two, so that it is no symmetry of blocks of points by accident."""


@final
@dataclass(frozen=True)
class Turned(Transform):
    """Everything moved along the one periodic axis by about a third of its period, points staying in place.

    Needs functions on grids that the move takes to themselves.
    """

    name: ClassVar[str] = "turned"

    def fit(self, prompt: Prompt) -> Frame:
        axis, period = periodic_axis(prompt, self.name)
        if prompt.graph is not None:
            raise ProgramError("turned would move the points of a graph")
        parts = (prompt.inputs.coords, prompt.outputs.coords, prompt.query.coords, prompt.at)
        rings = [_ring(without_repeats(coords), axis, period) for coords in parts]
        common = math.gcd(*(ring.cells for ring in rings))
        steps = round(_PART * common)
        if steps < 1:
            raise ProgramError("turned needs grids with a move in common")
        inputs, outputs, query, at = (_sources(ring, steps * ring.cells // common) for ring in rings)
        mapped = prompt.mapped(
            inputs=_moved(prompt.inputs, inputs),
            outputs=_moved(prompt.outputs, outputs),
            query=_moved(prompt.query, query),
        )
        return Frame(
            mapped,
            back=lambda values: _taken(values, at.argsort(dim=-1)),
            back_held_out=lambda values: _taken(values, outputs.argsort(dim=-1)),
        )


@final
@dataclass(frozen=True)
class Backwards(Transform):
    """The examples backwards from the second, each with its time.

    Not from the last: examples that are repeated to fill a prompt up, a b a, would be the same backwards.
    """

    name: ClassVar[str] = "backwards"

    def fit(self, prompt: Prompt) -> Frame:
        order = (1 - torch.arange(prompt.examples, device=prompt.device)) % prompt.examples
        mapped = prompt.choose(order.expand(*prompt.batch, -1))
        return Frame(mapped, lambda values: values, lambda values: values.index_select(-3, order))


class _Ring(NamedTuple):
    """Points ``(..., n)`` of a grid around a circle."""

    cells: int
    cell: Tensor
    """The number of each point's cell."""
    others: Tensor
    """``(..., n, k - 1)`` its other coordinates."""


def _ring(coords: Tensor, axis: int, period: float) -> _Ring:
    along = coords[..., axis].double() / period
    first = along.reshape(-1, along.shape[-1])[0].remainder(1)
    cells = len(torch.unique((first * _FINEST).round() % _FINEST))
    place = (along - along[..., :1]) * cells
    if bool(((place - place.round()).abs() > _OFF_GRID).any()):
        raise ProgramError("turned needs functions on regular grids around the period")
    others = [i for i in range(coords.shape[-1]) if i != axis]
    return _Ring(cells, place.round().long() % cells, coords[..., others])


def _sources(ring: _Ring, steps: int) -> Tensor:
    """For each point the one ``(..., n)`` whose value comes to stand there."""
    moved = (ring.cell + steps) % ring.cells
    here, there = _order(ring.cell, ring.others), _order(moved, ring.others)
    same = torch.equal(ring.cell.gather(-1, here), moved.gather(-1, there))
    if not same or not torch.equal(_taken(ring.others, here), _taken(ring.others, there)):
        raise ProgramError("turned needs functions on whole grids")
    return there.gather(-1, here.argsort(dim=-1))


def _order(cell: Tensor, others: Tensor) -> Tensor:
    """Points by their other coordinates, then by their cell."""
    order = cell.argsort(dim=-1, stable=True)
    for i in reversed(range(others.shape[-1])):
        order = order.gather(-1, others[..., i].gather(-1, order).argsort(dim=-1, stable=True))
    return order


def _moved(part: Field, source: Tensor) -> Field:
    mask = None if part.mask is None else _taken(part.mask, source)
    return Field(part.coords, _taken(part.values, source), mask)


def _taken(values: Tensor, source: Tensor) -> Tensor:
    """Values ``(..., n, c)`` at other points, which the batch may share."""
    return values.gather(-2, source.unsqueeze(-1).expand(values.shape))
