"""The last frames of a trajectory forecast from the ones before, each step from the last one's answer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from chop.core.fields import Field
from chop.core.program import Program, Projection
from chop.core.prompt import Prompt
from chop.core.tasks import Answer, Steps


def last_examples(outputs: Field, count: int) -> Field:
    """The outputs of the last pairs."""
    first = outputs.values.shape[-3] - count
    return outputs.each(lambda tensor: tensor[..., first:, :, :])


def projected(projections: Sequence[Projection], prompt: Prompt, values: Tensor) -> Tensor:
    """An answer with what it has to obey."""
    for projection in projections:
        values, _ = projection.project(prompt, values)
    return values


def forecast_examples(
    prompt: Prompt, programs: Sequence[Program], projections: Sequence[Projection], steps: int
) -> Steps:
    """What each program makes of the last frames ``(..., steps, m, c)`` from the pairs before them."""
    kept = prompt.examples - steps
    index = torch.arange(kept, device=prompt.device).expand(*prompt.batch, kept)
    start = prompt.choose(index).mapped(query=_input(prompt.inputs, kept))
    asked = [start] * len(programs)
    found: list[list[Tensor]] = [[] for _ in programs]
    for _ in range(steps):
        outcomes = yield [Answer(program, one) for program, one in zip(programs, asked, strict=True)]
        for place, outcome in enumerate(outcomes):
            values = projected(projections, asked[place], outcome.values)
            found[place].append(values)
            asked[place] = asked[place].mapped(query=asked[place].query.with_values(values))
    return [torch.stack(each, dim=-3) for each in found]


def _input(inputs: Field, place: int) -> Field:
    """One of the inputs."""
    return inputs.each(lambda tensor: tensor[..., place, :, :])
