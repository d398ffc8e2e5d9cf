"""Transforms of what the examples show: increments, and a choice of the nearest pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.grids import same_grid
from chop.core.parameters import integer
from chop.core.program import Frame, Transform
from chop.core.prompt import Field, Prompt
from chop.operators.statistics import feature_distance
from chop.operators.time_frames import extreme_frame


@final
@dataclass(frozen=True)
class Increment(Transform):
    """Asks the model for the change y - x instead of y; of an input with several frames, since the last one.

    Needs outputs with the channels of their inputs, at the places of their last frames.
    """

    name: ClassVar[str] = "increment"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "The way back undoes the way there: each answer has its own input added."
    helps: ClassVar[str] = (
        "when an output is close to its input and the model's error is in proportion to what it predicts"
    )

    def fit(self, prompt: Prompt) -> Frame:
        if prompt.inputs.channels != prompt.outputs.channels:
            raise ProgramError(
                f"increment subtracts inputs from outputs, but they have {prompt.inputs.channels} and "
                f"{prompt.outputs.channels} channels"
            )
        inputs = _last(prompt, prompt.inputs, prompt.outputs.coords)
        query = _last(prompt, prompt.query, prompt.at)
        return Frame(
            prompt.mapped(outputs=prompt.outputs.with_values(prompt.outputs.values - inputs)),
            back=lambda values: values + query,
            back_held_out=lambda values: values + inputs,
        )


def _last(prompt: Prompt, part: Field, at: Tensor) -> Tensor:
    """What is subtracted: inputs as they are on the grid of the outputs, else their last frame there."""
    if same_grid(part.coords, at):
        return part.values
    axis = prompt.axis("t") if prompt.axes_stated else None
    if axis is None:
        raise ProgramError("increment subtracts inputs from outputs and needs them on one grid")
    return extreme_frame(part, at, axis, "increment", last=True)


@final
@dataclass(frozen=True)
class NearestExamples(Transform):
    """Keeps the k examples whose inputs are closest to the query, in their order.

    Closeness is the Air distance: mean squared difference, each feature scaled by its standard
    deviation. A prompt with at most k examples stays as it is.
    """

    name: ClassVar[str] = "nearest_examples"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "The answer is not changed on the way back; with k at least D nothing is."
    helps: ClassVar[str] = "when some examples are far from the question"
    carries_held_out: ClassVar[bool] = False  # a left-out pair has no answer to be mapped back
    k: int = integer(3, 1, 64, "how many examples stay")

    def examples_after(self, examples: int) -> int:
        return min(self.k, examples)

    def hands_on(self, examples: int) -> bool:
        return self.k >= examples

    def fit(self, prompt: Prompt) -> Frame:
        if self.hands_on(prompt.examples):
            return Frame(prompt, lambda values: values, lambda values: values)
        # A stable sort: the first of equally near examples stays.
        nearest = feature_distance(prompt).argsort(dim=-1, stable=True)[..., : self.k]
        kept = nearest.sort(dim=-1).values
        return Frame(
            prompt.choose(kept), lambda values: values, lambda values: values, {"kept examples": kept + 1}
        )
