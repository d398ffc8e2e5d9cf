"""Validators that carry the errors seen on the examples over to the query: correct and debias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.fields import take_examples
from chop.core.grids import nearest_index, resample
from chop.core.parameters import choice, flag, integer, number, subprogram
from chop.core.program import Outcome, Program, Validator
from chop.core.prompt import Field, Prompt
from chop.core.running import error_in_units, error_unit
from chop.core.units import binary_unit, in_units
from chop.operators.statistics import everywhere, input_distances, mfc_rule

RESIDUAL_FLOOR = 1e-6
"""Least distance scale and least squared size in the fit of a correction, of the mean square of the data."""


def pad_flag(default: bool) -> Any:
    """The parameter ``pad`` of a validator."""
    return flag(default, "fill held-out prompts up to D examples by repeating the first")


def gap_number() -> Any:
    """The parameter ``gap`` of a validator."""
    return integer(0, 0, 8, "how many pairs after the hidden one are hidden too (1 for consecutive frames)")


class HeldOutValidator(Validator):
    """A validator that asks all its sub-programs and whose parameters say what is held out."""

    pad: bool
    gap: int

    @property
    def bases(self) -> tuple[Program, ...]:
        return tuple(part for part in self.parts() if isinstance(part, Program))

    @property
    def held_out_rule(self) -> tuple[bool, int]:
        return self.pad, self.gap


@final
@dataclass(frozen=True)
class Correct(HeldOutValidator):
    """Adds the errors seen at the example inputs, the more so the more alike the inputs (G_corr).

    Residuals of the held-out answers are averaged with weights that decay with the distance of their
    inputs from the query. One magnitude in [0, 1] is fitted by reconstructing each residual from the
    others, and the correction is used only if that fit lowers the in-context error.
    """

    name: ClassVar[str] = "correct"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "With the gate, the in-context error reported is that of the fit, before the gate."
    helps: ClassVar[str] = "when the model errs alike on like inputs"
    base: Program = subprogram("what is corrected")
    weights: str = choice("similar", ("similar", "uniform"), "weights by likeness of inputs, or all equal")
    magnitude: float | None = number(None, 0.0, 1.0, "a fixed magnitude instead of the fitted one")
    gate: bool = flag(True, "correct only if the fit lowers the in-context error")
    pad: bool = pad_flag(True)
    gap: int = gap_number()

    def decide(self, prompt: Prompt, answers: list[Tensor], held_out: list[Tensor]) -> Outcome:
        base, base_held_out = answers[0], held_out[0]
        outputs = prompt.outputs
        residuals = outputs.with_values(outputs.values - base_held_out)
        _, scale = mfc_rule(prompt)
        reach = RESIDUAL_FLOOR * _or_one(_mean_square(prompt.inputs.values, scale))
        to_query = self._weights(prompt.inputs, prompt.query, scale, reach)
        shape = transfer_residuals(residuals, prompt.at, to_query)
        shapes = []
        for h in range(prompt.examples):
            weight = self._weights(_without(prompt.inputs, h), _pair(prompt.inputs, h), scale, reach)
            shapes.append(transfer_residuals(_without(residuals, h), outputs.coords.select(-3, h), weight))
        rebuilt = torch.stack(shapes, dim=-3)
        unit = error_unit(outputs)
        least = RESIDUAL_FLOOR * _or_one(error_in_units(outputs, torch.zeros_like(outputs.values), unit))
        fitted = self._magnitude(rebuilt, residuals, unit, least)
        corrected = base_held_out + everywhere(fitted).unsqueeze(-1) * rebuilt
        base_error = error_in_units(outputs, base_held_out, unit)
        fitted_error = error_in_units(outputs, corrected, unit)
        opened = torch.isfinite(fitted_error) & (fitted_error < base_error)
        if not self.gate:
            opened = torch.ones_like(opened)
        # Not base + 0 * shape: a residual that is not finite must not reach an uncorrected answer.
        values = torch.where(everywhere(opened), base + everywhere(fitted) * shape, base)
        notes = {
            "magnitude": fitted,
            "gate open": opened,
            "error before": base_error * unit.square(),
            "error fitted": fitted_error * unit.square(),
            "weights": to_query,
            "input scale": scale,
        }
        return Outcome(values, corrected, notes)

    def _weights(self, inputs: Field, target: Field, scale: Tensor, least: Tensor) -> Tensor:
        """How much each example's residual counts at one function, ``(..., D)``, summing to 1.

        ``least`` ``(...)`` is the smallest distance that can tell examples apart.
        """
        if self.weights == "uniform":
            d = inputs.values.shape[-3]
            return torch.full_like(inputs.values[..., 0, 0], 1 / d)
        distances = input_distances(inputs, target, everywhere(scale))
        reach = torch.maximum(distances.mean(dim=-1), least)
        return torch.softmax(-distances / reach.unsqueeze(-1), dim=-1)

    def _magnitude(self, rebuilt: Tensor, residuals: Field, unit: Tensor, least: Tensor) -> Tensor:
        """The magnitude that best turns rebuilt residuals into the observed ones, ``(...)``.

        ``least`` is the smallest squared size, in squares of the unit, that is not rounding.
        """
        batch = rebuilt.shape[:-3]
        if self.magnitude is not None:
            return torch.full(batch, self.magnitude, dtype=rebuilt.dtype, device=rebuilt.device)
        each = unit[..., None, None, None]
        rebuilt, observed = in_units(rebuilt, each), in_units(residuals.values, each)
        product, size = rebuilt * observed, rebuilt.square()
        if residuals.mask is not None:
            product = torch.where(residuals.mask, product, 0)
            size = torch.where(residuals.mask, size, 0)
        total = torch.maximum(size.sum(dim=(-1, -2, -3)), least)
        return (product.sum(dim=(-1, -2, -3)) / total).clamp(0, 1)


@final
@dataclass(frozen=True)
class Debias(HeldOutValidator):
    """Adds the mean error seen at the example inputs, as it is or averaged over neighbouring stations.

    Held-out answers that are not finite count as zero, as in the paper.
    """

    name: ClassVar[str] = "debias"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Exact if the base errs by one fixed field."
    helps: ClassVar[str] = "against an error that is the same for all inputs, such as a bias of a region"
    base: Program = subprogram("what is corrected")
    smooth: str = choice("none", ("none", "graph"), "average the mean error over a station's neighbours")
    pad: bool = pad_flag(False)
    gap: int = gap_number()

    def decide(self, prompt: Prompt, answers: list[Tensor], held_out: list[Tensor]) -> Outcome:
        if self.smooth == "graph" and prompt.graph is None:
            raise ProgramError('debias(smooth="graph") needs a prompt with a graph')
        outputs = prompt.outputs
        clean = finite_or_zero(held_out[0])
        residuals = outputs.with_values(outputs.values - clean)
        bias = self._bias(prompt, residuals, prompt.at)
        others = [
            self._bias(prompt, _without(residuals, h), outputs.coords.select(-3, h))
            for h in range(prompt.examples)
        ]
        size = bias.square().mean(dim=(-1, -2)).sqrt()
        return Outcome(answers[0] + bias, clean + torch.stack(others, dim=-3), {"bias (rms)": size})

    def _bias(self, prompt: Prompt, residuals: Field, at: Tensor) -> Tensor:
        """The mean known residual at the points ``at``, ``(..., m, c)``; 0 where none is known."""
        even = torch.ones_like(residuals.values[..., 0, 0])
        mean = transfer_residuals(residuals, at, even / even.shape[-1])
        if self.smooth != "graph":
            return mean
        assert prompt.graph is not None
        return prompt.graph.average(mean, _known(residuals, at))


def transfer_residuals(residuals: Field, at: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean of known residuals at other points: ``(..., D, m, c) -> (..., m', c)``.

    ``weights`` is ``(..., D)`` and sums to 1. Where some residuals are unknown the weights of the
    others are raised in proportion; where all are, the result is 0.
    """
    index = nearest_index(residuals.coords, at.unsqueeze(-3))
    values = resample(residuals.values, index)
    wide = weights[..., None, None]
    if residuals.mask is None:
        return (wide * values).sum(dim=-3)
    known = resample(residuals.mask, index)
    weighed = torch.where(known, wide, 0)
    total = weighed.sum(dim=-3)
    mean = torch.where(known, wide * values, 0).sum(dim=-3) / torch.where(total > 0, total, 1)
    return torch.where(total > 0, mean, 0)


