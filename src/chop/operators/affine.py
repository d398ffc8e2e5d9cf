"""One affine map of values for a whole prompt: rescale, normalize, minmax, flip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.parameters import choice, flag, number
from chop.core.program import Frame, Notes, Transform
from chop.core.prompt import Prompt
from chop.core.units import binary_unit, in_units
from chop.operators.statistics import Visible, at_least, everywhere, mean_rule, mfc_rule


@dataclass(frozen=True, eq=False)
class Affine:
    """u -> (u - centre) / scale + offset; tensors broadcast against one function ``(..., n, c)``."""

    centre: Tensor
    scale: Tensor
    offset: float = 0.0

    def forward(self, values: Tensor) -> Tensor:
        return (values - self.centre) / self.scale + self.offset

    def backward(self, values: Tensor) -> Tensor:
        return (values - self.offset) * self.scale + self.centre

    def each(self) -> Affine:
        """The same map for ``(..., D, n, c)``: every example alike."""
        return Affine(self.centre.unsqueeze(-3), self.scale.unsqueeze(-3), self.offset)


def affine_frame(prompt: Prompt, inputs: Affine, outputs: Affine, notes: Notes) -> Frame:
    """Inputs and query through one map, outputs through another (or the same)."""
    mapped = prompt.mapped(
        inputs=prompt.inputs.with_values(inputs.each().forward(prompt.inputs.values)),
        outputs=prompt.outputs.with_values(outputs.each().forward(prompt.outputs.values)),
        query=prompt.query.with_values(inputs.forward(prompt.query.values)),
    )
    return Frame(mapped, outputs.backward, outputs.each().backward, notes)


@final
@dataclass(frozen=True)
class Rescale(Transform):
    """Centres and scales all visible values of a prompt with one affine map.

    ``center="auto"`` is the paper's rule for mean-field control: non-negative prompts are only scaled,
    by their root mean square, so that they stay non-negative; sign-changing ones are centred at their
    mean and scaled by their sample standard deviation. ``center="mean"`` does the latter always, as
    CHOP(Conservation) does.
    """

    name: ClassVar[str] = "rescale"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "The way back undoes the way there; the mapped prompt has the target spread."
    helps: ClassVar[str] = "when the values lie outside the range the model was trained on"
    center: str = choice("auto", ("auto", "mean"), "which rule gives centre and scale")
    target: float = number(1.0, 0.01, 100.0, "spread of the mapped prompt; a model may be at home at another")

    def fit(self, prompt: Prompt) -> Frame:
        centre, scale = mfc_rule(prompt) if self.center == "auto" else mean_rule(prompt)
        affine = Affine(everywhere(centre), everywhere(scale / self.target))
        return affine_frame(prompt, affine, affine, {"centre": centre, "scale": scale})


@final
@dataclass(frozen=True)
class Normalize(Transform):
    """VICON's prompt normalisation: channelwise mean and standard deviation of the example inputs.

    The same affine map takes inputs and outputs; ``separate`` gives outputs their own statistics, which
    is needed where they have other channels or units.
    """

    name: ClassVar[str] = "normalize"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "The way back undoes the way there; mapped inputs have mean 0 and that deviation."
    helps: ClassVar[str] = "when channels have different units"
    separate: bool = flag(False, "outputs are normalised by their own statistics")
    target: float = number(
        1.0, 0.01, 100.0, "deviation of mapped inputs; a model may be at home at another", searched=False
    )

    def fit(self, prompt: Prompt) -> Frame:
        inputs = self._statistics(prompt.inputs.values)
        if self.separate:
            outputs = self._statistics(prompt.outputs.values)
        elif prompt.inputs.channels != prompt.outputs.channels:
            raise ProgramError(
                f"normalize maps {prompt.inputs.channels} input channels and {prompt.outputs.channels} "
                "output channels alike, which needs equally many; use normalize(separate=True)"
            )
        else:
            outputs = inputs
        notes = {"centre": inputs.centre.squeeze(-2), "scale": inputs.scale.squeeze(-2)}
        inputs, outputs = (replace(one, scale=one.scale / self.target) for one in (inputs, outputs))
        return affine_frame(prompt, inputs, outputs, notes)

    @staticmethod
    def _statistics(values: Tensor) -> Affine:
        pooled = values.flatten(-3, -2)
        size = pooled.abs().amax(dim=-2, keepdim=True)
        unit = binary_unit(size)
        many = pooled.shape[-2] > 1
        spread = in_units(pooled, unit).std(dim=-2, keepdim=True) if many else torch.zeros_like(pooled)
        return Affine(pooled.mean(dim=-2, keepdim=True), at_least(spread * unit, size))


@final
@dataclass(frozen=True)
class Minmax(Transform):
    """Maps the range of all visible values to [-1, 1]. The simplest rescaling, led by extremes."""

    name: ClassVar[str] = "minmax"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "The way back undoes the way there; mapped values lie in [-1, 1]."
    helps: ClassVar[str] = "when a model was trained on values in [-1, 1]"

    def fit(self, prompt: Prompt) -> Frame:
        visible = Visible(prompt)
        low, high = visible.smallest, visible.largest
        half = at_least(high - low, visible.size) / 2
        affine = Affine(everywhere(low), everywhere(half), offset=-1.0)
        return affine_frame(prompt, affine, affine, {"low": low, "high": high})


@final
@dataclass(frozen=True)
class Flip(Transform):
    """u -> -u everywhere. Another view of the same operator, for models that know one sign better."""

    name: ClassVar[str] = "flip"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Its own inverse."
    helps: ClassVar[str] = "when a model knows one sign better, and as a second view in an average"

    def fit(self, prompt: Prompt) -> Frame:
        one = torch.ones((), dtype=prompt.dtype, device=prompt.device).reshape(1, 1)
        affine = Affine(torch.zeros_like(one), -one)
        return affine_frame(prompt, affine, affine, {})
