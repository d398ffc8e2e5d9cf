"""What is visible in a prompt, summed up: pooled statistics and distances between inputs.

Transforms see a prompt as the model does: every value counts, whether it was observed or filled in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from chop.core.grids import nearest_index, resample
from chop.core.prompt import Field, Prompt
from chop.core.units import binary_unit, in_units

DISTANCE_FLOOR = 1e-4
"""Least scale of a feature in `feature_distance` (the paper's Air distance), of its root mean square."""


def machine_epsilon(values: Tensor) -> float:
    """The spacing of numbers at 1 in the dtype."""
    return torch.finfo(values.dtype).eps


def at_least(spread: Tensor, size: Tensor) -> Tensor:
    """A spread to divide by: no smaller than the rounding of numbers of that size.

    The paper's floor is the machine epsilon, for data of size 1; where all data are 0 it is that.
    """
    epsilon = machine_epsilon(spread)
    return torch.maximum(spread, epsilon * torch.where(size > 0, size, 1))


def everywhere(per_query: Tensor) -> Tensor:
    """One number a query, ``(...)``, to broadcast against ``(..., n, c)``."""
    return per_query[..., None, None]


def one_example(values: Tensor, which: Tensor) -> Tensor:
    """From ``(..., D, n, c)`` the example of each query that ``which (...)`` names: ``(..., n, c)``."""
    index = which[..., None, None, None].expand(*which.shape, 1, *values.shape[-2:])
    return values.gather(-3, index).squeeze(-3)


def first_smallest(costs: Tensor, size: Tensor) -> Tensor:
    """The first cost ``(..., R)`` that is the smallest up to rounding, as an index ``(...)``.

    ``size`` ``(...)`` is that of the terms the costs were summed from. Costs that are equal on paper
    come out unequal by the order of summation; that must not decide.
    """
    slack = 64 * torch.finfo(costs.dtype).eps * size
    smallest = costs.amin(dim=-1) + slack
    # argmax gives the first True; with NaN costs nothing is True and it gives 0.
    return (costs <= smallest.unsqueeze(-1)).to(torch.uint8).argmax(dim=-1)


@dataclass(frozen=True, eq=False)
class Visible:
    """All values a model sees of each query: inputs, outputs and query, all channels, ``(...)``."""

    prompt: Prompt

    @property
    def _parts(self) -> list[Tensor]:
        axes = len(self.prompt.batch)
        fields = (self.prompt.inputs, self.prompt.outputs, self.prompt.query)
        return [part.values.flatten(axes) for part in fields]

    @property
    def count(self) -> int:
        return sum(part.shape[-1] for part in self._parts)

    @property
    def smallest(self) -> Tensor:
        return torch.stack([part.amin(dim=-1) for part in self._parts]).amin(dim=0)

    @property
    def largest(self) -> Tensor:
        return torch.stack([part.amax(dim=-1) for part in self._parts]).amax(dim=0)

    @cached_property
    def size(self) -> Tensor:
        """The largest absolute value."""
        return torch.maximum(self.largest, -self.smallest)

    @cached_property
    def _unit(self) -> Tensor:
        return binary_unit(self.size)

    @cached_property
    def mean(self) -> Tensor:
        return torch.stack([part.sum(dim=-1) for part in self._parts]).sum(dim=0) / self.count

    @property
    def root_mean_square(self) -> Tensor:
        return self._root_of_squares(iter(self._parts), self.count)

    @property
    def std(self) -> Tensor:
        """The sample standard deviation, in two passes: cancellation would spoil small spreads."""
        centre = self.mean.unsqueeze(-1)
        return self._root_of_squares((part - centre for part in self._parts), self.count - 1)

    def _root_of_squares(self, parts: Iterator[Tensor], count: int) -> Tensor:
        squares = [in_units(part, self._unit.unsqueeze(-1)).square().sum(dim=-1) for part in parts]
        return (torch.stack(squares).sum(dim=0) / count).sqrt() * self._unit


def mean_rule(prompt: Prompt) -> tuple[Tensor, Tensor]:
    """(centre, scale): pooled mean and sample standard deviation (CHOP(Conservation)'s rule)."""
    visible = Visible(prompt)
    return visible.mean, at_least(visible.std, visible.size)


def mfc_rule(prompt: Prompt) -> tuple[Tensor, Tensor]:
    """(centre, scale): scale only for non-negative prompts, `mean_rule` for the others."""
    visible = Visible(prompt)
    epsilon = machine_epsilon(visible.size)
    positive = visible.smallest >= -epsilon * visible.size
    # Only data that are 0 throughout have no scale; the paper's floor stands in for it.
    size = torch.where(visible.size > 0, visible.root_mean_square, epsilon**0.5)
    if bool(positive.all()):
        return torch.zeros_like(size), size
    centre, spread = mean_rule(prompt)
    return torch.where(positive, torch.zeros_like(centre), centre), torch.where(positive, size, spread)


def input_distances(inputs: Field, target: Field, scale: Tensor) -> Tensor:
    """Mean squared scaled difference of each example input from one function: ``(..., D)``.

    ``inputs`` is ``(..., D, n, c)``, ``target`` ``(..., n', c)``; inputs are taken to the target's
    grid. ``scale`` broadcasts against ``(..., n', c)``.
    """
    distances = []
    for d in range(inputs.values.shape[-3]):
        # One example at a time, changed in place: with long windows the differences of all would dwarf
        # the prompt.
        index = nearest_index(inputs.coords.select(-3, d), target.coords)
        difference = resample(inputs.values.select(-3, d), index) - target.values
        distances.append(difference.div_(scale).square_().mean(dim=(-1, -2)))
    return torch.stack(distances, dim=-1)


def nearest_example(distances: Tensor) -> Tensor:
    """The position of the smallest distance ``(..., D)``, the first on ties."""
    return first_smallest(distances, distances.amin(dim=-1))


def feature_distance(prompt: Prompt) -> Tensor:
    """The Air distance of each example input from the query, ``(..., D)``.

    Each feature is scaled by its population standard deviation over example inputs and query.
    """
    inputs, query = prompt.inputs.values.flatten(-3, -2), prompt.query.values
    n, m = inputs.shape[-2], query.shape[-2]
    unit = binary_unit(torch.maximum(_largest(inputs), _largest(query)))
    inputs, query = (in_units(part, unit.unsqueeze(-2)) for part in (inputs, query))
    # The variance of the two together from that of each: no copy of the windows is made.
    variance, mean = torch.var_mean(inputs, dim=-2, correction=0)
    query_variance, query_mean = torch.var_mean(query, dim=-2, correction=0)
    within = (n * variance + m * query_variance) / (n + m)
    between = n * m / (n + m) ** 2 * (mean - query_mean).square()
    square = within + between
    floor = DISTANCE_FLOOR**2 * (square + ((n * mean + m * query_mean) / (n + m)).square())
    scale = torch.maximum(square, torch.where(floor > 0, floor, 1)).sqrt() * unit
    return input_distances(prompt.inputs, prompt.query, scale.unsqueeze(-2))


def _largest(values: Tensor) -> Tensor:
    """The largest absolute value of each channel over the points: ``(..., n, c) -> (..., c)``."""
    return torch.maximum(values.amax(dim=-2), -values.amin(dim=-2))


def mean_at_equal_times(values: Tensor, times: Tensor, weight: Tensor | None = None) -> Tensor:
    """For each point the mean over all points of its time: ``(..., m, c)``; times may be shared.

    With ``weight`` (same shape, 0 or 1) over the points that have it; 0 at times where none has.
    """
    order = times.argsort(dim=-1, stable=True)
    later = (times.gather(-1, order).diff(dim=-1) != 0).cumsum(dim=-1)
    number = torch.zeros_like(order).scatter(-1, order[..., 1:], later)
    frame = number.expand(values.shape[:-1]).unsqueeze(-1).expand_as(values)
    size = int(number.max()) + 1
    zeros = torch.zeros(*values.shape[:-2], size, values.shape[-1], dtype=values.dtype, device=values.device)
    counted = torch.ones_like(values) if weight is None else weight.to(values.dtype)
    total = zeros.scatter_add(-2, frame, values if weight is None else values * counted)
    count = zeros.scatter_add(-2, frame, counted)
    return (total / count.clamp(min=1)).gather(-2, frame)
