"""What physics or the examples demand of an answer, enforced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.parameters import number
from chop.core.program import Notes, Projection
from chop.core.prompt import Prompt, without_repeats
from chop.operators.domain import time_axis
from chop.operators.statistics import machine_epsilon, mean_at_equal_times


@final
@dataclass(frozen=True)
class ConserveMean(Projection):
    """Gives the answer the query's mean, channel by channel: mass is conserved."""

    name: ClassVar[str] = "conserve_mean"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "The answer's mean over its points is the query's; projecting twice changes nothing."
    helps: ClassVar[str] = "when the equation conserves what the model lets drift, most of all in rollouts"

    def project(self, prompt: Prompt, values: Tensor) -> tuple[Tensor, Notes]:
        if prompt.query.channels != values.shape[-1]:
            raise ProgramError(
                f"conserve_mean matches the query's mean, but the query has {prompt.query.channels} channels "
                f"and the answer {values.shape[-1]}"
            )
        added = prompt.query.values.mean(dim=-2, keepdim=True) - values.mean(dim=-2, keepdim=True)
        return values + added, {"added": added.squeeze(-2)}


@final
@dataclass(frozen=True)
class Nonnegative(Projection):
    """Sets negative values to zero: densities and concentrations."""

    name: ClassVar[str] = "nonnegative"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Nothing is below zero; projecting twice changes nothing."
    helps: ClassVar[str] = "for densities and concentrations, where a negative number means nothing"

    def project(self, prompt: Prompt, values: Tensor) -> tuple[Tensor, Notes]:
        return values.clamp(min=0), {"raised": (values < 0).sum(dim=(-1, -2))}


@final
@dataclass(frozen=True)
class UnitMass(Projection):
    """Divides by the mean, so that a density has mass 1; at each time where there is a time axis.

    A frame whose mean is not positive is left alone.
    """

    name: ClassVar[str] = "unit_mass"
    law: ClassVar[str] = "Each frame with positive mean gets mean 1; projecting twice changes nothing."
    helps: ClassVar[str] = "for densities, whose mass is 1 whatever the model says"

    def project(self, prompt: Prompt, values: Tensor) -> tuple[Tensor, Notes]:
        axis = time_axis(prompt, self.name)

        def mean(field: Tensor) -> Tensor:
            if axis is None:
                return field.mean(dim=-2, keepdim=True)
            return mean_at_equal_times(field, without_repeats(prompt.at)[..., axis])

        mass = mean(values)
        heavy = mass > machine_epsilon(values) * mean(values.abs())
        projected = torch.where(heavy, values / torch.where(heavy, mass, 1), values)
        return projected, {"mass": mass.mean(dim=(-1, -2))}


@final
@dataclass(frozen=True)
class WithinExamples(Projection):
    """Clips to the range of the observed example outputs, channel by channel."""

    name: ClassVar[str] = "within_examples"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Nothing lies outside the range seen; projecting twice changes nothing."
    helps: ClassVar[str] = "when a model overshoots on questions that are like the examples"

    def project(self, prompt: Prompt, values: Tensor) -> tuple[Tensor, Notes]:
        outputs = prompt.outputs.values.flatten(-3, -2)
        low = high = outputs
        if prompt.outputs.mask is not None:
            seen = prompt.outputs.mask.flatten(-3, -2)
            low = torch.where(seen, outputs, torch.inf)
            high = torch.where(seen, outputs, -torch.inf)
        smallest, largest = low.amin(dim=-2, keepdim=True), high.amax(dim=-2, keepdim=True)
        known = smallest <= largest  # nothing observed: nothing to clip to
        clipped = torch.where(known, torch.minimum(torch.maximum(values, smallest), largest), values)
        return clipped, {"clipped": (clipped != values).sum(dim=(-1, -2))}


@final
@dataclass(frozen=True)
class BoundVariation(Projection):
    """Shrinks the answer towards its mean until its total variation is at most the query's.

    Solutions of a scalar conservation law never grow rougher; a network asked for step after step may.
    For functions of one coordinate, around its period where it has one.
    """

    name: ClassVar[str] = "bound_variation"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = (
        "The total variation is at most the query's, the mean stays; projecting twice changes nothing."
    )
    helps: ClassVar[str] = "in long rollouts of conservation laws, where a network roughens step by step"

    def project(self, prompt: Prompt, values: Tensor) -> tuple[Tensor, Notes]:
        axes = prompt.axes or ()
        if len(axes) != 1:
            raise ProgramError(
                f"bound_variation needs functions of one coordinate, not of {', '.join(a.name for a in axes)}"
            )
        if prompt.query.channels != values.shape[-1]:
            raise ProgramError(
                f"bound_variation compares with the query, which has {prompt.query.channels} channels; the "
                f"answer has {values.shape[-1]}"
            )
        around = axes[0].period is not None
        allowed = variation(prompt.query.values, prompt.query.coords, around)
        found = variation(values, prompt.at, around)
        kept = torch.where(found > allowed, allowed / found, 1)
        mean = values.mean(dim=-2, keepdim=True)
        shrunk = torch.where(kept < 1, mean + kept * (values - mean), values)
        return shrunk, {"kept": kept.squeeze(-2)}


@final
@dataclass(frozen=True)
class Finite(Projection):
    """Replaces NaN and infinities by a number, 0 as in the paper. Without it such answers are rejected."""

    name: ClassVar[str] = "finite"
    law: ClassVar[str] = "Everything is finite; finite values are unchanged."
    helps: ClassVar[str] = "when a number is wanted at any price; without it such an answer is rejected"
    fill: float = number(0.0, -1e6, 1e6, "what takes the place of a non-finite value")

    def project(self, prompt: Prompt, values: Tensor) -> tuple[Tensor, Notes]:
        bad = ~torch.isfinite(values)
        return torch.where(bad, self.fill, values), {"replaced": bad.sum(dim=(-1, -2))}


def variation(values: Tensor, coords: Tensor, around: bool) -> Tensor:
    """Total variation ``(..., 1, c)`` along the one coordinate, whatever the order of the points."""
    order = without_repeats(coords)[..., 0].argsort(dim=-1)
    ordered = values.gather(-2, order.unsqueeze(-1).expand(values.shape))
    closed = torch.cat([ordered, ordered[..., :1, :]], dim=-2) if around else ordered
    return closed.diff(dim=-2).abs().sum(dim=-2, keepdim=True)
