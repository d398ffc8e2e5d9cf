"""A prompt as facts are read off it: what was observed of each example, in numbers that can be squared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from chop.core.fields import Field, filled, unchecked
from chop.core.prompt import Prompt
from chop.core.units import binary_unit
from chop.operators.inspection.fact import LEAST
from chop.operators.statistics import machine_epsilon

TOLERANCE = 1e-3
"""What counts as nothing, relative to what happens in an example (its change, its range, a cell of its grid).

Data written with four digits pass, and what a law fails by is seldom so small in every example:
`benchmarks/facts.py` counts how often.
"""


Read = TypeVar("Read")
"""What a fact is read off: a prompt as observed, or a model's answers at its examples."""


class Evidence(NamedTuple):
    """By how much each example ``(..., D)`` fails a law, and which of them can tell."""

    excess: Tensor
    telling: Tensor
    value: Tensor | None = None
    """What is shown, ``(...)``; the largest excess if left out."""


@dataclass(frozen=True)
class Trait(Generic[Read]):
    """Something that every example must keep up to ``limit`` for it to be claimed."""

    name: str
    says: str
    measure: str
    needs: str
    applies: Callable[[Read], Tensor]
    read: Callable[[Read], Evidence]
    limit: float = TOLERANCE
    least: int = LEAST


@dataclass(frozen=True)
class Measurement(Generic[Read]):
    """A number of each prompt that claims nothing."""

    name: str
    measure: str
    needs: str
    applies: Callable[[Read], Tensor]
    read: Callable[[Read], Tensor]
    choices: tuple[str, ...] = ()
    chosen: Callable[[Read], Tensor] | None = None
    """Which of the choices the number belongs to, ``(...)``."""


@dataclass(frozen=True, eq=False)
class Observed:
    """A prompt in float64 and in its own unit; the mean of what was seen stands where nothing was.

    Points of functions of one coordinate are in ascending order.
    """

    prompt: Prompt
    unit: Tensor
    """``(...)``, a power of two: what values were divided by."""
    epsilon: float
    """Of the numbers as they were given."""

    @classmethod
    def of(cls, prompt: Prompt) -> Observed:
        """What was observed of a prompt."""
        epsilon, wide = machine_epsilon(prompt.query.values), prompt.to(torch.float64)
        parts = {name: getattr(wide, name) for name in ("inputs", "outputs", "query")}
        largest = [_largest(part).flatten(len(prompt.batch)).amax(dim=-1) for part in parts.values()]
        unit = binary_unit(torch.stack(largest).amax(dim=0))
        return cls(wide.mapped(**{name: _settled(part, unit) for name, part in parts.items()}), unit, epsilon)

    @cached_property
    def paired(self) -> Tensor:
        """Which prompts ``(...)`` have outputs at the points and with the channels of their inputs."""
        if self.prompt.inputs.values.shape != self.prompt.outputs.values.shape:
            return self.nowhere
        return (self.apart <= TOLERANCE).all(dim=-1)

    @property
    def everywhere(self) -> Tensor:
        """All prompts."""
        return torch.ones_like(self.unit, dtype=torch.bool)

    @property
    def nowhere(self) -> Tensor:
        """None of the prompts."""
        return ~self.everywhere

    @cached_property
    def apart(self) -> Tensor:
        """How far the points of outputs lie from those of inputs, in mean spacings: ``(..., D)``."""
        inputs, outputs = self.prompt.inputs.coords, self.prompt.outputs.coords
        if inputs.shape != outputs.shape:
            return torch.full(self.prompt.inputs.batch, torch.inf, dtype=inputs.dtype, device=inputs.device)
        extent = inputs.amax(dim=-2) - inputs.amin(dim=-2)
        cell = extent.amax(dim=-1) / max(1, self.prompt.inputs.points - 1)
        return (inputs - outputs).abs().amax(dim=(-1, -2)) / torch.where(cell > 0, cell, 1)

    @cached_property
    def both(self) -> Tensor:
        """Where input and output of an example were observed; for paired prompts."""
        return self.prompt.inputs.observed & self.prompt.outputs.observed

    @cached_property
    def change(self) -> Tensor:
        """Root mean square of output minus input, by channel: ``(..., D, c)``; for paired prompts."""
        return root_mean_square(self.prompt.outputs.values - self.prompt.inputs.values, self.both)

    @cached_property
    def floor(self) -> Tensor:
        """What rounding leaves a thousandth of visible, by channel of paired prompts: ``(..., 1, c)``."""
        sizes = torch.maximum(_largest(self.prompt.inputs), _largest(self.prompt.outputs))
        return self.visible(sizes.amax(dim=-2, keepdim=True))

    def visible(self, size: Tensor) -> Tensor:
        """The least difference of numbers of that size of which a thousandth is more than rounding."""
        return self.epsilon / TOLERANCE * size

    @cached_property
    def moves(self) -> Tensor:
        """Where an example changes a channel so that something can be said of the change: ``(..., D, c)``."""
        return (self.change > self.floor) & self.both.any(dim=-2)


def mean_of(values: Tensor, seen: Tensor) -> Tensor:
    """The mean over the points that were seen: ``(..., n, c) -> (..., c)``; 0 where none was."""
    return torch.where(seen, values, 0).sum(dim=-2) / seen.sum(dim=-2).clamp(min=1)


def root_mean_square(values: Tensor, seen: Tensor) -> Tensor:
    """The same of the root mean square."""
    return mean_of(values.square(), seen).sqrt()


def lowest_and_highest(values: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """The range over the points that were seen, ``(..., c)``; inf and -inf where none was."""
    low, high = torch.where(seen, values, torch.inf), torch.where(seen, values, -torch.inf)
    return low.amin(dim=-2), high.amax(dim=-2)


def ratio(over: Tensor, under: Tensor) -> Tensor:
    """A quotient, as large as ``over`` where nothing is below it: who divides knows where that counts."""
    return over / torch.where(under > 0, under, 1)


def over_channels(excess: Tensor, telling: Tensor) -> Evidence:
    """An example ``(..., D, c)`` fails by its worst channel and can tell if one of them can."""
    return Evidence(torch.where(telling, excess, -torch.inf).amax(dim=-1), telling.any(dim=-1))


def _largest(part: Field) -> Tensor:
    """The largest size of what was observed, by channel: ``(..., c)``."""
    return torch.where(part.observed, part.values.abs(), 0).amax(dim=-2)


def _settled(part: Field, unit: Tensor) -> Field:
    """A function in units, filled where it was not observed, in the order of its one coordinate."""
    seen = part.observed
    scaled = filled(part.values, seen) / unit.reshape(*unit.shape, *(1,) * (part.values.ndim - unit.ndim))
    if part.coords.shape[-1] > 1:
        return unchecked(Field, coords=part.coords, values=scaled, mask=seen)
    order = part.coords.argsort(dim=-2, stable=True)
    wide = order.expand_as(scaled)
    return unchecked(
        Field,
        coords=part.coords.gather(-2, order),
        values=scaled.gather(-2, wide),
        mask=seen.gather(-2, wide),
    )