def finite_or_zero(values: Tensor) -> Tensor:
    """Non-finite entries replaced by zero, as the paper does before it uses held-out answers."""
    return torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _known(residuals: Field, at: Tensor) -> Tensor | None:
    """Where at least one residual is known, ``(..., m, c)``; None means everywhere."""
    if residuals.mask is None:
        return None
    index = nearest_index(residuals.coords, at.unsqueeze(-3))
    return resample(residuals.mask, index).any(dim=-3)


def _mean_square(values: Tensor, scale: Tensor) -> Tensor:
    """The mean square of functions ``(..., D, n, c)`` in squares of a scale ``(...)``."""
    unit = binary_unit(scale)
    length: Tensor = torch.linalg.vector_norm(in_units(values, unit[..., None, None, None]), dim=(-3, -2, -1))
    return (length / (scale / unit)).square() / values.shape[-3:].numel()


def _or_one(size: Tensor) -> Tensor:
    """A size that floors are relative to; 1 where there is none, because all data are 0 or unobserved."""
    return torch.where(size > 0, size, 1)


def _pair(part: Field, h: int) -> Field:
    return Field(part.coords.select(-3, h), part.values.select(-3, h))


def _without(part: Field, h: int) -> Field:
    """All pairs but one."""
    kept = [j for j in range(part.values.shape[-3]) if j != h]
    index = torch.tensor(kept, device=part.values.device)
    mask = None if part.mask is None else take_examples(part.mask, index)
    return Field(take_examples(part.coords, index), take_examples(part.values, index), mask)
