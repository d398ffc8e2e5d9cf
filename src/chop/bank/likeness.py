"""When two inputs are alike: functions as vectors, in the frame and scale that suit the bank's own data.

Three ways, of which the bank's data choose. ``plain`` compares values as they are. ``scaled`` compares
shapes: each function without its mean and divided by its size. ``aligned``, on a regular grid around a
circle, also turns each function so that the crest of its first Fourier mode stands at the first point. A way
is as good as the prediction it makes: the output of the nearest pair, taken back through frame and scale of
both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from chop.bank.pairs import PairForm, lies_on
from chop.core.fields import Field, covers_period, filled
from chop.core.grids import nearest_index, resample
from chop.numerics import Array

Way = Literal["plain", "scaled", "aligned"]


@dataclass(frozen=True, eq=False)
class Likeness:
    """One way to compare inputs.

    ``units`` ``(ci,)`` are those of the channels, powers of two times what channels differ by; ``origin``
    ``(d,)`` is a key in the middle of the others, which only makes computing with them more exact.
    """

    way: Way
    form: PairForm
    units: Array
    origin: Array

    def keys(self, inputs: Field) -> Array:
        """One vector ``(B, d)`` for each function, in double precision: what is near is alike."""
        return self.framed(inputs).keys

    def framed(self, inputs: Field) -> Framed:
        """Functions as vectors, with the centre, the size and the turn that were taken out of them."""
        values = self._values(inputs) / self.units
        count = len(values)
        centre, size, turn = np.zeros((count, 1, values.shape[2])), np.ones((count, 1, 1)), None
        if self.way != "plain":
            centre = values.mean(axis=1, keepdims=True)
            values = values - centre
            size = np.sqrt(np.square(values).mean(axis=(1, 2), keepdims=True))
            size = np.where(size > 0, size, 1.0)
            values = values / size
        if self.way == "aligned":
            turn = _crest(values[:, :, 0])
            values = turned(values, -turn)
        return Framed(values.reshape(count, -1), centre, size, turn)

    def predicted(self, outputs: Array, near: Framed, asked: Framed) -> Array:
        """What the outputs ``(B, m, co)`` of near inputs say about those asked about."""
        if self.way == "plain":
            return outputs
        units = self.units if outputs.shape[2] == self.form.input_channels else None
        carried = outputs if units is None else outputs / units - near.centre
        carried = carried / near.size
        if near.turn is not None and asked.turn is not None:
            carried = turned(carried, asked.turn - near.turn)
        carried = carried * asked.size
        return carried if units is None else (carried + asked.centre) * units

    def _values(self, inputs: Field) -> Array:
        """Values at the bank's points, what was not observed filled in."""
        values = inputs.values if inputs.mask is None else filled(inputs.values, inputs.mask)
        grid = self.form.input_coords
        if not lies_on(inputs, grid):
            values = resample(values, nearest_index(inputs.coords, grid.to(inputs.coords)))
        return values.detach().cpu().double().numpy()


@dataclass(frozen=True, eq=False)
class Framed:
    """Functions as vectors, and what was taken out of them; ``turn`` is in cells."""

    keys: Array
    centre: Array
    size: Array
    turn: Array | None


def ways(form: PairForm) -> tuple[Way, ...]:
    """Those that the points of a bank allow."""
    return ("plain", "scaled", "aligned") if _around_a_circle(form) else ("plain", "scaled")


def likeness(way: Way, form: PairForm, sample: Field) -> Likeness:
    """One way, with units and origin from a sample of the bank's inputs."""
    raw = Likeness("plain", form, np.ones(form.input_channels), np.zeros(form.input_size))
    values = raw.keys(sample).reshape(len(sample.values), -1, form.input_channels)
    largest = float(np.abs(values).max())
    power = 2.0 ** np.floor(np.log2(largest)) if largest > 0 else 1.0
    units = np.full(form.input_channels, power)
    if form.input_channels > 1:
        spread = (values / power).std(axis=(0, 1))
        units = units * np.where(spread > 0, spread, 1.0)
    unplaced = Likeness(way, form, units, raw.origin)
    return Likeness(way, form, units, unplaced.keys(sample).mean(axis=0))


def turned(values: Array, cells: Array) -> Array:
    """Functions ``(B, n, c)`` moved by whole cells ``(B,)`` around the circle."""
    n = values.shape[1]
    source = (np.arange(n)[None, :] - cells[:, None]) % n
    return np.asarray(np.take_along_axis(values, source[:, :, None], axis=1))


def _crest(values: Array) -> Array:
    """The cell ``(B,)`` where the first Fourier mode of functions ``(B, n)`` is largest."""
    n = values.shape[1]
    angle = 2 * np.pi * np.arange(n) / n
    phase = np.arctan2(values @ np.sin(angle), values @ np.cos(angle))
    return np.asarray(np.rint(phase / (2 * np.pi) * n).astype(np.int64) % n)


def _around_a_circle(form: PairForm) -> bool:
    """Whether inputs and outputs lie on one regular grid that covers a period."""
    if form.axes is None or len(form.axes) != 1 or form.axes[0].period is None:
        return False
    same = torch.equal(form.input_coords, form.output_coords)
    return same and covers_period(form.input_coords[:, 0], form.axes[0].period)
